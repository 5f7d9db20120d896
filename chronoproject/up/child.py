"""One process under the supervisor: its output in lines, its end, and when it starts again."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from chronoproject import linux

READ_BYTES = 64 * 1024
LINE_BYTES = 64 * 1024
# Every restart comes well within the 45 s that API.md promises.
FIRST_DELAY_SEC = 0.5
MAX_DELAY_SEC = 20.0
# A process that lived this long starts the count of failures anew.
STEADY_SEC = 10.0


def restart_delay_sec(failures: int) -> float:
    """Wait before the start that follows the n-th failure in a row."""
    return float(min(FIRST_DELAY_SEC * 2 ** (min(failures, 16) - 1), MAX_DELAY_SEC))


# Killing is the last resort, and a crowded machine may take long to let a process say goodbye.
GRACE_SEC = 30.0


@dataclass(frozen=True, slots=True)
class Service:
    """What the supervisor keeps alive, or runs to its end."""

    name: str
    launch: Callable[[], linux.Launch]
    grace_sec: float = GRACE_SEC
    is_once: bool = False
    # A database is not killed because someone is in a hurry.
    is_hurried: bool = True


class Child:
    """A service that runs or waits to be started again; `tell` gets what it says."""

    def __init__(self, service: Service, tell: Callable[[str], None]) -> None:
        self.service = service
        self.name = service.name
        self._tell = tell
        self.process: subprocess.Popen[bytes] | None = None
        self.pid: int | None = None
        self.identity: linux.Identity | None = None
        self.stop_signal = signal.SIGTERM
        self.failures = 0
        self.exits = 0
        self.last_code: int | None = None
        self.starts_at = 0.0
        self._started_at = 0.0
        self._output = -1
        self._partial = b""

    @property
    def lived_sec(self) -> float:
        """Age of the present process; 0 when there is none."""
        return time.monotonic() - self._started_at if self.process else 0.0

    @property
    def output(self) -> int:
        """The read end of its output; -1 once closed."""
        return self._output

    def start(self) -> None:
        launch = self.service.launch()
        read_end, write_end = os.pipe()
        try:
            self.process = linux.spawn(launch, write_end)
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        os.set_blocking(read_end, False)
        self._output, self._partial = read_end, b""
        self._started_at = time.monotonic()
        self.stop_signal = launch.stop_signal
        self.pid = self.process.pid
        # None only if it has died already; then has_ended() will tell.
        self.identity = linux.identify(self.process.pid)

    def read(self) -> bool:
        """Pass on the lines that have arrived; False when there is nothing to read now."""
        if self._output < 0:
            return False
        try:
            block = os.read(self._output, READ_BYTES)
        except BlockingIOError:
            return False
        if not block:
            self.close()
            return False
        *lines, self._partial = (self._partial + block).split(b"\n")
        if len(self._partial) > LINE_BYTES:
            lines, self._partial = [*lines, self._partial], b""
        for line in lines:
            self._tell(line.decode("utf-8", "replace").rstrip("\r"))
        return True

    def read_rest(self) -> None:
        """Last words. A descendant may hold the pipe open, so do not wait for its end."""
        while self.read():
            pass
        self.close()

    def close(self) -> None:
        if self._output >= 0:
            os.close(self._output)
            self._output = -1
        if self._partial:
            self._tell(self._partial.decode("utf-8", "replace"))
            self._partial = b""

    def has_ended(self) -> bool:
        """True when it is over; whatever is left of its process group has been killed then.

        The dead leader is looked at before it is reaped: until then nobody else gets its number.
        """
        if self.process is None:
            return False
        pid = self.process.pid
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        linux.signal_group(pid, signal.SIGKILL)
        return True

    def reap(self) -> float:
        """Take note of the end; returns how long it lived, in seconds."""
        if self.process is None:
            return 0.0
        self.last_code = self.process.wait()
        self.process = None
        self.exits += 1
        return time.monotonic() - self._started_at

    def plan_restart(self, lived_sec: float) -> float:
        self.failures = 1 if lived_sec >= STEADY_SEC else self.failures + 1
        delay = restart_delay_sec(self.failures)
        self.starts_at = time.monotonic() + delay
        return delay

    def signal(self, sig: signal.Signals) -> None:
        if self.process is not None:
            # Not Popen's way, which would reap a dead one before has_ended() can see it.
            os.kill(self.process.pid, sig)

    def kill(self) -> None:
        if self.process is not None:
            linux.signal_group(self.process.pid, signal.SIGKILL)


def ending(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "did not start"
    if code >= 0:
        return f"exited with {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
