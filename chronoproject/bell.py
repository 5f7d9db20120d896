"""Wakes idle dispatchers when a tick is written that comes before they would look again.

LISTEN and NOTIFY only save the wait: who misses a ring looks within CHRONO_POLL_SEC all the same.
"""

import select

import psycopg
from django.conf import settings
from django.db import connection

from chronoproject.process import Stop

CHANNEL = "chrono_due"


def ring() -> None:
    """Wake those who wait, once the surrounding transaction has committed."""
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {CHANNEL}")


def is_near(wait_sec: float) -> bool:
    """Say whether a tick that far ahead may come before anybody looks again by himself."""
    return wait_sec < 2 * settings.CHRONO_POLL_SEC


class Bell:
    """One process's ear, on Django's connection; it listens anew after a reconnect."""

    def __init__(self) -> None:
        self._heard_on: object = None

    def wait(self, stop: Stop, seconds: float) -> None:
        """Wait for a ring or for `stop`, for so many seconds at most. Raises OperationalError."""
        raw = self._listening()
        with connection.wrap_database_errors:  # psycopg's own are none of Django's
            if list(raw.notifies(timeout=0)):
                return  # it rang while the connection was busy
            sources: list[Stop | psycopg.Connection[tuple[object, ...]]] = [stop, raw]
            readable, _, _ = select.select(sources, [], [], max(0.0, seconds))
            if raw in readable:
                list(raw.notifies(timeout=0))

    def _listening(self) -> psycopg.Connection[tuple[object, ...]]:
        connection.ensure_connection()
        raw: psycopg.Connection[tuple[object, ...]] = connection.connection
        if raw is not self._heard_on:
            with connection.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            self._heard_on = raw
        return raw
