"""The dispatcher: claims due jobs, records their ticks, advances them, commits, publishes, sweeps.

Any number of replicas may run: SKIP LOCKED shares the work out, and the unique tick constraint
with the advance in the same transaction keeps a tick single, whoever comes twice.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError

from chronoproject import sql
from chronoproject.clock import db_now
from chronoproject.process import cycle_until, first_line
from runs import lifecycle, partitions
from runs.alerts.outbox import NewAlert, put
from runs.decisions import DueJob, JobDecision, decide_job
from runs.floor import SQL
from runs.ids import day_of
from runs.leases import NamedLease
from runs.records import RunRef
from runs.sweeps import DISPATCHER, Sweeper

logger = logging.getLogger(__name__)

LOCKED_POLL_SEC = 0.03  # due rows that another replica holds: look again soon (PROTOCOL 10)
QUARANTINE_SEC = 60


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction did."""

    jobs: int = 0
    recorded: tuple[RunRef, ...] = ()
    misfires: int = 0
    quarantined: tuple[uuid.UUID, ...] = ()
    is_full: bool = False


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
        self.guard = ClockGuard()
        self._days: set[date] = set()

    def run_forever(self, stop: threading.Event) -> None:
        """Cycle until `stop`; a lost database is waited for, with back-off."""
        cycle_until(stop, self._step)
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
            recorded=sum(len(batch.recorded) for batch in batches),
            misfires=sum(batch.misfires for batch in batches),
            quarantined=sum(len(batch.quarantined) for batch in batches),
            swept=swept,
        )

    def dispatch_due(self) -> list[Batch]:
        """Work through what is due, a bounded batch at a time."""
        now = db_now()
        if self.guard.is_held(now, time.clock_gettime(time.CLOCK_BOOTTIME)):
            return []
        batches: list[Batch] = []
        while not batches or batches[-1].is_full:
            batches.append(self._dispatch_batch(now))
        return batches

    def idle_sec(self) -> float:
        """Return how long there is nothing to do: until the next due instant, a second at most."""
        next_due: datetime | None = SQL["next_due"].value()
        waits = [settings.CHRONO_POLL_SEC, self.sweeper.due_in() or settings.CHRONO_POLL_SEC]
        if next_due is not None:
            waits.append((next_due - db_now()).total_seconds())
        return max(LOCKED_POLL_SEC if min(waits) <= 0 else 0.0, min(waits))

    def hand_over(self) -> None:
        """Give the leases back, so that another replica goes on at once."""
        try:
            self.sweep_lease.release()
        except DatabaseError as error:
            logger.warning("cannot hand the lease over, it expires: %s", first_line(error))

    def _sweeps(self) -> bool:
        return self.sweeper.due_in() <= 0 and self.sweep_lease.acquire()

    def _dispatch_batch(self, now: datetime) -> Batch:
        try:
            return dispatch(now, None, self._ensure_days)
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError:
            logger.exception("a batch failed; it is taken apart job by job")
            return self._bisect(now, due_ids(now))

    def _bisect(self, now: datetime, job_ids: Sequence[uuid.UUID]) -> Batch:
        """Dispatch the halves on their own; a single job that fails is quarantined."""
        try:
            return dispatch(now, job_ids, self._ensure_days)
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError as error:
            if len(job_ids) == 1:
                quarantine({job_ids[0]: first_line(error)})
                return Batch(quarantined=tuple(job_ids), is_full=True)
            middle = len(job_ids) // 2
            first, second = (
                self._bisect(now, half) for half in (job_ids[:middle], job_ids[middle:])
            )
            return Batch(
                jobs=first.jobs + second.jobs,
                recorded=first.recorded + second.recorded,
                misfires=first.misfires + second.misfires,
                quarantined=first.quarantined + second.quarantined,
                is_full=True,
            )

    def _ensure_days(self, decisions: Sequence[JobDecision]) -> None:
        """Make the partition of a day that has none yet, before its first row is inserted."""
        days = {run.scheduled_for.date() for decision in decisions for run in decision.runs}
        if days - self._days:
            self._days = partitions.existing_days()
            partitions.ensure(days - self._days)
            self._days |= days


@sql.retrying()
def dispatch(
    now: datetime,
    job_ids: Sequence[uuid.UUID] | None,
    ensure_days: Callable[[Sequence[JobDecision]], None],
) -> Batch:
    """Claim due jobs, decide, record their ticks and advance them, in one transaction."""
    limit = settings.CHRONO_BATCH_JOBS
    only = None if job_ids is None else list(job_ids)
    rows = SQL["claim_due"].dicts(now=now, limit=limit, job_id=only)
    if not rows:
        return Batch()
    decisions, failures = decide_all([DueJob(**row) for row in rows], now)
    ensure_days(decisions)
    misfires = [misfire for decision in decisions for misfire in decision.misfires]
    recorded = lifecycle.record_ticks(
        [run for decision in decisions for run in decision.runs], misfires
    )
    SQL["advance_jobs"].run(
        job_id=[decision.job_id for decision in decisions],
        next_run_at=[decision.next_run_at for decision in decisions],
    )
    quarantine(failures)
    return Batch(
        jobs=len(decisions),
        recorded=tuple(recorded),
        misfires=len(misfires),
        quarantined=tuple(failures),
        is_full=len(rows) == limit or len(decisions) + len(failures) < len(rows),
    )


def decide_all(
    jobs: Sequence[DueJob], now: datetime
) -> tuple[list[JobDecision], dict[uuid.UUID, str]]:
    """Decide job by job, as many as the batch has ticks for; a job that fails stands alone."""
    oldest_hot = day_of(now) - timedelta(days=settings.CHRONO_RETENTION_DAYS - 1)
    decisions: list[JobDecision] = []
    failures: dict[uuid.UUID, str] = {}
    ticks = 0
    for job in jobs:
        if ticks >= settings.CHRONO_BATCH_TICKS:
            break
        try:
            decision = decide_job(job, now, oldest_hot)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, its neighbours go on
            failures[job.job_id] = f"{type(error).__name__}: {error}"
            continue
        decisions.append(decision)
        ticks += len(decision.runs)
    return decisions, failures


def quarantine(failures: dict[uuid.UUID, str]) -> None:
    """Set jobs aside for a minute, their ticks still owed, and tell."""
    for job_id, reason in failures.items():
        logger.error("job %s is quarantined: %s", job_id, reason)
        SQL["quarantine_jobs"].run(job_id=[job_id], retry_sec=QUARANTINE_SEC, reason=reason)
    put(
        [
            NewAlert(
                kind="job_quarantined",
                dedupe_key=f"job_quarantined:{job_id}:{reason}"[:200],
                message=f"The job's ticks cannot be decided: {reason}",
                job_id=job_id,
            )
            for job_id, reason in failures.items()
        ]
    )


def due_ids(now: datetime) -> list[uuid.UUID]:
    """Return the jobs that a batch would claim."""
    rows = SQL["due_ids"].rows(now=now, limit=settings.CHRONO_BATCH_JOBS)
    return [row[0] for row in rows]
