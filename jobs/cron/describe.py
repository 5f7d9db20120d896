"""A schedule in words.

cron-descriptor has the words for times of day, given them in plain spelling. Dates are said here:
it knows nothing of Vixie's OR and AND, nor of lists that hold L or several n#k.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from cron_descriptor import ExpressionDescriptor, Options

from jobs.cron.dates import Dates
from jobs.cron.fields import HOUR, MINUTE, SECOND, Field, Values
from jobs.cron.parse import compile_expression, needs_hash

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONDAY_FIRST = (*_WEEKDAYS[1:], _WEEKDAYS[0])
_DAYS = tuple(str(day) for day in range(1, 32))
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_OPTIONS = Options(use_24hour_time_format=True, locale_code="en_US")


def describe(expression: str, hash_id: str | None = None) -> str:
    """The expression in words, such as "At 02:00, on day 13 of the month or on Friday"."""
    return _describe(expression, hash_id if needs_hash(expression) else None)


@lru_cache(maxsize=4_096)
def _describe(expression: str, hash_id: str | None) -> str:
    spec = compile_expression(expression, hash_id)
    times = " ".join(
        _plain(field, mask)
        for field, mask in ((SECOND, spec.seconds), (MINUTE, spec.minutes), (HOUR, spec.hours))
    )
    words = str(ExpressionDescriptor(f"{times} * * *", _OPTIONS))
    dates = _dates(spec.dates)
    if not dates and not spec.is_wildcard:
        dates = ["every day"]
    return ", ".join([words, *dates])


def _plain(field: Field, mask: int) -> str:
    """A spelling of the values that every reader of cron takes the same way."""
    values = [value for value in range(field.low, field.high + 1) if mask >> value & 1]
    first, last = values[0], values[-1]
    step = values[1] - first if len(values) > 1 else 0
    if len(values) == field.high - field.low + 1:
        return "*"
    if len(values) < 3 or values != list(range(first, last + 1, step)):
        return ",".join(map(str, values))
    if step == 1:
        return f"{first}-{last}"
    if first == field.low and last + step > field.high:
        return f"*/{step}"
    return f"{first}-{last}/{step}"


def _dates(dates: Dates) -> list[str]:
    days, weekdays = _days(dates.day), _weekdays(dates.weekday)
    words = []
    if days and weekdays:
        words.append(
            f"{days} if it is also {weekdays}" if dates.is_and else f"{days} or {weekdays}"
        )
    elif (days or weekdays) and dates.is_and:
        words.append(days or weekdays)
    if len(dates.months) < 12:
        words.append(f"in {_listed([_MONTHS[month - 1] for month in dates.months], _MONTHS)}")
    return words


def _days(rule: Values) -> str:
    """Words for the day-of-month field; none if it allows every day."""
    plain = [str(day) for day in range(1, 32) if rule.mask >> day & 1]
    if len(plain) == 31:
        return ""
    words = []
    if plain:
        listed = _listed(plain, [str(day) for day in range(1, 32)])
        words.append(
            f"day {listed} of the month" if len(plain) == 1 else f"days {listed} of the month"
        )
    if rule.last_day:
        words.append("the last day of the month")
    if rule.last_workday:
        words.append("the last working day (Monday to Friday) of the month")
    near = [day for day in _DAYS if rule.nearest >> int(day) & 1]
    if near:
        words.append(f"the working day (Monday to Friday) nearest to day {_joined(near, 'or')}")
    return f"on {_joined(words, 'and')}"


def _weekdays(rule: Values) -> str:
    """Words for the day-of-week field; none if it allows every day."""
    plain = [day for day in _MONDAY_FIRST if rule.mask >> _WEEKDAYS.index(day) & 1]
    if len(plain) == 7:
        return ""
    words = [_listed(plain, _MONDAY_FIRST)] if plain else []
    for ordinal, allowed in zip(_ORDINALS, rule.nth, strict=True):
        words += [f"the {ordinal} {_WEEKDAYS[day]}" for day in range(7) if allowed >> day & 1]
    words += [f"the last {_WEEKDAYS[day]}" for day in range(7) if rule.last_weekdays >> day & 1]
    is_of_month = len(words) > (1 if plain else 0)
    return f"on {_joined(words, 'and')}{' of the month' if is_of_month else ''}"


def _listed(names: Sequence[str], order: Sequence[str]) -> str:
    """The names; "a to b" for three or more in a row, "a, b, c … z" for many at one distance."""
    places = [order.index(name) for name in names]
    steps = {after - before for before, after in pairwise(places)}
    if len(names) > 2 and steps == {1}:
        return f"{names[0]} to {names[-1]}"
    if len(names) > 6 and len(steps) == 1:
        return f"{', '.join(names[:3])} … {names[-1]}"
    return _joined(names, "and")


def _joined(words: Sequence[str], conjunction: str) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"
