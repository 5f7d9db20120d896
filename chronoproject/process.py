"""What Chrono's long-running processes share: stopping on a signal, waiting out the database."""

import logging
import random
import signal
import threading
from collections.abc import Callable
from types import FrameType

from django.db import InterfaceError, OperationalError, connection

logger = logging.getLogger(__name__)

FIRST_BACKOFF_SEC, MAX_BACKOFF_SEC = 0.2, 5.0


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop


def cycle_until(stop: threading.Event, step: Callable[[], float]) -> None:
    """Call `step`, which returns the seconds to wait, until `stop`.

    A database that cannot be reached is waited for, with back-off; nothing else is caught.
    """
    backoff_sec = FIRST_BACKOFF_SEC
    while not stop.is_set():
        try:
            wait_sec = step()
            backoff_sec = FIRST_BACKOFF_SEC
        except (OperationalError, InterfaceError) as error:
            logger.warning("database: %s; again in %.1f s", first_line(error), backoff_sec)
            connection.close()
            wait_sec = backoff_sec * random.uniform(0.5, 1)  # noqa: S311 - spreads replicas
            backoff_sec = min(MAX_BACKOFF_SEC, backoff_sec * 2)
        stop.wait(wait_sec)


def first_line(error: BaseException) -> str:
    """Return the error's message in a line."""
    return (str(error).splitlines() or [type(error).__name__])[0]
