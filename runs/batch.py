"""One batch of the dispatcher: claim due jobs, decide, record their ticks, advance, commit.

Jobs come in groups that agree in all that a decision depends on. A group whose runs wait for
nothing is decided once and recorded in arrays; any other is taken job by job.
"""

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, fields
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings

from chronoproject import sql
from runs import lifecycle
from runs.alerts.outbox import NewAlert, put
from runs.decisions import DueJob, JobDecision, decide_job
from runs.floor import SQL
from runs.ids import day_of
from runs.publisher import time_limits
from runs.records import NewMisfire, NewRun, QueuedTicks
from runs.shards import HELP_AFTER_SEC

logger = logging.getLogger(__name__)

QUARANTINE_SEC = 60
MEMBER = ("job_id", "owner", "version")
SHARED = tuple(field.name for field in fields(DueJob) if field.name not in MEMBER)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction did."""

    jobs: int = 0
    recorded: int = 0
    misfires: int = 0
    quarantined: tuple[uuid.UUID, ...] = ()
    is_full: bool = False
    due_since: datetime | None = None  # its oldest tick
    claim_sec: float = 0.0
    decide_sec: float = 0.0
    record_sec: float = 0.0


@dataclass(frozen=True, slots=True)
class DueGroup:
    """Due jobs that agree in `shared`, the columns that a decision depends on."""

    job_ids: Sequence[str]
    owners: Sequence[int]
    versions: Sequence[int]
    shared: dict[str, Any]
    limits: tuple[int, int]
    has_downstreams: bool

    @classmethod
    def of(cls, row: dict[str, Any]) -> "DueGroup":
        """Return the group that a row of claim_due states."""
        return cls(
            row["job_ids"],
            row["owners"],
            row["versions"],
            {name: row[name] for name in SHARED},
            time_limits(row["kind"], row["timeout_sec"], row["kill_grace_sec"]),
            row["has_downstreams"],
        )

    def jobs(self) -> Iterator[DueJob]:
        """Yield the jobs one by one."""
        for job_id, owner, version in zip(self.job_ids, self.owners, self.versions, strict=True):
            yield DueJob(uuid.UUID(job_id), owner, version, **self.shared)


@dataclass(slots=True)
class Work:
    """What a batch has decided so far."""

    queued: list[QueuedTicks] = field(default_factory=list)
    runs: list[NewRun] = field(default_factory=list)
    misfires: list[NewMisfire] = field(default_factory=list)
    next_run_at: dict[str, datetime | None] = field(default_factory=dict)
    failures: dict[uuid.UUID, str] = field(default_factory=dict)
    ticks: int = 0

    @property
    def room(self) -> int:
        """Return how many ticks the batch may still take: it is bounded by them (PROTOCOL 3)."""
        return settings.CHRONO_BATCH_TICKS - self.ticks

    def take(self, decision: JobDecision) -> None:
        """Add what was decided of one job."""
        self.runs += decision.runs
        self.misfires += decision.misfires
        self.next_run_at[str(decision.job_id)] = decision.next_run_at
        self.ticks += len(decision.runs)

    def days(self) -> set[date]:
        """Return the UTC days that rows will be inserted into."""
        return {part.tick.date() for part in self.queued} | {
            run.scheduled_for.date() for run in self.runs
        }


@sql.retrying()
def dispatch(
    now: datetime,
    job_ids: Sequence[uuid.UUID] | None,
    ensure_days: Callable[[Set[date]], None],
    buckets: Sequence[int] | None = None,
) -> Batch:
    """Claim due jobs, decide, record their ticks and advance them, in one transaction.

    `buckets` (None: all) are those whose jobs the caller need not wait for anybody to dispatch.
    """
    began = time.perf_counter()
    limit = settings.CHRONO_BATCH_JOBS
    rows = SQL["claim_due"].dicts(
        **due_to(buckets, now), limit=limit, job_id=None if job_ids is None else list(job_ids)
    )
    groups = [DueGroup.of(row) for row in rows]
    if not groups:
        return Batch()
    claimed_at = time.perf_counter()
    work = decide(groups, now)
    decided_at = time.perf_counter()
    ensure_days(work.days())
    recorded = record(work)
    claimed = sum(len(group.job_ids) for group in groups)
    done = len(work.next_run_at) + len(work.failures)
    return Batch(
        jobs=len(work.next_run_at),
        recorded=recorded,
        misfires=len(work.misfires),
        quarantined=tuple(work.failures),
        is_full=claimed == limit or done < claimed,
        due_since=min(group.shared["next_run_at"] for group in groups),
        claim_sec=claimed_at - began,
        decide_sec=decided_at - claimed_at,
        record_sec=time.perf_counter() - decided_at,
    )


def record(work: Work) -> int:
    """Record the ticks and advance the jobs; return how many runs are new."""
    recorded = lifecycle.record_queued(work.queued)
    recorded += len(lifecycle.record_ticks(work.runs, work.misfires))
    SQL["advance_jobs"].run(
        job_id=sql.array(work.next_run_at),
        next_run_at=sql.array(at and at.isoformat() for at in work.next_run_at.values()),
    )
    quarantine(work.failures)
    return recorded


def bucket_array(buckets: Sequence[int] | None) -> str | None:
    """Return the buckets as a statement takes them: spelt out, for there are hundreds."""
    return None if buckets is None else sql.array(buckets)


def due_to(buckets: Sequence[int] | None, now: datetime) -> dict[str, Any]:
    """Return the parameters that say what is due to a replica with these buckets."""
    return {
        "now": now,
        "bucket": bucket_array(buckets),
        "help_before": now - timedelta(seconds=HELP_AFTER_SEC),
    }


def decide(groups: Sequence[DueGroup], now: datetime) -> Work:
    """Decide group by group, as many as the batch has ticks for."""
    oldest_hot = day_of(now) - timedelta(days=settings.CHRONO_RETENTION_DAYS - 1)
    work = Work()
    for group in groups:
        if work.room <= 0:
            break
        if not _decide_together(group, now, oldest_hot, work):
            _decide_apart(group, now, oldest_hot, work)
    return work


def _decide_together(group: DueGroup, now: datetime, oldest_hot: datetime, work: Work) -> bool:
    """Decide for all jobs of the group at once; False where each needs a look of its own."""
    if group.has_downstreams:
        return False
    try:
        first = decide_job(next(group.jobs()), now, oldest_hot)
    except Exception:  # noqa: BLE001 - told, job by job, by _decide_apart
        return False
    if first.misfires or any(run.status != "queued" for run in first.runs):
        return False
    fit = work.room // max(1, len(first.runs)) or 1
    job_ids = group.job_ids[:fit]
    work.queued += [
        QueuedTicks(
            job_ids=job_ids,
            owners=group.owners[:fit],
            versions=group.versions[:fit],
            tick=run.scheduled_for,
            pool=run.pool,
            priority=run.priority,
            attempt_limit=run.attempt_limit,
            limits=group.limits,
        )
        for run in first.runs
    ]
    work.next_run_at.update(dict.fromkeys(job_ids, first.next_run_at))
    work.ticks += len(first.runs) * len(job_ids)
    return True


def _decide_apart(group: DueGroup, now: datetime, oldest_hot: datetime, work: Work) -> None:
    """Decide job by job; one that fails stands alone (PROTOCOL 4)."""
    for job in group.jobs():
        if work.room <= 0:
            return
        try:
            work.take(decide_job(job, now, oldest_hot))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, its neighbours go on
            work.failures[job.job_id] = f"{type(error).__name__}: {error}"


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
