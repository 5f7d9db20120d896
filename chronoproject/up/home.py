"""CHRONO_HOME: the directory, its one owner at a time, and the secrets kept in it."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chronoproject import linux
from chronoproject.up.faults import UpError

LOCK_TRIES = 5


class Home:
    """Paths under CHRONO_HOME. Everything secret is a 0600 file of the user who starts Chrono."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / "logs"
        self.lock = path / "up.lock"
        self.up_json = path / "up.json"
        self.processes = path / "processes.json"
        self.credentials = path / "secrets" / "credentials.json"
        self.secret_key = path / "secrets" / "secret_key"

    def prepare(self) -> None:
        """Make the directories, and learn now rather than later that they cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for directory in (self.logs, self.credentials.parent):
                directory.mkdir(mode=0o700, exist_ok=True)
            (self.path / "static").mkdir(exist_ok=True)  # looked for by the web server
            probe = self.path / ".probe"
            write_private(probe, "")
            probe.unlink()
        except OSError as fault:
            raise self.unusable(fault) from fault

    def unusable(self, fault: OSError) -> UpError:
        return UpError(f"cannot write in CHRONO_HOME {self.path}: {fault.strerror or fault}")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the one supervisor of this home: a lock that ends however this process ends."""
        try:
            file = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as fault:
            raise self.unusable(fault) from fault
        try:
            if not _lock(file):
                raise self._taken(self._holder())
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}\n".encode())
            yield
        finally:
            os.close(file)

    def supervisor(self) -> int | None:
        """Pid of the live supervisor; None when the lock is free."""
        try:
            file = os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as fault:
            raise UpError(f"cannot read {self.lock}: {fault.strerror}") from fault
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._holder()
        finally:
            os.close(file)
        return None

    def refuse_second(self) -> None:
        """For a word before anything is started; held() is what decides."""
        if (supervisor := self.supervisor()) is not None:
            raise self._taken(supervisor)

    def _taken(self, supervisor: int | None) -> UpError:
        return UpError(
            f"Chrono already runs in {self.path} (supervisor pid {supervisor});"
            " bin/up --stop ends it"
        )

    def _holder(self) -> int | None:
        text = self.lock.read_text(encoding="ascii", errors="replace").strip()
        return int(text) if text.isdigit() and linux.start_ticks(int(text)) is not None else None

    def make_secrets(self) -> None:
        """Generate what the first start needs and every later one uses again."""
        if not self.secret_key.exists():
            write_private(self.secret_key, secrets.token_urlsafe(50))
        if self.credentials.exists():
            return
        write_private(
            self.credentials,
            json.dumps(
                {
                    "team": "demo",
                    "api_token": f"chrono_{secrets.token_urlsafe(32)}",
                    "admin_user": "admin",
                    "admin_password": secrets.token_urlsafe(15),
                }
            ),
        )

    def show_secrets_once(self) -> bool:
        """True for the first start that gets as far as showing them."""
        shown = self.credentials.with_name("shown")
        if shown.exists():
            return False
        write_private(shown, "")
        return True


def _lock(file: int) -> bool:
    """Several tries, because `--status` holds a shared lock for the moment of its look."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.1)
        else:
            return True
    return False


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically, readable by its owner only."""
    fresh = path.with_name(f"{path.name}.new")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(file)
    fresh.replace(path)
