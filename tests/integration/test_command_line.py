"""manage.py: whose servers it works on, and the one line of a command that cannot do its work."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from chronoproject.commandline import take_addresses
from tests.servers import Addresses

NOWHERE = "postgresql://chrono:secret@127.0.0.1:9/none"


def manage(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run manage.py as a person does: with no address in the environment but those given."""
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CHRONO_", "DATABASE_URL", "REDIS_URL"))
    }
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=settings.BASE_DIR,
        env=plain | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write_up_json(home: Path, **members: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "up.json").write_text(json.dumps(members), encoding="utf-8")


# --- addresses ------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_without_addresses_it_works_on_what_runs_in_the_home(
    private_servers: Addresses, tmp_path: Path
) -> None:
    write_up_json(
        tmp_path, database_url=private_servers.database_url, redis_url=private_servers.redis_url
    )
    done = manage("verify_ticks", CHRONO_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 jobs, 0 ticks" in done.stdout


OWN = {"database_url": "postgresql://own", "redis_url": "redis://own"}
TAKEN = {"DATABASE_URL": "postgresql://own", "REDIS_URL": "redis://own"}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({}, TAKEN),
        ({"DATABASE_URL": "", "REDIS_URL": ""}, TAKEN),
        ({"DATABASE_URL": "postgresql://own"}, TAKEN),
        ({"DATABASE_URL": "postgresql://x"}, {"DATABASE_URL": "postgresql://x"}),
        ({"REDIS_URL": "redis://x"}, {"REDIS_URL": "redis://x"}),
        ({"DATABASE_URL_FILE": "/x"}, {"DATABASE_URL_FILE": "/x"}),
        (
            {"DATABASE_URL": "postgresql://x", "REDIS_URL_FILE": "/x"},
            {"DATABASE_URL": "postgresql://x", "REDIS_URL_FILE": "/x"},
        ),
    ],
    ids=str,
)
def test_addresses_that_are_given_win_and_are_never_mixed(
    given: dict[str, str], taken: dict[str, str], tmp_path: Path
) -> None:
    write_up_json(tmp_path, **OWN)
    environ = given | {"CHRONO_HOME": str(tmp_path)}
    take_addresses(environ)
    assert environ == taken | {"CHRONO_HOME": str(tmp_path)}


def test_a_home_where_nothing_runs_has_no_addresses(tmp_path: Path) -> None:
    for home in (tmp_path, tmp_path / "none", Path("/dev/null")):
        environ = {"CHRONO_HOME": str(home)}
        take_addresses(environ)
        assert environ == {"CHRONO_HOME": str(home)}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"database_url": "x"}'])
def test_a_damaged_up_json_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text(text, encoding="utf-8")
    with pytest.raises(ImproperlyConfigured, match=r"up\.json is damaged; set DATABASE_URL and"):
        take_addresses({"CHRONO_HOME": str(tmp_path)})


def test_a_database_that_nobody_named_is_told_so(tmp_path: Path) -> None:
    done = manage("verify_ticks", CHRONO_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("CommandError: database: ")
    assert done.stderr.endswith("; DATABASE_URL is not set, and nothing runs in CHRONO_HOME\n")


# --- one line -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "env", "told"),
    [
        ("verify_ticks", {}, "database: connection failed: connection to server at "),
        ("verify_ticks", {"CHRONO_SHARDS": "abc"}, "CHRONO_SHARDS: 'abc' is not a number"),
        ("migrate", {"CHRONO_LEASE_SEC": "inf"}, "CHRONO_LEASE_SEC: inf is not a number that can"),
        ("migrate", {"CHRONO_POLL_SEC": "nan"}, "CHRONO_POLL_SEC: nan is not a number that can"),
        ("migrate", {"CHRONO_POOLS": "a,b.c"}, "CHRONO_POOLS: 'b.c' is not the name of a pool"),
        ("migrate", {"DATABASE_URL": "mysql://x"}, "DATABASE_URL: scheme 'mysql' is not supported"),
        (
            "migrate",
            {"CHRONO_LEASE_SEC": "4", "CHRONO_HEARTBEAT_SEC": "5"},
            "CHRONO_LEASE_SEC is 4, CHRONO_HEARTBEAT_SEC is 5: make the lease longer than three",
        ),
    ],
    ids=str,
)
def test_a_command_that_cannot_do_its_work_says_so_in_a_line(
    command: str, env: dict[str, str], told: str, tmp_path: Path
) -> None:
    done = manage(command, **{"CHRONO_HOME": str(tmp_path), "DATABASE_URL": NOWHERE, **env})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"CommandError: {told}")
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


@pytest.mark.django_db(transaction=True)
def test_a_database_without_tables_is_told(private_servers: Addresses) -> None:
    other = private_servers.database_url.rpartition("/")[0] + "/postgres"
    done = manage("verify_ticks", DATABASE_URL=other, REDIS_URL=private_servers.redis_url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith('CommandError: database: relation "')
    assert done.stderr.endswith("; has manage.py migrate been run?\n")
    assert done.stderr.count("\n") == 1


def test_the_checks_keep_their_own_report() -> None:
    done = manage("check", CHRONO_LEASE_SEC="4", CHRONO_HEARTBEAT_SEC="5")
    assert done.returncode == 1
    assert "HINT: make the lease longer than three heartbeats" in done.stderr


# --- what a worker needs --------------------------------------------------------------------

# Without root's rights commands run as the worker's own user, whatever CHRONO_RUN_AS says.
NO_USER = "CHRONO_RUN_AS: no user 'no-such-user'" if os.geteuid() == 0 else ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({}, ""),
        ({"CHRONO_STORAGE_URL": "ftp://x"}, "CHRONO_STORAGE_URL: scheme 'ftp' is not file or s3"),
        ({"CHRONO_RUN_AS": "no-such-user"}, NO_USER),
        (
            {"CHRONO_HTTP_ALLOW": "127.0.0.0/8"},
            "CHRONO_HTTP_ALLOW: '127.0.0.0/8' is neither host nor host:port",
        ),
        ({"CHRONO_TASK_MODULES": "no.such"}, "CHRONO_TASK_MODULES: no.such: No module named 'no'"),
    ],
    ids=str,
)
def test_a_worker_says_beforehand_whether_it_can_start(
    private_servers: Addresses, env: dict[str, str], told: str, tmp_path: Path
) -> None:
    plain = {
        "CHRONO_HOME": str(tmp_path),
        "DATABASE_URL": private_servers.database_url,
        "REDIS_URL": private_servers.redis_url,
        "TMPDIR": str(tmp_path),
    }
    done = manage("worker", "--check", **(plain | env))
    line = f"CommandError: {told}\n" if told else ""
    assert (done.returncode, done.stdout, done.stderr) == (2 if told else 0, "", line)
    assert list(tmp_path.glob("chrono-work-*")) == []
