"""What a write to a job settles first: every tick of the version in force so far (PROTOCOL 2)."""

import logging
from dataclasses import fields, replace
from datetime import datetime, timedelta

from django.conf import settings

from jobs.cron import InvalidSchedule
from jobs.models import Job, JobVersion
from runs import lifecycle
from runs.decisions import DueJob, decide_job, gap_records, paused_range
from runs.floor import SQL
from runs.ids import day_of
from runs.records import NewMisfire, RunRef

logger = logging.getLogger(__name__)

DERIVED = {"owner", "paused_since", "next_run_at"}


def settle(job: Job, at: datetime) -> list[RunRef]:
    """Record the old version's ticks up to `at`, by its policy; those of a paused job as paused.

    The caller holds the jobs row's lock, has read job.next since, and advances next_run_at itself.
    `job` is as it was.
    A schedule that can no longer be evaluated has no ticks to record: the edit may be what mends
    it, and the ledger names the version.
    """
    due = as_due(job, paused_since=paused_since(job.owner_id))
    try:
        if not job.enabled:
            return _settle_pause(job, due, at)
        return settle_due(due, at) if job.next.next_run_at is not None else []
    except InvalidSchedule as error:
        logger.warning("job %s: its ticks before the edit are unknown: %s", job.job_id, error)
        return []


def settle_due(due: DueJob, at: datetime) -> list[RunRef]:
    """Decide until nothing is due: one decision makes a bounded number of runs."""
    oldest_hot = day_of(at) - timedelta(days=settings.CHRONO_RETENTION_DAYS - 1)
    recorded: list[RunRef] = []
    next_run_at: datetime | None = due.next_run_at
    while next_run_at is not None and next_run_at <= at:
        decision = decide_job(replace(due, next_run_at=next_run_at), at, oldest_hot)
        recorded += lifecycle.record_ticks(decision.runs, decision.misfires)
        next_run_at = decision.next_run_at
    return recorded


def _settle_pause(job: Job, due: DueJob, at: datetime) -> list[RunRef]:
    in_force = JobVersion.objects.get(job=job, version=job.version)
    misfires: list[NewMisfire] = [*paused_range(due, in_force.valid_from, at)]
    misfires += gap_records(due, in_force.valid_from, at)
    return lifecycle.record_ticks([], misfires)


def paused_since(owner_id: int) -> datetime | None:
    """Return since when a pause of the team, or of everything, holds; None for none."""
    since: datetime | None = SQL["paused_since"].value(owner=owner_id)
    return since


def begin_version(job: Job) -> None:
    """Do what a version just written needs; it began when the job was updated."""
    foretell_gaps(job, job.updated_at)


def foretell_gaps(job: Job, at: datetime) -> None:
    """Record what dstPolicy skip leaves out after `at` and before the next tick.

    What was recorded ahead for the version before is void.
    """
    SQL["forget_gaps"].run(job_id=job.job_id, after=at)
    if job.enabled and job.deleted_at is None:
        lifecycle.record_misfires(gap_records(as_due(job), at, job.next.next_run_at))


def cancel_unstarted(job: Job) -> None:
    """Cancel what a deleted job still has to run; what runs may end."""
    rows = lifecycle.SQL["unstarted_of_job"].rows(job_id=job.job_id)
    lifecycle.cancel([RunRef(*row) for row in rows], reason="job_deleted")


def as_due(job: Job, *, paused_since: datetime | None = None) -> DueJob:
    """Return the job as the dispatcher would claim it."""
    copied = {field.name for field in fields(DueJob)} - DERIVED
    values = {name: getattr(job, name) for name in copied}
    values["next_run_at"] = job.next.next_run_at
    return DueJob(**values, owner=job.owner_id, paused_since=paused_since)
