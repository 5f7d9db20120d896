"""Starts and stops the bundled PostgreSQL and Valkey, as children of the caller.

Both stand in their data directory, and PostgreSQL is told `-D /proc/self/cwd`: so they need no way
through the directories above, which as root (where they run as another user) may well be closed.
"""

import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, ClassVar

import psycopg
import redis

from chronoproject import linux
from chronoproject.embedded_binaries import (
    EmbeddedError,
    choose_account,
    find_binaries,
)

__all__ = [
    "EmbeddedError",
    "EmbeddedPostgres",
    "EmbeddedValkey",
    "free_port",
    "port_is_free",
    "running",
]

LOOPBACK = "127.0.0.1"
USER = DATABASE = "chrono"
START_SEC = 60.0
STOP_SEC = 30.0
# Below the range of outgoing connections, so that none sits on our port when we come back to it.
PORTS = range(20_000, 32_000)
# Servers get no secret and no locale of the caller's.
SERVER_ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
# Docker gives /dev/shm 64 MB by default, too little for a parallel query.
SHM_ENOUGH_BYTES = 256 * 1024 * 1024

POSTGRES_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "synchronous_commit": "on",
    "max_wal_size": "2GB",
    "random_page_cost": "1.1",
    "jit": "off",  # short statements only
    "max_locks_per_transaction": "256",  # a partition a day
    "autovacuum_naptime": "15s",  # queue-like tables
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "",
    "log_checkpoints": "off",
}
# Lines of postmaster.pid before the one that tells the state.
STATUS_LINE = 7
# For servers that hold nothing worth keeping: a test run's.
VOLATILE_SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


def port_is_free(port: int, host: str = LOOPBACK) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    chance = random.SystemRandom()
    for _ in range(200):
        if port_is_free(port := chance.choice(PORTS)):
            return port
    raise EmbeddedError(f"no free port between {PORTS.start} and {PORTS.stop} on {LOOPBACK}")


class EmbeddedServer(ABC):
    """A bundled server whose port, password and data stay in `home` from one start to the next."""

    name: ClassVar[str]
    program: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]

    def __init__(self, home: Path, *, durable: bool = True) -> None:
        self.home = home
        self.data = home / "data"
        self.durable = durable
        self.port = 0
        self.password = ""
        self.account: linux.Account | None = None

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def is_ready(self) -> bool: ...

    @abstractmethod
    def launch(self) -> linux.Launch: ...

    @abstractmethod
    def _make_data(self) -> None: ...

    def prepare(self) -> None:
        """Make what is missing, so that launch() can be started."""
        self.reserve()
        self.account = choose_account(self.data)
        self.binaries = find_binaries(self.account)
        if not self.data.exists():
            self._make_data()

    def reserve(self) -> None:
        """Settle the address: the port of the last time if it is free, and the password."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        memory = self._recall()
        self.password = str(memory.get("password") or secrets.token_urlsafe(24))
        self.port = int(memory.get("port") or 0)
        if not self.port or not port_is_free(self.port):
            self.port = free_port()
        self._remember()

    def holders(self) -> list[int]:
        """Live processes of this server that stand in the data directory, whoever started them."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            pid = int(entry.name)
            if linux.command_name(pid) != self.program or linux.start_ticks(pid) is None:
                continue
            stands = linux.working_dir(pid)
            if stands is not None and stands == self.data.resolve():
                found.append(pid)
        return found

    def _refuse_second(self) -> None:
        if holders := self.holders():
            raise EmbeddedError(f"{self.data} is in use by {self.program}, pid {holders[0]}")

    def _own(self, path: Path) -> None:
        if self.account is not None:
            os.chown(path, self.account.uid, self.account.gid)

    def _recall(self) -> dict[str, str | int]:
        try:
            memory = json.loads((self.home / "server.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as fault:
            raise EmbeddedError(f"{self.home / 'server.json'} is damaged: {fault}") from fault
        return dict(memory)

    def _remember(self) -> None:
        fresh = self.home / "server.json.new"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"port": self.port, "password": self.password}, file)
        fresh.replace(self.home / "server.json")


