"""tzdata is a version (PROTOCOL 5): two rule books at once would give one job two sets of ticks.

The newest version that a dispatcher ran with stands in the database. An older dispatcher refuses;
a newer one first computes every job's next tick anew: where it moves, as an edit by the system.
"""

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from chronoproject.clock import db_now
from chronoproject.sql import retrying
from jobs import services
from jobs.cron import TZDATA_VERSION, InvalidSchedule
from jobs.models import Job
from jobs.selectors import schedule_of
from runs.floor import SQL
from runs.ids import MICROSECOND
from runs.settling import as_due, foretell_gaps, paused_since, settle_due
from runs.sweeps import DISPATCHER, Sweep, register

logger = logging.getLogger(__name__)

BATCH = 500
CHECK_SEC = 5.0
ACTOR = "system: tzdata {}"


class OutdatedTzdata(Exception):  # noqa: N818 - a state of this process, named as what it is
    """This process evaluates schedules by older rules than the database's jobs are at."""


class Guard:
    """A dispatcher's own: takes over at its first call, and sees when a newer one does."""

    def __init__(self) -> None:
        """Start unchecked."""
        self._next_at: float | None = None

    def check(self) -> None:
        """Raise OutdatedTzdata if the database is at a newer version; ask at most each 5 s."""
        if self._next_at is None:
            take_over()
        elif time.monotonic() < self._next_at:
            return
        else:
            refuse_older()
        self._next_at = time.monotonic() + CHECK_SEC


def refuse_older() -> None:
    """Raise OutdatedTzdata if the database is at a later version than this process."""
    known: str | None = SQL["read_tzdata"].value()
    if known is not None and known > TZDATA_VERSION:
        raise OutdatedTzdata(
            f"this dispatcher has tzdata {TZDATA_VERSION}, the database is at {known}: "
            "install requirements.txt of the release that is running, then start again"
        )


def take_over() -> int:
    """Refuse with an older tzdata; with a newer one make it the database's. Return jobs moved."""
    refuse_older()
    SQL["adopt_tzdata"].run(version=TZDATA_VERSION)
    return recompute()


def recompute() -> int:
    """Bring every job whose version was computed with an older tzdata up to date, in batches.

    What is done stays done: each batch is a transaction, and a restart goes on with the rest.
    """
    total = moved = 0
    while batch := _recompute_batch():
        total += batch[0]
        moved += batch[1]
    if total:
        logger.info("tzdata %s: %s jobs looked at, %s moved", TZDATA_VERSION, total, moved)
    return moved


@retrying()
def _recompute_batch() -> tuple[int, int] | None:
    """Recompute some jobs; return how many were looked at and moved, None when none is left."""
    rows = SQL["claim_outdated"].rows(version=TZDATA_VERSION, limit=BATCH)
    if not rows:
        return None
    claimed = Job.objects.select_related("next").filter(job_id__in=[row[0] for row in rows])
    jobs = list(claimed.order_by("job_id"))
    at = db_now()
    is_moved = {job.job_id: _is_moved(job, at) for job in jobs}
    _tag([job for job in jobs if not is_moved[job.job_id]], at)
    moved = [job for job in jobs if is_moved[job.job_id]]
    settled = _settled_until(moved, at)
    for job in moved:
        _move(job, settled[job.job_id], at)
    return len(jobs), len(moved)


def _is_moved(job: Job, at: datetime) -> bool:
    """Say whether the new rules give another next tick; what cannot be evaluated is left as is."""
    if not job.enabled:
        return False
    tick = job.next.next_run_at
    owed_from = at if tick is None else min(at, tick - MICROSECOND)
    try:
        return schedule_of(job).next_after(owed_from) != tick
    except InvalidSchedule as error:
        logger.error("job %s: tzdata %s: %s", job.job_id, TZDATA_VERSION, error)
        return False


def _tag(jobs: Sequence[Job], at: datetime) -> None:
    """Note that the versions in force hold by the new rules too."""
    SQL["tag_tzdata"].run(version=TZDATA_VERSION, job_id=[job.job_id for job in jobs])
    for job in jobs:
        tick = job.next.next_run_at
        if job.dst_policy == "skip" and tick is not None and tick > at:
            foretell_gaps(job, at)


def _settled_until(jobs: Sequence[Job], at: datetime) -> dict[uuid.UUID, datetime]:
    """Return up to which instant each job's ticks are recorded."""
    job_ids = [job.job_id for job in jobs]
    return dict(SQL["settled_until"].rows(job_id=job_ids, at=at)) if jobs else {}


def _move(job: Job, settled_until: datetime, at: datetime) -> None:
    """Settle by the new rules what they make due since the last recorded tick, then go on."""
    owed = schedule_of(job).next_after(settled_until)
    if owed is not None and owed <= at:
        due = as_due(job, paused_since=paused_since(job.owner_id))
        settle_due(replace(due, next_run_at=owed), at)
    services.job_reschedule(job, at, actor=ACTOR.format(TZDATA_VERSION))


register(DISPATCHER, Sweep("tzdata", 60, recompute))
