"""What Chrono's long-running processes share: stopping on a signal, waiting out the database."""

import logging
import os
import random
import select
import signal
from collections.abc import Callable
from types import FrameType

from django.db import InterfaceError, OperationalError, connection

logger = logging.getLogger(__name__)

FIRST_BACKOFF_SEC, MAX_BACKOFF_SEC = 0.2, 5.0


class Stop:
    """An event that a signal handler may set.

    threading.Event takes a lock to be set and another moment of the same thread may hold it: the
    handler would then wait for the very code that it has interrupted.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._reading, self._writing = os.pipe()

    def set(self) -> None:
        """Set it; for good."""
        if not self._is_set:
            self._is_set = True
            os.write(self._writing, b"!")

    def fileno(self) -> int:
        """Return what becomes readable when it is set."""
        return self._reading

    def is_set(self) -> bool:
        """Say whether it is set."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, for so many seconds at most; say whether it is."""
        select.select([self._reading], [], [], max(0.0, seconds))
        return self._is_set


def stop_on_signals() -> Stop:
    """Return an event that SIGTERM and SIGINT set."""
    stop = Stop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop


def cycle_until(
    stop: Stop,
    step: Callable[[], float],
    idle: Callable[[Stop, float], object] = Stop.wait,
) -> None:
    """Call `step`, which returns the seconds to wait, until `stop`; `idle` does the waiting.

    A database that cannot be reached is waited for, with back-off; nothing else is caught.
    """
    backoff_sec = FIRST_BACKOFF_SEC
    while not stop.is_set():
        try:
            idle(stop, step())
            backoff_sec = FIRST_BACKOFF_SEC
        except (OperationalError, InterfaceError) as error:
            logger.warning("database: %s; again in %.1f s", first_line(error), backoff_sec)
            connection.close()
            stop.wait(backoff_sec * random.uniform(0.5, 1))  # noqa: S311 - spreads replicas
            backoff_sec = min(MAX_BACKOFF_SEC, backoff_sec * 2)


def first_line(error: BaseException) -> str:
    """Return the error's message in a line."""
    return (str(error).splitlines() or [type(error).__name__])[0]
