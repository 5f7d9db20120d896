"""How a Python task or HTTP call in the pool child is told to end: SIGUSR1.

The shim sends it at the deadline or on a cancel, Celery's main process sends it as second line. It
raises only while an attempt is armed and truly has to end, so a late signal hits no other attempt.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from billiard.exceptions import SoftTimeLimitExceeded

from runs import slots


class RunInterrupted(SoftTimeLimitExceeded):  # type: ignore[misc] # billiard is untyped
    """The attempt must end: its time is over, or it was cancelled."""

    def __init__(self, cause: int) -> None:
        super().__init__("cancelled" if cause == slots.CAUSE_CANCEL else "time limit exceeded")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Armed:
    """The attempt that a signal may interrupt; `margin_ns` after its end is due."""

    entry: slots.Entry
    record: slots.Record
    fence_ns: int
    margin_ns: int = 0

    def cause(self) -> int:
        """Return why the attempt must end now, or CAUSE_NONE."""
        now = slots.boottime_ns() - self.margin_ns
        return slots.end_cause(self.entry, self.record, now, self.fence_ns)


_armed: Armed | None = None
_is_held_back = False


def _on_signal(signum: int, frame: FrameType | None) -> None:
    raise_if_due()


def raise_if_due() -> None:
    """Raise RunInterrupted when an armed attempt has to end now."""
    if _armed is None or _is_held_back:
        return
    cause = _armed.cause()
    if cause:
        raise RunInterrupted(cause)


def install() -> None:
    """Take SIGUSR1 from billiard, whose handler raises wherever the child happens to be.

    Called at each attempt, for billiard sets its own handler after worker_process_init.
    """
    if signal.getsignal(signal.SIGUSR1) is not _on_signal:
        signal.signal(signal.SIGUSR1, _on_signal)


@contextmanager
def held_back() -> Iterator[None]:
    """Let no interrupt into the block; one that came meanwhile is raised after it.

    A signal mask would not do: with a second thread, the signal only goes there.
    """
    global _is_held_back
    if _is_held_back or threading.current_thread() is not threading.main_thread():
        yield
        return
    _is_held_back = True
    try:
        yield
    finally:
        _is_held_back = False
    raise_if_due()


@contextmanager
def interruptible(armed: Armed) -> Iterator[None]:
    """Let SIGUSR1 raise RunInterrupted within the block."""
    global _armed
    _armed = armed
    try:
        yield
    finally:
        _armed = None
