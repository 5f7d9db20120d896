"""What people ask of runs: trigger, cancel, re-run; one or many, each of them audited.

Status changes are lifecycle's; this says who asked, and refuses what cannot be done.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from chronoproject.clock import db_now
from chronoproject.sql import retrying
from jobs.errors import Conflict, job_not_found
from jobs.models import AuditEntry, Job
from runs import lifecycle
from runs.decisions import new_run
from runs.floor import SQL
from runs.ids import MICROSECOND
from runs.models import Run
from runs.records import NewRun, RunRef
from runs.selectors import refs_of, run_ref
from runs.settling import as_due
from runs.states import TERMINAL, RunStatus, Trigger

CHUNK = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a trigger says of its run beyond the job."""

    logical_date: datetime | None = None
    payload: dict[str, Any] | None = None
    with_downstream: bool = False


# --- one ------------------------------------------------------------------------------------


@retrying(savepoint=True)
def run_trigger(
    job: Job,
    *,
    actor: str,
    logical_date: datetime | None = None,
    payload: Mapping[str, Any] | None = None,
    with_downstream: bool = False,
) -> Run:
    """Make a run of the job now, paused or not; NotFound once it is deleted."""
    wanted = Wanted(logical_date, None if payload is None else dict(payload), with_downstream)
    made = _trigger([job.job_id], actor, wanted)
    if not made:
        raise job_not_found()
    return _read(made[0].ref)


@retrying(savepoint=True)
def run_cancel(run: Run, *, actor: str) -> Run:
    """End the run, or ask its worker to; Conflict for one that has ended."""
    moved = lifecycle.cancel([run_ref(run)])
    if not moved:
        raise Conflict(f"The run has ended: it is {_read(run_ref(run)).status}.")
    _audit([(run.owner_id, run.run_id)], actor, "cancel")
    return _read(run_ref(run))


@retrying(savepoint=True)
def run_rerun(run: Run, *, actor: str) -> Run:
    """Give an ended run new attempts; Conflict for a live one, or a deleted job's."""
    if not lifecycle.rerun([run_ref(run)]):
        status = RunStatus(_read(run_ref(run)).status)
        why = "its job was deleted" if status in TERMINAL else f"it is {status.value}"
        raise Conflict(f"The run cannot be run again: {why}.")
    _audit([(run.owner_id, run.run_id)], actor, "rerun")
    return _read(run_ref(run))


# --- many -----------------------------------------------------------------------------------


def jobs_trigger(job_ids: Sequence[uuid.UUID], *, actor: str) -> int:
    """Make a run of each job that is not deleted; return how many."""
    return sum(len(_trigger_chunk(chunk, actor)) for chunk in _chunks(job_ids))


def runs_cancel(run_ids: Sequence[uuid.UUID], *, actor: str) -> int:
    """End or ask to end each live run; return how many there were."""
    return sum(_act_on_chunk(chunk, actor, "cancel", _cancelled) for chunk in _chunks(run_ids))


def runs_rerun(run_ids: Sequence[uuid.UUID], *, actor: str) -> int:
    """Give each ended run of a living job new attempts; return how many there were."""
    return sum(_act_on_chunk(chunk, actor, "rerun", lifecycle.rerun) for chunk in _chunks(run_ids))


def _chunks(ids: Sequence[uuid.UUID]) -> Iterator[list[uuid.UUID]]:
    """Cut into transactions of bounded length, in key order."""
    ordered = sorted(set(ids))
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]


@retrying()
def _trigger_chunk(job_ids: Sequence[uuid.UUID], actor: str) -> list[NewRun]:
    return _trigger(job_ids, actor, Wanted())


@retrying()
def _act_on_chunk(
    run_ids: Sequence[uuid.UUID],
    actor: str,
    action: str,
    act: Callable[[Sequence[RunRef]], Sequence[RunRef]],
) -> int:
    owners = dict(refs_of(run_ids))
    changed = act(list(owners))
    _audit([(owners[ref], ref.run_id) for ref in changed], actor, action)
    return len(changed)


def _cancelled(refs: Sequence[RunRef]) -> list[RunRef]:
    return [moved.ref for moved in lifecycle.cancel(refs)]


# --- steps ----------------------------------------------------------------------------------


def _trigger(job_ids: Sequence[uuid.UUID], actor: str, wanted: Wanted) -> list[NewRun]:
    """Record a manual run of each living job; their locks keep deletes and each other out."""
    jobs = list(
        Job.objects.select_for_update(no_key=True, of=("self",))
        .select_related("next")
        .filter(job_id__in=job_ids, deleted_at__isnull=True)
        .order_by("job_id")
    )
    if not jobs:
        return []
    instant = _free_instant(jobs)
    made = [
        replace(
            new_run(as_due(job), instant, priority=job.priority),
            trigger=Trigger.MANUAL,
            logical_date=wanted.logical_date or instant,
            payload=wanted.payload,
            with_downstream=wanted.with_downstream,
        )
        for job in jobs
    ]
    lifecycle.record_ticks(made)
    _audit(
        [(run.owner_id, run.run_id) for run in made],
        actor,
        "trigger",
        [{"jobId": str(run.job_id)} for run in made],
    )
    return made


def _free_instant(jobs: Sequence[Job]) -> datetime:
    """Return now, nudged off whole seconds, which are ticks, and off other runs (PROTOCOL 1)."""
    instant = db_now()
    job_ids = [job.job_id for job in jobs]
    while not instant.microsecond or SQL["taken_instants"].rows(job_id=job_ids, instant=instant):
        instant += MICROSECOND
    return instant


def _read(ref: RunRef) -> Run:
    return Run.objects.select_related("job").get(run_id=ref.run_id, scheduled_for=ref.scheduled_for)


def _audit(
    runs: Sequence[tuple[int, uuid.UUID]],
    actor: str,
    action: str,
    details: Sequence[Mapping[str, str]] = (),
) -> None:
    AuditEntry.objects.bulk_create(
        AuditEntry(
            owner_id=owner_id,
            actor=actor[:200],
            action=action,
            object_type="run",
            object_id=str(run_id),
            detail=dict(details[at]) if details else {},
        )
        for at, (owner_id, run_id) in enumerate(runs)
    )
