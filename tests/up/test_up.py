"""bin/up from outside: what API.md says of starting, stopping, and of processes that die."""

import os
import re
import signal
import socket
import stat

import psycopg
import pytest

from chronoproject import linux
from tests.up.standin import Chrono, eventually

KEYS = {
    "api_url",
    "admin_url",
    "flower_url",
    "admin_user",
    "admin_password",
    "api_token",
    "team",
    "database_url",
    "redis_url",
    "processes",
}
NAMES = ["web", "dispatcher-1", "dispatcher-2", "worker-1", "maintenance", "flower"]


def test_a_detached_start_returns_ready_with_all_of_up_json(running: Chrono) -> None:
    assert running.started is not None
    assert set(running.up_json) == KEYS
    assert stat.S_IMODE((running.home / "up.json").stat().st_mode) == 0o600
    assert sorted(running.pids) == sorted(NAMES)
    assert all(linux.start_ticks(pid) for pid in running.pids.values())
    for secret in ("api_token", "admin_password"):
        assert running.up_json[secret] in running.started.stdout
        assert running.up_json[secret] not in running.log("up") + running.log("bootstrap")
    status = running.up("--status")
    assert status.returncode == 0
    assert running.up_json["api_url"] in status.stdout


def test_children_get_no_file_of_the_supervisor(running: Chrono) -> None:
    # Nought, one and two; so the lock ends with the supervisor.
    assert "at work [0, 1, 2]" in running.log("dispatcher-1")


def test_what_dies_is_started_again_and_up_json_says_so(running: Chrono) -> None:
    old = running.pids
    killed = {"dispatcher-1", "web"}
    for name in killed:
        os.kill(old[name], signal.SIGKILL)
    assert eventually(lambda: all(running.pids[name] != old[name] for name in killed))
    assert {name for name in NAMES if running.pids[name] != old[name]} == killed
    ended = f"dispatcher-1 (pid {old['dispatcher-1']}) was ended by SIGKILL"
    again = f"dispatcher-1 started again, pid {running.pids['dispatcher-1']}"
    assert eventually(lambda: ended in running.log("up") and again in running.log("up"))


@pytest.mark.parametrize("words", [(), ("--detach",)])
def test_a_second_start_is_refused_while_the_first_lives(
    running: Chrono, words: tuple[str, ...]
) -> None:
    before = running.pids
    second = running.up(*words)
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert f"already runs in {running.home}" in second.stderr
    assert running.pids == before
    assert all(linux.start_ticks(pid) for pid in before.values())


def test_another_home_runs_beside_and_its_stop_leaves_no_process(
    running: Chrono, chrono: Chrono
) -> None:
    before = running.pids
    assert chrono.up("--detach").returncode == 0
    assert chrono.processes() != []
    stopped = chrono.up("--stop")
    assert stopped.returncode == 0, stopped.stderr
    assert chrono.processes() == []
    assert not (chrono.home / "up.json").exists()
    assert chrono.up("--status").returncode == 3
    assert running.pids == before
    assert all(linux.start_ticks(pid) for pid in before.values())


def test_kill_9_of_the_supervisor_ends_all_and_the_next_start_is_clean(chrono: Chrono) -> None:
    chrono.up("--detach")
    first = chrono.up_json
    os.kill(chrono.supervisor, signal.SIGKILL)
    second = chrono.up("--detach")
    assert second.returncode == 0, second.stderr
    for name in ("api_token", "admin_password", "team"):
        assert chrono.up_json[name] == first[name]
    assert first["api_token"] not in second.stdout  # told once, and kept in up.json
    old = {one["pid"] for one in first["processes"]}
    assert old.isdisjoint(chrono.processes())
    assert old.isdisjoint(chrono.pids.values())


def test_status_tells_what_a_killed_supervisor_left(chrono: Chrono) -> None:
    started = chrono.up("--detach", FAKE_STUBBORN="worker-1")
    assert started.returncode == 0, started.stderr
    pids = chrono.pids
    os.kill(chrono.supervisor, signal.SIGKILL)
    others = [pid for name, pid in pids.items() if name != "worker-1"]
    assert eventually(lambda: not any(linux.start_ticks(pid) for pid in others))
    status = chrono.up("--status")
    assert status.returncode == 3
    # web and flower have no child that could outlive them
    assert status.stdout.splitlines() == [
        f"No supervisor runs in {chrono.home}, but what it left does; bin/up --stop ends it",
        f"  dispatcher-1   pid {pids['dispatcher-1']:<8} is gone, but not all of its group",
        f"  dispatcher-2   pid {pids['dispatcher-2']:<8} is gone, but not all of its group",
        f"  worker-1       pid {pids['worker-1']:<8} still lives",
        f"  maintenance    pid {pids['maintenance']:<8} is gone, but not all of its group",
    ]
    assert chrono.up("--stop").returncode == 0
    status = chrono.up("--status")
    assert (status.returncode, status.stdout) == (3, f"Nothing runs in {chrono.home}\n")


def test_stop_ends_what_a_killed_supervisor_left(chrono: Chrono) -> None:
    chrono.up("--detach")
    os.kill(chrono.supervisor, signal.SIGKILL)
    stopped = chrono.up("--stop")
    assert stopped.returncode == 0, stopped.stderr
    assert chrono.processes() == []
    assert not (chrono.home / "up.json").exists()


