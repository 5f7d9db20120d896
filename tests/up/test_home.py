"""CHRONO_HOME, the settings of bin/up, and what a supervisor leaves in writing."""

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from chronoproject import linux
from chronoproject.up import leftovers, plan, state
from chronoproject.up.config import Config
from chronoproject.up.faults import UpError
from chronoproject.up.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


def test_secrets_are_made_once_and_private(home: Home) -> None:
    home.make_secrets()
    first = home.credentials.read_text(encoding="utf-8")
    key = home.secret_key.read_text(encoding="utf-8")
    home.make_secrets()
    assert home.credentials.read_text(encoding="utf-8") == first
    assert home.secret_key.read_text(encoding="utf-8") == key
    assert set(json.loads(first)) == {"team", "api_token", "admin_user", "admin_password"}
    for path in (home.credentials, home.secret_key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (home.show_secrets_once(), home.show_secrets_once()) == (True, False)


def test_one_supervisor_holds_a_home(home: Home) -> None:
    assert home.supervisor() is None
    with home.held():
        assert home.supervisor() == os.getpid()
        with pytest.raises(UpError, match="already runs"), Home(home.path).held():
            pytest.fail("two supervisors hold one home")
    assert home.supervisor() is None


def test_a_home_that_cannot_be_written_is_told_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UpError, match=f"cannot write in CHRONO_HOME {tmp_path}/file/home: "):
        Home(tmp_path / "file" / "home").prepare()


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"CHRONO_PORT": "0"}, "CHRONO_PORT must be a whole number from 1 to 65535, not '0'"),
        ({"CHRONO_WORKERS": "-1"}, "CHRONO_WORKERS must be"),
        ({"CHRONO_DISPATCHERS": "two"}, "not 'two'"),
        ({"CHRONO_DRAIN_SEC": "nan"}, "CHRONO_DRAIN_SEC must be a number of seconds"),
        ({"CHRONO_PORT": "5555"}, "CHRONO_PORT and CHRONO_FLOWER_PORT are both 5555"),
        ({"DATABASE_URL_FILE": "/nowhere/url"}, "DATABASE_URL_FILE: cannot read /nowhere/url"),
    ],
)
def test_a_bad_setting_is_told_by_its_name(env: dict[str, str], told: str) -> None:
    with pytest.raises(UpError, match=told):
        Config.read(env)


def test_settings_have_the_defaults_of_the_contract() -> None:
    config = Config.read({"CHRONO_PORT": ""})
    assert (config.port, config.flower_port) == (8000, 5555)
    assert (config.dispatchers, config.workers, config.worker_concurrency) == (2, 1, 4)
    assert config.home.name == "var"


def test_children_get_addresses_secrets_and_their_own_healthz(home: Home) -> None:
    given = {"CHRONO_HTTP_ALLOW": "10.0.0.1", "CHRONO_SECRET_KEY": "", "PATH": "/bin"}
    config = Config.read(given | {"CHRONO_HOME": str(home.path), "CHRONO_PORT": "8123"})
    env = plan.environment(config, home, given, database_url="d", redis_url="r")
    assert env["CHRONO_HTTP_ALLOW"] == "10.0.0.1,127.0.0.1:8123"
    assert (env["DATABASE_URL"], env["REDIS_URL"], env["PATH"]) == ("d", "r", "/bin")
    assert env["CHRONO_SECRET_KEY_FILE"] == str(home.secret_key)
    assert "CHRONO_SECRET_KEY" not in env
    assert env["PYTHONTZPATH"] == ""


def test_what_asks_for_work_stops_before_what_does_it_and_servers_last() -> None:
    stages = plan.stop_stages(Config.read({"CHRONO_WORKERS": "2", "CHRONO_DISPATCHERS": "1"}))
    assert stages == [
        ["web", "dispatcher-1", "maintenance", "flower"],
        ["worker-1", "worker-2"],
        ["valkey"],
        ["postgres"],
    ]


# --- leftovers of a killed supervisor ---------------------------------------------------------


def sleeper(script: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        ["/bin/sh", "-c", script], env=env, process_group=0, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def identity(pid: int) -> linux.Identity:
    found = linux.identify(pid)
    assert found is not None
    return found


def test_a_recorded_process_that_stays_is_killed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_SEC", 0.2)
    with sleeper("trap '' TERM; echo ready; while :; do sleep 1; done", {}) as child:
        state.write_processes(home, {"web": identity(child.pid)})
        said: list[str] = []
        # It stays a zombie until we reap it, which counts as ended.
        leftovers.end_leftovers(home, state.read_processes(home), said.append)
        assert child.wait(10) == -signal.SIGKILL
    assert said[-1] == f"an earlier web (group {child.pid}) did not end: killed"


def test_a_number_that_another_process_has_now_is_left_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_SEC", 0.2)
    with sleeper("echo ready; exec sleep 600", {}) as child:
        known = identity(child.pid)
        for reused in (
            linux.Identity(known.pid, known.started - 1, known.boot),
            linux.Identity(known.pid, known.started, "another boot"),
        ):
            leftovers.end_leftovers(home, {"web": reused}, lambda _: None)
            assert child.poll() is None
        child.kill()


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_group_without_its_leader_is_killed_only_if_it_is_ours(
    home: Home, monkeypatch: pytest.MonkeyPatch, *, is_ours: bool
) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_SEC", 0.2)
    env = {"CHRONO_HOME": str(home.path) if is_ours else "another"}
    with sleeper("sleep 600 >/dev/null & echo ready; wait", env) as leader:
        known = identity(leader.pid)
        leader.kill()
        leader.wait()
        assert linux.group_members(leader.pid) != []
        leftovers.end_leftovers(home, {"worker-1": known}, lambda _: None)
        assert (linux.group_members(leader.pid) == []) is is_ours
        if not is_ours:
            linux.signal_group(leader.pid, signal.SIGKILL)
