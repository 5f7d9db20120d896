"""An edit made and undone again: what it would change of a job's ticks, and every refusal of it."""

import uuid
from collections.abc import Callable
from datetime import timedelta

from django.db import transaction

from chronoproject.clock import db_now
from chronoproject.sql import retrying
from jobs.changes import TickChanges, compare
from jobs.models import Job, Team
from jobs.schedule import Schedule
from jobs.selectors import job_get, schedule_of

DAYS_AHEAD = timedelta(days=30)


@retrying()
def rehearse(job_id: uuid.UUID, team: Team, edit: Callable[[], Job]) -> tuple[Job, TickChanges]:
    """Return the job as the edit would leave it, and what changes of the next 30 days' ticks."""
    with transaction.atomic():
        before = job_get(team, job_id)
        after = edit()
        transaction.set_rollback(True)
    start = db_now() if after.version == before.version else after.updated_at
    changes = compare(_in_force(before), _in_force(after), start, start + DAYS_AHEAD)
    return after, changes


def _in_force(job: Job) -> Schedule | None:
    return schedule_of(job) if job.enabled else None
