"""The maintenance process: a leased singleton around the maintenance sweeps (PROTOCOL 29)."""

import logging

from django.conf import settings
from django.db import DatabaseError, connection

from chronoproject.process import Stop, cycle_until, first_line
from runs.leases import NamedLease
from runs.sweeps import MAINTENANCE, Sweeper

logger = logging.getLogger(__name__)

STATEMENT_TIMEOUT_SEC = 300  # dropping a day's partition or verifying a day may take minutes


class Maintenance:
    """One candidate for the maintenance lease."""

    def __init__(self, name: str) -> None:
        """Take a name that is unique among the candidates alive."""
        self.lease = NamedLease("maintenance", name, 3 * settings.CHRONO_DISPATCHER_LEASE_SEC)
        self.sweeper = Sweeper(MAINTENANCE)

    def run_once(self) -> dict[str, int]:
        """Do the sweeps that are due, if this process holds the lease; return rows by sweep."""
        if not self.lease.acquire():
            return {}
        with connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = '{STATEMENT_TIMEOUT_SEC}s'")
        return self.sweeper.run_once()

    def run_forever(self, stop: Stop) -> None:
        """Sweep until `stop`, then hand the lease over."""
        cycle_until(stop, self._step)
        try:
            self.lease.release()
        except DatabaseError as error:
            logger.warning("cannot hand the lease over, it expires: %s", first_line(error))

    def _step(self) -> float:
        self.run_once()
        return settings.CHRONO_DISPATCHER_LEASE_SEC
