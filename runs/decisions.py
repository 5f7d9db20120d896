"""From a due job to what becomes of its ticks: pure, a job at a time (PROTOCOL 3)."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobs.misfire import MisfireDecision, SkippedRange, decide
from jobs.schedule import Schedule
from runs.records import NewMisfire, NewRun
from runs.states import MisfireRule, RunStatus, Trigger

INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DueJob:
    """What a decision needs of a jobs row; the names are the columns'."""

    job_id: uuid.UUID
    owner: int
    version: int
    schedule: str | None
    run_at: datetime | None
    every_sec: int | None
    anchor: datetime | None
    timezone: str
    dst_policy: Any
    starts_at: datetime | None
    ends_at: datetime | None
    next_run_at: datetime
    misfire_policy: Any
    misfire_grace_sec: int
    max_catchup: int
    max_retries: int
    max_concurrency: int | None
    concurrency_key: str | None
    has_upstreams: bool
    pool: str
    priority: str
    is_paused: bool

    @property
    def ticks(self) -> Schedule:
        """Return the schedule as a value."""
        return Schedule(
            timezone=self.timezone,
            cron=self.schedule,
            run_at=self.run_at,
            every_sec=self.every_sec,
            anchor=self.anchor,
            starts_at=self.starts_at,
            ends_at=self.ends_at,
            dst_policy=self.dst_policy,
            hash_id=str(self.job_id),
        )

    @property
    def limit_key(self) -> str | None:
        """Return the limit the job's runs count against, None without one."""
        if self.max_concurrency is None:
            return None
        if self.concurrency_key is None:
            return f"job:{self.job_id}"
        return f"key:{self.owner}:{self.concurrency_key}"


@dataclass(frozen=True, slots=True)
class JobDecision:
    """The runs to be born, the ticks that have none, and where the job goes on."""

    job_id: uuid.UUID
    runs: tuple[NewRun, ...]
    misfires: tuple[NewMisfire, ...]
    next_run_at: datetime | None


def decide_job(job: DueJob, now: datetime, oldest_hot: datetime) -> JobDecision:
    """Decide on every tick of the job from next_run_at to `now`."""
    if job.is_paused:
        return _advance_paused(job, now)
    decision = decide(
        job.ticks,
        job.next_run_at,
        now,
        policy=job.misfire_policy,
        grace_sec=job.misfire_grace_sec,
        max_catchup=job.max_catchup,
        floor=oldest_hot,
    )
    misfires = [
        _misfire(job, found, MisfireRule(found.rule), found.into) for found in decision.skipped
    ]
    misfires += _dst_gaps(job, decision, now)
    runs = tuple(
        new_run(job, fire.tick, priority="low" if fire.is_catch_up else job.priority)
        for fire in decision.fires
    )
    return JobDecision(job.job_id, runs, tuple(misfires), decision.next_run_at)


def new_run(job: DueJob, tick: datetime, *, priority: str) -> NewRun:
    """Return the run of a tick: waiting where upstreams or a limit may hold it back."""
    reason = "dependency" if job.has_upstreams else "concurrency" if job.limit_key else ""
    return NewRun(
        job_id=job.job_id,
        owner_id=job.owner,
        scheduled_for=tick,
        logical_date=tick,
        trigger=Trigger.SCHEDULE,
        job_version=job.version,
        pool=job.pool,
        priority=priority,
        attempt_limit=1 + job.max_retries,
        status=RunStatus.WAITING if reason else RunStatus.QUEUED,
        reason=reason,
        limit_key=job.limit_key,
    )


def paused_range(job: DueJob, after: datetime, until: datetime) -> tuple[NewMisfire, ...]:
    """Return the ticks with after < tick <= until as paused, none when there are none."""
    schedule = job.ticks
    count = schedule.count(after, until)
    if not count:
        return ()
    first = schedule.next_after(after) or until
    last = schedule.newest(after, until, 1)[0]
    return (_misfire(job, _Range(first, last, count), MisfireRule.PAUSED, None),)


@dataclass(frozen=True, slots=True)
class _Range:
    first: datetime
    last: datetime
    count: int


def _advance_paused(job: DueJob, now: datetime) -> JobDecision:
    misfires = paused_range(job, job.next_run_at - INSTANT, now)
    return JobDecision(job.job_id, (), misfires, job.ticks.next_after(now))


def _dst_gaps(job: DueJob, decision: MisfireDecision, now: datetime) -> list[NewMisfire]:
    """What dstPolicy skip left out since the last decision: each gap is in one such span."""
    if job.dst_policy != "skip":
        return []
    until = decision.next_run_at or now
    return [
        _misfire(job, _Range(gap, gap, 1), MisfireRule.DST_GAP, None)
        for gap in job.ticks.gap_ticks(job.next_run_at, until)
    ]


def _misfire(
    job: DueJob, found: SkippedRange | _Range, rule: MisfireRule, into: datetime | None
) -> NewMisfire:
    return NewMisfire(
        job_id=job.job_id,
        owner_id=job.owner,
        first_tick=found.first,
        last_tick=found.last,
        tick_count=found.count,
        rule=rule,
        job_version=job.version,
        into_scheduled_for=into,
    )
