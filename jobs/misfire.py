"""What becomes of the ticks of one job that are due by now: run, coalesce, skip or cap.

A tick found later than the grace is a misfire and goes by the job's policy; any other is ordinary.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal

from jobs.schedule import Schedule

MisfirePolicy = Literal["run_once", "run_all", "skip"]
SkipRule = Literal["coalesced", "skipped", "capped"]
_INSTANT = timedelta(microseconds=1)
_RULES: dict[MisfirePolicy, SkipRule] = {
    "run_once": "coalesced",
    "run_all": "capped",
    "skip": "skipped",
}


@dataclass(frozen=True, slots=True)
class Fire:
    """A tick that becomes a run. A catch-up is one of many missed ones and goes out on low."""

    tick: datetime
    is_catch_up: bool


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """Ticks from first to last that become no run of their own, and by which rule."""

    first: datetime
    last: datetime
    count: int
    rule: SkipRule
    into: datetime | None  # the tick whose run stands for coalesced ones


@dataclass(frozen=True, slots=True)
class MisfireDecision:
    """Every tick from the old next_run_at to now, and where the schedule goes on."""

    fires: tuple[Fire, ...]
    skipped: tuple[SkippedRange, ...]
    next_run_at: datetime | None


def decide(
    schedule: Schedule,
    next_run_at: datetime,
    now: datetime,
    *,
    policy: MisfirePolicy,
    grace_sec: int,
    max_catchup: int,
    floor: datetime | None = None,
    limit: int = 5_000,
) -> MisfireDecision:
    """Decide on all ticks of `schedule` in [next_run_at, now].

    Ticks before `floor` (the oldest hot day) are capped. At most `limit` ticks fire at once: beyond
    that the newest are left for the next decision, and next_run_at of the answer is the first left.
    """
    first = schedule.next_after(next_run_at - _INSTANT)
    if first is None or first > now:
        return MisfireDecision((), (), first)
    following = schedule.next_after(first)
    in_time_from = now - timedelta(seconds=grace_sec)
    if (
        (following is None or following > now)
        and first >= in_time_from
        and (floor is None or first >= floor)
    ):  # nearly always: one tick, just due
        return MisfireDecision((Fire(first, is_catch_up=False),), (), following)
    hot_from = first if floor is None else max(first, floor)
    late_until = max(hot_from, in_time_from)
    on_time = list(islice(schedule.ticks(late_until - _INSTANT, now), limit + 1))
    late = _late_ones_to_run(schedule, hot_from, late_until, policy, max_catchup, on_time)
    skipped = _skipped_ranges(schedule, (first, hot_from, late_until), policy, late or on_time)
    fires = [Fire(tick, is_catch_up=policy == "run_all") for tick in late]
    fires += [Fire(tick, is_catch_up=False) for tick in on_time]
    if len(fires) > limit:
        return MisfireDecision(tuple(fires[:limit]), skipped, fires[limit].tick)
    return MisfireDecision(tuple(fires), skipped, schedule.next_after(now))


def _late_ones_to_run(
    schedule: Schedule,
    start: datetime,
    end: datetime,
    policy: MisfirePolicy,
    max_catchup: int,
    on_time: list[datetime],
) -> list[datetime]:
    """The missed ticks in [start, end) that run all the same, oldest first."""
    if policy == "skip" or start >= end or (policy == "run_once" and on_time):
        return []
    keep = max_catchup if policy == "run_all" else 1
    return schedule.newest(start - _INSTANT, end - _INSTANT, keep)


def _skipped_ranges(
    schedule: Schedule,
    bounds: tuple[datetime, datetime, datetime],
    policy: MisfirePolicy,
    running: list[datetime],
) -> tuple[SkippedRange, ...]:
    """What does not run: all ticks before the hot days, and the late ones before those that do."""
    first, hot_from, late_until = bounds
    until = min(late_until, running[0]) if running else late_until
    into = running[0] if running and policy == "run_once" else None
    ranges = (
        _skipped(schedule, first, hot_from, "capped", None),
        _skipped(schedule, hot_from, until, _RULES[policy], into),
    )
    return tuple(found for found in ranges if found is not None)


def _skipped(
    schedule: Schedule, start: datetime, end: datetime, rule: SkipRule, into: datetime | None
) -> SkippedRange | None:
    """The ticks in [start, end) as a range; None if there are none."""
    after, until = start - _INSTANT, end - _INSTANT
    count = schedule.count(after, until) if start < end else 0
    if count == 0:
        return None
    first = schedule.next_after(after)
    last = schedule.newest(after, until, 1)[0]
    return SkippedRange(first or last, last, count, rule, into)
