"""The bundled PostgreSQL and Valkey, for real."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from chronoproject import embedded_binaries, linux
from chronoproject.embedded import (
    EmbeddedError,
    EmbeddedPostgres,
    EmbeddedServer,
    EmbeddedValkey,
    port_is_free,
    running,
)
from tests.up.standin import eventually

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import pathlib, sys, time
from chronoproject.embedded import EmbeddedPostgres, running
with open("/dev/null", "ab") as log:
    with running(EmbeddedPostgres(pathlib.Path(sys.argv[1]), durable=False), log):
        print("ready", flush=True)
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once; the tests start and stop a server on it in turn."""
    home = tmp_path_factory.mktemp("servers") / "postgres"
    EmbeddedPostgres(home, durable=False).prepare()
    return home


@pytest.fixture
def postgres(data_home: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(data_home, durable=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def answer(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question).fetchone()
    return row[0] if row else None


def test_postgres_is_a_child_on_loopback_with_a_password(
    postgres: EmbeddedPostgres, log: Path
) -> None:
    with log.open("ab") as file, running(postgres, file):
        assert str(answer(postgres.url, "SHOW server_version")).startswith("18.")
        assert answer(postgres.url, "SHOW server_encoding") == "UTF8"
        assert answer(postgres.url, "SELECT upper('ä')") == "Ä"
        assert answer(postgres.url, "SHOW timezone") == "UTC"
        assert answer(postgres.url, "SHOW listen_addresses") == "127.0.0.1"
        assert answer(postgres.url, "SHOW unix_socket_directories") == ""
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(postgres.url.replace(postgres.password, "wrong"))
        postmaster = int((postgres.data / "postmaster.pid").read_text().splitlines()[0])
        assert postmaster in postgres.holders()
        facts = Path(f"/proc/{postmaster}").stat()
        assert facts.st_uid != 0
        assert parent_of(postmaster) == os.getpid()
        assert stat.S_IMODE(postgres.data.stat().st_mode) == 0o700
        assert postgres.data.stat().st_uid == facts.st_uid
    assert postgres.holders() == []
    assert not (postgres.data / "postmaster.pid").exists()


def test_a_second_server_on_the_same_data_is_refused(
    postgres: EmbeddedPostgres, data_home: Path, log: Path
) -> None:
    second = EmbeddedPostgres(data_home, durable=False)
    with log.open("ab") as file, running(postgres, file):
        with (
            pytest.raises(EmbeddedError, match="is in use by postgres, pid"),
            running(second, file),
        ):
            pytest.fail("two servers on one directory")
        assert answer(postgres.url, "SELECT 1") == 1


def test_a_stale_pid_file_is_removed_although_its_number_lives(
    postgres: EmbeddedPostgres, log: Path
) -> None:
    stale = f"{os.getppid()}\n{postgres.data}\n1\n1\n\n127.0.0.1\n\nready\n"
    (postgres.data / "postmaster.pid").write_text(stale, encoding="ascii")
    with log.open("ab") as file, running(postgres, file):
        assert answer(postgres.url, "SELECT 1") == 1


def test_kill_9_of_its_parent_ends_postgres_and_the_next_start_is_clean(
    postgres: EmbeddedPostgres, data_home: Path, log: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(data_home)], cwd=ROOT, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        assert postgres.holders() != []
        parent.kill()
    assert eventually(lambda: postgres.holders() == [])
    with log.open("ab") as file, running(postgres, file):
        assert answer(postgres.url, "SELECT 1") == 1


def test_kill_9_of_postgres_itself_is_recovered_from(postgres: EmbeddedPostgres, log: Path) -> None:
    with log.open("ab") as file, running(postgres, file):
        answer(postgres.url, "SELECT 1")
        lines = (postgres.data / "postmaster.pid").read_text(encoding="ascii").splitlines()
        os.kill(int(lines[0]), signal.SIGKILL)
    assert (postgres.data / "postmaster.pid").exists()
    assert eventually(lambda: postgres.holders() == [])
    with log.open("ab") as file, running(postgres, file):
        assert answer(postgres.url, "SELECT 1") == 1


def test_the_port_stays_the_same_unless_it_is_taken(data_home: Path) -> None:
    first = EmbeddedPostgres(data_home)
    first.reserve()
    again = EmbeddedPostgres(data_home)
    again.reserve()
    assert (again.port, again.password) == (first.port, first.password)
    with socket.create_server(("127.0.0.1", first.port)):
        assert not port_is_free(first.port)
        other = EmbeddedPostgres(data_home)
        other.reserve()
    assert other.port != first.port
    assert other.password == first.password
    assert stat.S_IMODE((data_home / "server.json").stat().st_mode) == 0o600


def test_an_initdb_that_fails_leaves_nothing_that_looks_like_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "HOME", "/nonexistent")
    postgres = EmbeddedPostgres(tmp_path / "postgres", durable=False)
    monkeypatch.setattr("chronoproject.embedded.USER", "pg_reserved")  # initdb refuses pg_ names
    with pytest.raises(EmbeddedError, match=r"initdb failed: .*pg_"):
        postgres.prepare()
    assert not postgres.data.exists()


def test_valkey_keeps_its_lists_and_asks_for_its_password(tmp_path: Path, log: Path) -> None:
    valkey = EmbeddedValkey(tmp_path / "valkey")
    with log.open("ab") as file:
        with running(valkey, file), redis.Redis.from_url(valkey.url) as client:
            client.lpush("default.normal", "a", "b")
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert str(client.info("server")["valkey_version"]).startswith("9.")
            with (
                redis.Redis(host="127.0.0.1", port=valkey.port) as stranger,
                pytest.raises(redis.AuthenticationError),
            ):
                stranger.ping()
        assert valkey.holders() == []
        with running(valkey, file), redis.Redis.from_url(valkey.url) as client:
            assert client.lrange("default.normal", 0, -1) == [b"b", b"a"]


@pytest.mark.parametrize("kind", [EmbeddedPostgres, EmbeddedValkey])
def test_no_password_stands_on_a_command_line(kind: type[EmbeddedServer], tmp_path: Path) -> None:
    server = kind(tmp_path / kind.name)
    server.binaries = embedded_binaries.find_binaries(None)
    server.reserve()
    launch = server.launch()
    assert server.password not in " ".join(launch.argv)
    assert server.password not in repr(launch)
    assert server.password not in " ".join(launch.env.values())


def test_the_copy_for_another_user_is_made_once_and_belongs_to_no_one_else(tmp_path: Path) -> None:
    root = embedded_binaries._installed_root()
    copy = tmp_path / "chrono-servers"
    embedded_binaries._make_copy(root, copy)
    made = copy.stat().st_ino
    embedded_binaries._make_copy(root, copy)
    assert copy.stat().st_ino == made
    assert list(tmp_path.iterdir()) == [copy]
    binaries = embedded_binaries.Binaries.under(copy)
    version = subprocess.run([binaries.postgres, "--version"], capture_output=True, check=True)
    assert b"PostgreSQL) 18." in version.stdout
    copy.chmod(0o777)
    assert not embedded_binaries._is_ours(copy)


def parent_of(pid: int) -> int:
    stat_line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    assert linux.start_ticks(pid)
    return int(stat_line.rpartition(")")[2].split()[1])
