"""What a write to a job settles first: every tick of the version in force so far (PROTOCOL 2)."""

from dataclasses import fields
from datetime import datetime, timedelta

from django.conf import settings

from jobs.models import Job, JobVersion
from runs import lifecycle
from runs.decisions import DueJob, decide_job, paused_range
from runs.ids import day_of
from runs.records import RunRef

DERIVED = {"owner", "is_paused"}


def settle(job: Job, at: datetime) -> list[RunRef]:
    """Record the old version's ticks up to `at`, by its policy; those of a paused job as paused.

    The caller holds the jobs row's lock and advances next_run_at itself. `job` is as it was.
    """
    due = as_due(job)
    if not job.enabled:
        in_force = JobVersion.objects.get(job=job, version=job.version)
        return lifecycle.record_ticks([], paused_range(due, in_force.valid_from, at))
    if job.next_run_at is None or job.next_run_at > at:
        return []
    oldest_hot = day_of(at) - timedelta(days=settings.CHRONO_RETENTION_DAYS - 1)
    decision = decide_job(due, at, oldest_hot)
    return lifecycle.record_ticks(decision.runs, decision.misfires)


def cancel_unstarted(job: Job) -> None:
    """Cancel what a deleted job still has to run; what runs may end."""
    rows = lifecycle.SQL["unstarted_of_job"].rows(job_id=job.job_id)
    lifecycle.cancel([RunRef(*row) for row in rows], reason="job_deleted")


def as_due(job: Job) -> DueJob:
    """Return the row as the dispatcher would claim it."""
    copied = {field.name for field in fields(DueJob)} - DERIVED
    values = {name: getattr(job, name) for name in copied}
    return DueJob(**values, owner=job.owner_id, is_paused=False)
