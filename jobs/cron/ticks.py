"""Ticks as datetimes, with what is shared between jobs kept in memory."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from jobs.cron.errors import InvalidSchedule, NeverFires, shown
from jobs.cron.evaluator import DstPolicy, Evaluator
from jobs.cron.parse import compile_expression, needs_hash
from jobs.cron.zones import load_zone

DST_POLICIES: tuple[DstPolicy, ...] = ("vixie", "skip")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def next_ticks(
    expression: str, timezone: str, after: datetime, count: int, hash_id: str | None = None
) -> list[datetime]:
    """The next `count` ticks strictly after `after`; fewer only where the calendar ends.

    InvalidSchedule for what is wrong, NeverFires for what has no tick at all.
    """
    evaluator = evaluator_for(expression, timezone, hash_id)
    ticks: list[datetime] = []
    instant = to_seconds(after)
    while len(ticks) < count:
        found = evaluator.next(instant)
        if found is None:
            break
        ticks.append(to_datetime(found))
        instant = found
    if count > 0 and not ticks:
        raise NeverFires(
            f"{shown(expression)} never fires in {timezone} after {after.isoformat()}: every time "
            "that it names is skipped by a change of the clocks, or lies beyond the calendar"
        )
    return ticks


def check(expression: str, timezone: str, hash_id: str | None = None) -> None:
    """Raise InvalidSchedule, or NeverFires, unless the expression can be used in that zone."""
    evaluator_for(expression, timezone, hash_id)


def evaluator_for(
    expression: str, timezone: str, hash_id: str | None = None, dst_policy: DstPolicy = "vixie"
) -> Evaluator:
    """The shared evaluator. Jobs share it unless their ticks depend on their own id."""
    if not isinstance(expression, str):
        raise InvalidSchedule("the expression is not a text")
    if hash_id is not None and not needs_hash(expression):
        hash_id = None
    return _evaluator(expression, timezone, hash_id, dst_policy)


@lru_cache(maxsize=65_536)
def _evaluator(
    expression: str, timezone: str, hash_id: str | None, dst_policy: DstPolicy
) -> Evaluator:
    if dst_policy not in DST_POLICIES:
        raise InvalidSchedule(
            f"dstPolicy {shown(str(dst_policy))} is unknown; use vixie or skip", field="dstPolicy"
        )
    zone = load_zone(timezone)
    return Evaluator(compile_expression(expression, hash_id), zone, dst_policy)


def instant_of(local: datetime, timezone: str) -> datetime:
    """The instant at which a wall clock in `timezone` first shows `local`, or has jumped over it.

    The same rule as for a fixed-time job: the first of two passes, the end of a gap.
    """
    wall = to_seconds(local.replace(tzinfo=UTC))
    stretch = load_zone(timezone).reaching(wall)
    return to_datetime(max(wall - stretch.offset, stretch.start))


def to_seconds(instant: datetime) -> int:
    """Whole seconds since 1970, rounded down."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs an offset; this one has none")
    return (instant - _EPOCH) // _SECOND


def to_datetime(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)
