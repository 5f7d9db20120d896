"""How a Python task or HTTP call in the pool child is told to end: SIGUSR1.

The shim sends it at the deadline or on a cancel, Celery's main process sends it as second line. It
raises only while an attempt is armed and truly has to end, so a late signal hits no other attempt.
"""

import signal
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


def _on_signal(signum: int, frame: FrameType | None) -> None:
    cause = _armed.cause() if _armed is not None else slots.CAUSE_NONE
    if cause:
        raise RunInterrupted(cause)


def install() -> None:
    """Take SIGUSR1 from billiard, whose handler raises wherever the child happens to be.

    Called at each attempt, for billiard sets its own handler after worker_process_init.
    """
    if signal.getsignal(signal.SIGUSR1) is not _on_signal:
        signal.signal(signal.SIGUSR1, _on_signal)


@contextmanager
def interruptible(armed: Armed) -> Iterator[None]:
    """Let SIGUSR1 raise RunInterrupted within the block."""
    global _armed
    _armed = armed
    try:
        yield
    finally:
        _armed = None
