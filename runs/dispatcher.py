"""The dispatcher: claims due jobs, records their ticks, advances them, commits, publishes, sweeps.

Any number of replicas may run: leased shards share the work out, SKIP LOCKED lets them help each
other, and the unique tick constraint with the advance in the same transaction keeps a tick single,
whoever comes twice.
"""

import logging
import time
import uuid
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import chain

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError

from chronoproject.bell import Bell
from chronoproject.clock import db_now
from chronoproject.process import Stop, cycle_until, first_line
from runs import partitions, tzdata
from runs.batch import Batch, bucket_array, dispatch, due_to, quarantine
from runs.figures import DispatchFigures
from runs.floor import SQL
from runs.leases import NamedLease
from runs.shards import HELP_AFTER_SEC, Shards
from runs.sweeps import DISPATCHER, Sweeper

logger = logging.getLogger(__name__)

PIECES = 4  # of a batch that failed: fewer are more work in vain, more are more transactions
LOCKED_POLL_SEC = 0.03  # due rows that another replica holds: look again soon (PROTOCOL 10)


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one run_once did."""

    jobs: int = 0
    recorded: int = 0
    misfires: int = 0
    quarantined: int = 0
    swept: dict[str, int] = field(default_factory=dict)


class ClockGuard:
    """Holds dispatch while the database's clock has jumped against this host's (PROTOCOL 15)."""

    HOLD_SEC = 30.0

    def __init__(self) -> None:
        """Start without a baseline."""
        self._baseline: tuple[datetime, float] | None = None
        self._held_until = 0.0

    def is_held(self, now: datetime, boottime: float) -> bool:
        """Compare both clocks; after a jump hold for 30 s, then trust the new time."""
        if self._baseline is not None:
            then, at = self._baseline
            moved = (now - then).total_seconds() - (boottime - at)
            if abs(moved) > settings.CHRONO_MAX_CLOCK_STEP_SEC:
                logger.error("the database's clock moved by %.0f s; dispatch is held", moved)
                self._held_until = boottime + self.HOLD_SEC
        self._baseline = (now, boottime)
        return boottime < self._held_until


class Dispatcher:
    """One replica."""

    def __init__(self, name: str) -> None:
        """Take a name that is unique among the replicas alive."""
        self.name = name
        self.sweeper = Sweeper(DISPATCHER)
        self.sweep_lease = NamedLease("sweeps", name, settings.CHRONO_DISPATCHER_LEASE_SEC)
        self.figures = DispatchFigures(name)
        self.shards = Shards(name, settings.CHRONO_SHARDS, settings.CHRONO_DISPATCHER_LEASE_SEC)
        self.guard = ClockGuard()
        self.tzdata = tzdata.Guard()
        self._days: set[date] = set()

    def run_forever(self, stop: Stop) -> None:
        """Cycle until `stop`; a lost database is waited for, with back-off."""
        cycle_until(stop, self._step, Bell().wait)
        self.hand_over()

    def _step(self) -> float:
        self.run_once()
        return self.idle_sec()

    def run_once(self) -> Cycle:
        """Dispatch everything due now, then sweep if this replica holds the sweeps' lease."""
        batches = self.dispatch_due()
        swept = self.sweeper.run_once() if self._sweeps() else {}
        return Cycle(
            jobs=sum(batch.jobs for batch in batches),
            recorded=sum(batch.recorded for batch in batches),
            misfires=sum(batch.misfires for batch in batches),
            quarantined=sum(len(batch.quarantined) for batch in batches),
            swept=swept,
        )

    def dispatch_due(self) -> list[Batch]:
        """Work through what is due, a bounded batch at a time."""
        self.tzdata.check()
        now = db_now()
        if self.guard.is_held(now, time.clock_gettime(time.CLOCK_BOOTTIME)):
            return []
        batches: list[Batch] = []
        while not batches or batches[-1].is_full:
            began = time.perf_counter()
            batch = self._dispatch_batch(now)
            batches.append(batch)
            self.figures.add(batch, now, time.perf_counter() - began)
        self.figures.write_if_due(self.shards.held)
        return batches

    def idle_sec(self) -> float:
        """Return how long there is nothing to do: until the next due instant, a second at most."""
        next_due: datetime | None = SQL["next_due"].value(
            bucket=bucket_array(self.shards.buckets()), help_after_sec=HELP_AFTER_SEC
        )
        waits = [settings.CHRONO_POLL_SEC, self.sweeper.due_in() or settings.CHRONO_POLL_SEC]
        if next_due is not None:
            waits.append((next_due - db_now()).total_seconds())
        return max(LOCKED_POLL_SEC if min(waits) <= 0 else 0.0, min(waits))

    def hand_over(self) -> None:
        """Give the leases back, so that another replica goes on at once."""
        try:
            self.shards.hand_over()
            self.sweep_lease.release()
        except DatabaseError as error:
            logger.warning("cannot hand the leases over, they expire: %s", first_line(error))

    def _sweeps(self) -> bool:
        return self.sweeper.due_in() <= 0 and self.sweep_lease.acquire()

    def _dispatch_batch(self, now: datetime) -> Batch:
        self.shards.refresh()
        buckets = self.shards.buckets()
        try:
            return dispatch(now, None, self._ensure_days, buckets)
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError:
            logger.exception("a batch failed; it is taken apart job by job")
            return self._take_apart(now, due_ids(now, buckets))

    def _take_apart(self, now: datetime, job_ids: Sequence[uuid.UUID]) -> Batch:
        """Dispatch the pieces on their own; a single job that fails is quarantined."""
        try:
            return dispatch(now, job_ids, self._ensure_days)
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError as error:
            if len(job_ids) == 1:
                quarantine({job_ids[0]: first_line(error)})
                return Batch(quarantined=tuple(job_ids), is_full=True)
            size = -(-len(job_ids) // PIECES)
            parts = [
                self._take_apart(now, job_ids[start : start + size])
                for start in range(0, len(job_ids), size)
            ]
            return Batch(
                jobs=sum(part.jobs for part in parts),
                recorded=sum(part.recorded for part in parts),
                misfires=sum(part.misfires for part in parts),
                quarantined=tuple(chain.from_iterable(part.quarantined for part in parts)),
                is_full=True,
                due_since=min((part.due_since for part in parts if part.due_since), default=None),
                claim_sec=sum(part.claim_sec for part in parts),
                decide_sec=sum(part.decide_sec for part in parts),
                record_sec=sum(part.record_sec for part in parts),
            )

    def _ensure_days(self, days: Set[date]) -> None:
        """Make the partition of a day that has none yet, before its first row is inserted."""
        if days - self._days:
            self._days = partitions.existing_days()
            partitions.ensure(days - self._days)
            self._days |= days


def due_ids(now: datetime, buckets: Sequence[int] | None) -> list[uuid.UUID]:
    """Return the jobs that a batch would claim."""
    rows = SQL["due_ids"].rows(**due_to(buckets, now), limit=settings.CHRONO_BATCH_JOBS)
    return [row[0] for row in rows]
