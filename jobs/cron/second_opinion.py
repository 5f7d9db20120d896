"""croniter's opinion, asked once when a schedule is created.

A guard against a slip of our own: an expression on whose dates the two disagree is not scheduled.
croniter is asked only what it is right about: plain lists, a clock without changes, no OR of days.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache

from croniter import CroniterBadDateError, croniter

from jobs.cron.errors import InvalidSchedule, shown
from jobs.cron.fields import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, Field
from jobs.cron.parse import Compiled, compile_expression, needs_hash
from jobs.cron.ticks import next_ticks

_ASKED_FROM = datetime(2024, 1, 31, tzinfo=UTC)
_ASKED_TICKS = 3
_EVERY_WEEKDAY = 0b1111111
_EVERY_DAY = (1 << 32) - 2


def check_second_opinion(expression: str, hash_id: str | None = None) -> None:
    """Raise InvalidSchedule if croniter names other first ticks, in UTC, than we do."""
    _check(expression, hash_id if needs_hash(expression) else None)


@lru_cache(maxsize=4_096)
def _check(expression: str, hash_id: str | None) -> None:
    theirs = second_opinion(expression, hash_id, _ASKED_FROM, _ASKED_TICKS)
    if theirs is None:
        return
    ours = next_ticks(expression, "UTC", _ASKED_FROM, _ASKED_TICKS, hash_id)
    if ours != theirs:
        raise InvalidSchedule(
            f"{shown(expression)} cannot be scheduled: two evaluators disagree on its first dates "
            f"({ours[0].isoformat()} and {theirs[0].isoformat()}); write it in a plainer way"
        )


def second_opinion(
    expression: str, hash_id: str | None, after: datetime, count: int
) -> list[datetime] | None:
    """croniter's next ticks in UTC; None where it has no say (L, W and #, or decades apart)."""
    spec = compile_expression(expression, hash_id)
    day, weekday = spec.dates.day, spec.dates.weekday
    has_rules = day.last_day or day.last_workday or day.nearest
    if has_rules or weekday.last_weekdays or any(weekday.nth):
        return None
    ticks: list[datetime] = []
    while len(ticks) < count:
        answers = [_next(fields, after) for fields in _questions(spec)]
        found = [answer for answer in answers if answer is not None]
        if not found:
            return None
        after = min(found)
        ticks.append(after)
    return ticks


def _questions(spec: Compiled) -> Iterator[str]:
    """What to ask croniter: one question, or one for each of two day fields that add up."""
    days, weekdays = spec.dates.day.mask, spec.dates.weekday.mask
    months = sum(1 << month for month in spec.dates.months)
    if spec.dates.is_and:
        pairs = [(days, weekdays)]
    elif days == _EVERY_DAY or weekdays == _EVERY_WEEKDAY:
        pairs = [(_EVERY_DAY, _EVERY_WEEKDAY)]
    else:
        pairs = [(days, _EVERY_WEEKDAY), (_EVERY_DAY, weekdays)]
    for day_mask, weekday_mask in pairs:
        yield " ".join(
            [
                _listed(MINUTE, spec.minutes, 60),
                _listed(HOUR, spec.hours, 24),
                _listed(DAY, day_mask, 31),
                _listed(MONTH, months, 12),
                _listed(WEEKDAY, weekday_mask, 7),
                _listed(SECOND, spec.seconds, 60),
            ]
        )


def _next(fields: str, after: datetime) -> datetime | None:
    """None where croniter gives up: no such date, as one side of an OR may well be."""
    try:
        found: datetime = croniter(fields, after.replace(tzinfo=None), day_or=False).get_next(
            datetime
        )
    except CroniterBadDateError:
        return None
    return found.replace(tzinfo=UTC)


def _listed(field: Field, mask: int, all_of_them: int) -> str:
    values = [str(value) for value in range(field.low, field.high + 1) if mask >> value & 1]
    return "*" if len(values) == all_of_them else ",".join(values)
