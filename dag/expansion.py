"""Which runs are born together with others: rows of dependency-driven jobs (PROTOCOL 22 to 24).

They wait from the start, through the whole chain, so that what will run is seen before it runs.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dag.graph import reachable
from dag.matching import driven_date
from dag.statements import SQL
from runs.records import NewRun
from runs.states import RunStatus, Trigger


@dataclass(frozen=True, slots=True)
class DrivenJob:
    """A job below another, and the edge that leads there; the names are the columns'."""

    depends_on_job_id: uuid.UUID
    job_id: uuid.UUID
    match: str
    day_offset: int
    owner: int
    timezone: str
    version: int
    pool: str
    priority: str
    max_retries: int
    max_concurrency: int | None
    concurrency_key: str | None

    @property
    def limit_key(self) -> str | None:
        """Return the limit the job's runs count against, None without one."""
        if self.max_concurrency is None:
            return None
        if self.concurrency_key is None:
            return f"job:{self.job_id}"
        return f"key:{self.owner}:{self.concurrency_key}"


Key = tuple[uuid.UUID, datetime]
Below = Mapping[uuid.UUID, Sequence[DrivenJob]]


def expand(new_runs: Sequence[NewRun]) -> list[NewRun]:
    """Return the rows to be born with these ticks: one for each driven job and instant.

    A triggered run has none, unless it takes its downstream along: then the scheduled jobs below
    have one too, under the same instant and logical date.
    """
    ticks = [run for run in new_runs if run.trigger != Trigger.MANUAL]
    heads = [run for run in new_runs if run.with_downstream and run.trigger == Trigger.MANUAL]
    known = {(run.job_id, run.scheduled_for) for run in new_runs}
    found = _followers(ticks, _below(ticks, every=False), is_tick=True)
    found += _followers(heads, _below(heads, every=True), is_tick=False)
    return [run for run in found if (run.job_id, run.scheduled_for) not in known]


def _below(runs: Sequence[NewRun], *, every: bool) -> Below:
    below: dict[uuid.UUID, list[DrivenJob]] = defaultdict(list)
    if runs:
        job_ids = list({run.job_id for run in runs})
        for row in SQL["jobs_below"].dicts(job_id=job_ids, every=every):
            below[row["depends_on_job_id"]].append(DrivenJob(**row))
    return below


def _followers(runs: Sequence[NewRun], below: Below, *, is_tick: bool) -> list[NewRun]:
    """Walk down from each run; a row that several upstreams drive is born once."""
    rows = {(run.job_id, run.scheduled_for): run for run in runs if run.job_id in below}
    starts = list(rows)

    def driven_by(key: Key) -> Iterable[Key]:
        for job in below.get(key[0], ()):
            row = _row(job, rows[key], is_tick=is_tick)
            rows.setdefault((row.job_id, row.scheduled_for), row)
            yield row.job_id, row.scheduled_for

    return [rows[key] for key in reachable(starts, driven_by)]


def _row(job: DrivenJob, upstream: NewRun, *, is_tick: bool) -> NewRun:
    scheduled_for, logical_date = upstream.scheduled_for, upstream.logical_date
    if is_tick and job.match == "day":
        scheduled_for = driven_date(upstream.logical_date, job.timezone, job.day_offset)
        logical_date = scheduled_for
    return NewRun(
        job_id=job.job_id,
        owner_id=job.owner,
        scheduled_for=scheduled_for,
        logical_date=logical_date,
        trigger=Trigger.DEPENDENCY,
        job_version=job.version,
        pool=job.pool,
        priority=job.priority,
        attempt_limit=1 + job.max_retries,
        status=RunStatus.WAITING,
        reason="dependency",
        limit_key=job.limit_key,
    )