class EmbeddedPostgres(EmbeddedServer):
    name = "postgres"
    program = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown; SIGTERM would wait for every client to leave

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        return f"postgresql://{USER}:{self.password}@{LOOPBACK}:{self.port}/{database}"

    def is_ready(self) -> bool:
        if not self._says_ready():
            return False
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def launch(self) -> linux.Launch:
        settings = POSTGRES_SETTINGS | {
            "port": str(self.port),
            "dynamic_shared_memory_type": _shm(),
        }
        if not self.durable:
            settings |= VOLATILE_SETTINGS
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return linux.Launch(
            argv=(str(self.binaries.postgres), "-D", "/proc/self/cwd", *options),
            env=SERVER_ENV,
            cwd=self.data,
            stop_signal=self.stop_signal,
            account=self.account,
            prepare=self.clear_stale_pid,
        )

    def _says_ready(self) -> bool:
        """The last line of its pid file; asking by connecting would fill its log with refusals."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return False
        return lines[-1].strip() == "ready" if len(lines) > STATUS_LINE else False

    def clear_stale_pid(self) -> None:
        """Remove what a killed server left, once no server lives that stands in this directory.

        PostgreSQL itself would refuse to start whenever the number has been reused by any process.
        """
        self._refuse_second()
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _make_data(self) -> None:
        """initdb beside the final place: what is called data is complete."""
        fresh = self.home / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._own(fresh)
        # A file that needs neither a directory the other user can enter, nor removal.
        pwfile = os.memfd_create("pwfile", 0)
        os.write(pwfile, self.password.encode())
        initdb = [
            str(self.binaries.initdb),
            *("-D", "/proc/self/cwd", "--username", USER, "--auth", "scram-sha-256"),
            *("--pwfile", f"/proc/self/fd/{pwfile}", "--encoding", "UTF8", "--locale", "C"),
            # C.UTF-8 of PostgreSQL itself: no libc update can ever change the order of an index.
            *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
            *([] if self.durable else ["--no-sync"]),
        ]
        single = [str(self.binaries.postgres), "--single", "-D", "/proc/self/cwd", "postgres"]
        try:
            self._run(initdb, fresh, pass_fds=(pwfile,))
            self._run(single, fresh, stdin=f"CREATE DATABASE {DATABASE}\n".encode())
        finally:
            os.close(pwfile)
        fresh.rename(self.data)

    def _run(
        self, argv: list[str], cwd: Path, *, pass_fds: tuple[int, ...] = (), stdin: bytes = b""
    ) -> None:
        account = self.account
        try:
            done = subprocess.run(  # noqa: S603 - our own bundled binary
                argv,
                cwd=cwd,
                env=SERVER_ENV,
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
                check=False,
            )
        except OSError as fault:
            raise EmbeddedError(f"{argv[0]} does not start: {fault.strerror or fault}") from fault
        if done.returncode != 0:
            said = done.stdout.decode("utf-8", "replace").strip().splitlines() or ["no word"]
            raise EmbeddedError(f"{Path(argv[0]).name} failed: {said[-1]}")


class EmbeddedValkey(EmbeddedServer):
    name = "valkey"
    program = "valkey-server"
    stop_signal = signal.SIGTERM

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    def is_ready(self) -> bool:
        client = redis.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def launch(self) -> linux.Launch:
        settings = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "requirepass": self.password,
            "appendonly": "yes" if self.durable else "no",
            "appendfsync": "everysec",
            "save": '""',
            # A full broker must say so, never drop a queue to make room.
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "loglevel": "warning",
            "logfile": '""',
        }
        return linux.Launch(
            argv=(str(self.binaries.valkey), "-"),  # by standard input: no password on show
            env=SERVER_ENV,
            cwd=self.data,
            stop_signal=self.stop_signal,
            account=self.account,
            stdin="".join(f"{name} {value}\n" for name, value in settings.items()).encode(),
            prepare=self._refuse_second,
        )

    def _make_data(self) -> None:
        self.data.mkdir(mode=0o700)
        self._own(self.data)


@contextmanager
def running(server: EmbeddedServer, log: BinaryIO) -> Iterator[EmbeddedServer]:
    """The server for the length of a block; the supervisor has its own way, with restarts."""
    server.prepare()
    child = linux.spawn(server.launch(), log)
    try:
        deadline = time.monotonic() + START_SEC
        while not server.is_ready():
            if child.poll() is not None or time.monotonic() > deadline:
                raise EmbeddedError(f"{server.name} does not start; see {log.name}")
            time.sleep(0.05)
        yield server
    finally:
        _stop(child, server.stop_signal)


def _stop(child: subprocess.Popen[bytes], sig: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(sig)
    try:
        child.wait(STOP_SEC)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _shm() -> str:
    try:
        facts = os.statvfs("/dev/shm")  # noqa: S108 - asked for its size only
    except OSError:
        return "mmap"
    return "posix" if facts.f_bavail * facts.f_frsize >= SHM_ENOUGH_BYTES else "mmap"
