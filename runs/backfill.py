"""Backfill: runs for past ticks that have none, on request; whatever the reason they have none.

Which ticks there were is the ledger's answer; before the job was made, its present schedule's. They
wait for the job's limit like any run, behind the ticks of its own time, and go out on low.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from chronoproject.clock import db_now
from chronoproject.sql import retrying
from jobs.errors import FieldErrors, job_not_found
from jobs.fields import instant_text
from jobs.models import AuditEntry, Job, JobVersion
from jobs.selectors import schedule_of
from runs import ledger, lifecycle, partitions
from runs.decisions import new_run
from runs.reconcile import Fate, Span, Version, fault_of
from runs.settling import as_due
from runs.states import Trigger

INLINE_TICKS = 5000  # as many are made while the client waits; more by a worker
MAX_TICKS = 1_000_000
BATCH = 500
FILLED = frozenset({Fate.COALESCED, Fate.SKIPPED, Fate.CAPPED, Fate.PAUSED, Fate.MISSING})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a backfill makes: the first of the ticks, oldest first, and how many there are."""

    job: Job
    since: datetime
    before: datetime
    ticks: tuple[datetime, ...]
    count: int

    @property
    def is_large(self) -> bool:
        """Whether a worker should make it."""
        return self.count > INLINE_TICKS


def backfill_plan(job: Job, since: datetime, before: datetime) -> Plan:
    """Find the ticks with since <= tick < before that are past and have no run; FieldErrors."""
    _check_schedule(job)
    now = db_now()
    oldest = ledger.oldest_hot(now)
    if since < oldest:
        kept = f"is older than the runs that are kept, those since {instant_text(oldest)}"
        raise FieldErrors([("from", kept)])
    if since >= before:
        raise FieldErrors([("to", "is not after from")])
    missing = missing_ticks(job, ledger.span_of(since, before), now)
    ticks = tuple(islice(missing, INLINE_TICKS))
    count = len(ticks) + sum(1 for _ in islice(missing, MAX_TICKS))
    if count > MAX_TICKS:
        raise FieldErrors([("to", f"makes more than {MAX_TICKS} runs; take a shorter span")])
    return Plan(job, since, before, ticks, count)


def _check_schedule(job: Job) -> None:
    """Refuse a job that never had ticks of its own: its runs come with others', or by hand."""
    has_one = (job.schedule, job.run_at, job.every_sec) != (None, None, None)
    versions = JobVersion.objects.filter(job=job).exclude(definition__schedule=None)
    if has_one or versions.exists():
        return
    instead = (
        "backfill the job that drives it, and its runs are made with that one's"
        if job.has_upstreams
        else "trigger it instead"
    )
    raise FieldErrors([("schedule", f"is none, so the job has no ticks of its own; {instead}")])


def missing_ticks(job: Job, span: Span, now: datetime) -> Iterator[datetime]:
    """Yield the ticks up to now without a run, oldest first; not those that are still owed."""
    span = Span(span.after, min(span.until, now))
    if span.after >= span.until:
        return
    for entry in ledger.walk(job.job_id, span, _before_it_was(job, span)):
        if entry.fate in FILLED and not entry.is_gap:
            yield entry.tick


def _before_it_was(job: Job, span: Span) -> Version | None:
    """Return the present schedule as the version of the time before the job was made."""
    made_at = JobVersion.objects.get(job=job, version=1).valid_from
    if made_at <= span.after:
        return None
    schedule = schedule_of(job)
    return Version(
        number=0,
        begins=span.after,
        ends=made_at,
        schedule=schedule,
        is_enabled=True,
        fault=fault_of(schedule),
    )


def ensure_days(plan: Plan) -> None:
    """Make the partitions that the plan's runs need, before the transaction that inserts them."""
    partitions.ensure({tick.date() for tick in plan.ticks})


@retrying()
def backfill_make(plan: Plan, *, actor: str) -> int:
    """Make the runs of a plan that is not large; return how many there were not yet."""
    made = sum(_make(plan.job.job_id, batch) for batch in _batches(plan.ticks))
    _audit(plan.job, actor, plan.since, plan.before, made)
    return made


def backfill_all(
    job_id: uuid.UUID, since: datetime, before: datetime, *, actor: str
) -> dict[str, int]:
    """Make the runs of a large plan, a batch a transaction; asked again, it makes the rest."""
    job = Job.objects.filter(job_id=job_id, deleted_at__isnull=True).first()
    if job is None:
        raise job_not_found()
    made = 0
    for batch in _batches(missing_ticks(job, ledger.span_of(since, before), db_now())):
        partitions.ensure({tick.date() for tick in batch})
        made += _make(job_id, batch)
    _audit(job, actor, since, before, made)
    return {"made": made}


def _batches(ticks: Iterator[datetime] | Sequence[datetime]) -> Iterator[list[datetime]]:
    remaining = iter(ticks)
    while batch := list(islice(remaining, BATCH)):
        yield batch


@retrying()
def _make(job_id: uuid.UUID, ticks: Sequence[datetime]) -> int:
    """Record runs of the job's present version at these ticks; NotFound once it is deleted."""
    job = (
        Job.objects.select_for_update(no_key=True, of=("self",))
        .select_related("next")
        .filter(job_id=job_id, deleted_at__isnull=True)
        .first()
    )
    if job is None:
        raise job_not_found()
    due = as_due(job)
    runs = [replace(new_run(due, tick, priority="low"), trigger=Trigger.BACKFILL) for tick in ticks]
    born = set(lifecycle.record_ticks(runs))  # with what dag adds
    return sum(run.ref in born for run in runs)


def _audit(job: Job, actor: str, since: datetime, before: datetime, made: int) -> None:
    AuditEntry.objects.create(
        owner_id=job.owner_id,
        actor=actor[:200],
        action="backfill",
        object_type="job",
        object_id=str(job.job_id),
        detail={"from": instant_text(since), "to": instant_text(before), "made": made},
    )
