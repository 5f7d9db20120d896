"""The reaper: runs whose worker stopped renewing (PROTOCOL 15).

It takes a run only if it saw the same (attempt, lease_until) for a third of a lease of its own
monotonic time after the expiry, on an unbroken connection, so that a stepped database clock or a
failover reaps nobody early.
"""

import time
import uuid
from collections.abc import Callable
from datetime import datetime

from django.conf import settings
from django.db import connection

from runs import floor, lifecycle
from runs.records import Expired
from runs.sweeps import DISPATCHER, Sweep, register

BATCH = 1000

Sighting = tuple[uuid.UUID, int, datetime]


class Reaper:
    """Remembers since when each overdue lease has stood still."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Start with no sightings."""
        self._monotonic = monotonic
        self._seen: dict[Sighting, float] = {}
        self._connection: object = None

    def run_once(self) -> int:
        """Look once; expire what has stood still long enough; return how many."""
        rows = floor.SQL["overdue_leases"].rows(floor=floor.read(), limit=BATCH)
        overdue = [Expired(*row) for row in rows]
        now = self._monotonic()
        if connection.connection is not self._connection:
            self._connection, self._seen = connection.connection, {}
        sightings = {(one.run_id, one.attempt, one.lease_until): one for one in overdue}
        self._seen = {key: self._seen.get(key, now) for key in sightings}
        patience = settings.CHRONO_LEASE_SEC / 3
        ripe = [one for key, one in sightings.items() if now - self._seen[key] >= patience]
        return len(lifecycle.expire(ripe))


reaper = Reaper()
register(DISPATCHER, Sweep("reap", 1, reaper.run_once))
