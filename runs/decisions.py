"""From a due job to what becomes of its ticks: pure, a job at a time (PROTOCOL 3)."""

import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jobs.misfire import SkippedRange, decide
from jobs.schedule import Schedule
from runs.records import NewMisfire, NewRun
from runs.states import MisfireRule, RunStatus, Trigger

INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DueJob:
    """What a decision needs of a job; the names are those of the columns of jobs and job_next."""

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
    paused_since: datetime | None  # by a pause of its team or of everything

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
    """Decide on every tick of the job from next_run_at to `now`: by policy, unless it is paused.

    Ticks up to the instant at which a pause began are the policy's, however late they are found.
    """
    schedule = job.ticks
    before_pause = schedule
    if job.paused_since is not None:
        before_pause = replace(schedule, ends_at=_earlier(job.ends_at, job.paused_since))
    decision = decide(
        before_pause,
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
    next_run_at = decision.next_run_at
    if job.paused_since is not None and next_run_at is None:
        misfires += paused_range(job, max(job.next_run_at - INSTANT, job.paused_since), now)
        next_run_at = schedule.next_after(now)
    misfires += gap_records(job, job.next_run_at, next_run_at)
    runs = tuple(
        new_run(job, fire.tick, priority="low" if fire.is_catch_up else job.priority)
        for fire in decision.fires
    )
    return JobDecision(job.job_id, runs, tuple(misfires), next_run_at)


def _earlier(one: datetime | None, other: datetime) -> datetime:
    return other if one is None else min(one, other)


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


def gap_records(job: DueJob, after: datetime, next_run_at: datetime | None) -> list[NewMisfire]:
    """What dstPolicy skip leaves out from `after` to the next tick: recorded ahead of it.

    So every gap before next_run_at is recorded, as is every tick. Without a next tick it is those
    up to endsAt.
    """
    if job.dst_policy != "skip":
        return []
    until = next_run_at or job.ends_at or after
    return [
        _misfire(job, _Range(gap, gap, 1), MisfireRule.DST_GAP, None)
        for gap in job.ticks.gap_ticks(after, until)
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