def test_ctrl_c_ends_a_foreground_start(chrono: Chrono) -> None:
    with chrono.in_foreground() as supervisor:
        assert supervisor.stdout is not None
        lines = []
        for line in supervisor.stdout:
            lines.append(line)
            if "Chrono is ready." in line:
                supervisor.send_signal(signal.SIGINT)
        assert supervisor.wait(30) == 0
    assert any(re.match(r"\d\d:\d\d:\d\d dispatcher-1 \| at work", line) for line in lines)
    assert chrono.processes() == []


def test_its_own_servers_are_started_kept_alive_and_stopped(chrono: Chrono) -> None:
    del chrono.env["DATABASE_URL"], chrono.env["REDIS_URL"]
    started = chrono.up("--detach")
    assert started.returncode == 0, started.stderr
    old = chrono.pids
    assert list(old) == ["postgres", "valkey", *NAMES]
    with psycopg.connect(chrono.up_json["database_url"]) as connection:
        connection.execute("CREATE TABLE kept (id int)")
    for name in ("postgres", "valkey"):
        os.kill(old[name], signal.SIGKILL)
    assert eventually(
        lambda: all(chrono.pids[name] != old[name] for name in ("postgres", "valkey"))
    )
    assert eventually(lambda: has_table(chrono))
    url = chrono.up_json["database_url"]

    assert chrono.up("--stop").returncode == 0
    assert not any(linux.start_ticks(pid) for pid in old.values())
    assert not (chrono.home / "postgres" / "data" / "postmaster.pid").exists()
    assert chrono.up("--detach").returncode == 0
    assert chrono.up_json["database_url"] == url
    assert has_table(chrono)


def has_table(chrono: Chrono) -> bool:
    try:
        with psycopg.connect(chrono.up_json["database_url"]) as connection:
            return connection.execute("SELECT to_regclass('kept')").fetchone() == ("kept",)
    except psycopg.OperationalError:
        return False  # it is coming up


# --- faults: one clear line, a nonzero exit, nothing left ----------------------------------------


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("DATABASE_URL", "postgresql://chrono:x@127.0.0.1:1/chrono", "Connection refused"),
        ("DATABASE_URL", "mysql://127.0.0.1/chrono", "postgresql://user:password@host:port/name"),
        ("REDIS_URL", "redis://127.0.0.1:1/0", "refused"),
        ("REDIS_URL", "http://127.0.0.1:1/0", "redis://:password@host:port/0"),
        ("CHRONO_PORT", "eighty", "CHRONO_PORT must be a whole number from 1 to 65535"),
        ("CHRONO_HOME", "/dev/null/home", "cannot write in CHRONO_HOME /dev/null/home"),
        ("FAKE_FAILING", "migrate", "no such table"),
        ("FAKE_FAILING", "check", "check ended with 1: no shim"),
        ("FAKE_FAILING", "dispatcher-2", "dispatcher-2 does not stay up"),
    ],
)
def test_a_fault_is_told_in_one_line(chrono: Chrono, setting: str, value: str, told: str) -> None:
    done = chrono.up(**{setting: value})
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.startswith("bin/up: ")
    assert done.stderr.count("\n") == 1
    assert chrono.processes() == []


def test_a_fault_of_a_detached_start_is_told_too(chrono: Chrono) -> None:
    done = chrono.up("--detach", FAKE_FAILING="migrate")
    assert done.returncode == 1
    assert done.stderr.startswith("bin/up: migrate ended with 1: no such table")
    assert chrono.processes() == []


@pytest.mark.parametrize("words", [(), ("--detach",)])
def test_what_a_worker_refuses_is_told_as_its_sentence(
    chrono: Chrono, words: tuple[str, ...]
) -> None:
    done = chrono.up(*words, FAKE_REFUSED="CHRONO_RUN_AS: no user 'x'")
    assert done.returncode == 1
    assert done.stderr == "bin/up: CHRONO_RUN_AS: no user 'x'\n"
    assert chrono.processes() == []


def test_without_workers_nobody_asks_what_they_need(chrono: Chrono) -> None:
    done = chrono.up("--detach", CHRONO_WORKERS="0", FAKE_REFUSED="CHRONO_RUN_AS: no user 'x'")
    assert done.returncode == 0, done.stderr
    assert "worker-1" not in chrono.pids


def test_a_wrong_password_is_told_without_the_password(chrono: Chrono) -> None:
    url = chrono.env["DATABASE_URL"]
    wrong = re.sub(r"//(\w+):[^@]+@", r"//\1:not-this-one@", url)
    done = chrono.up(DATABASE_URL=wrong)
    assert done.returncode == 1
    assert "password authentication failed" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "not-this-one" not in done.stderr


@pytest.mark.parametrize("name", ["CHRONO_PORT", "CHRONO_FLOWER_PORT"])
def test_a_taken_port_is_told(chrono: Chrono, name: str) -> None:
    with socket.create_server(("127.0.0.1", int(chrono.env[name]))):
        done = chrono.up()
    assert done.returncode == 1
    assert f"port {chrono.env[name]} of 127.0.0.1 is taken; choose another by {name}" in done.stderr
    assert chrono.processes() == []
