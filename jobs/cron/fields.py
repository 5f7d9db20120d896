"""The fields of an expression: which values each may hold, and how its terms are read."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from zlib import crc32

from jobs.cron.errors import InvalidSchedule, shown

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One position of an expression. There are six, told apart by identity."""

    name: str
    low: int
    high: int
    hash_shift: int  # where in the hash of a job's id this field's bits start
    hash_high: int  # H stays at or below it: no day that some months lack, no second Sunday
    names: dict[str, int] = field(default_factory=dict)

    @property
    def span(self) -> str:
        if not self.names:
            return f"{self.low} to {self.high}"
        first, last = (
            min(self.names, key=self.names.__getitem__),
            max(self.names, key=self.names.__getitem__),
        )
        return f"{self.low} to {self.high}, or {first} to {last}"


SECOND = Field("second", 0, 59, 5, 59)
MINUTE = Field("minute", 0, 59, 0, 59)
HOUR = Field("hour", 0, 23, 1, 23)
DAY = Field("day-of-month", 1, 31, 2, 28)
MONTH = Field("month", 1, 12, 3, 12, {name: n for n, name in enumerate(MONTHS, 1)})
WEEKDAY = Field("day-of-week", 0, 7, 4, 6, {name: n for n, name in enumerate(WEEKDAYS)})
DAY_FIELDS = (DAY, WEEKDAY)

_VALUE = r"(?:[0-9]+|[A-Z]{3})"
_RANGE = re.compile(rf"(?:(\*)|({_VALUE})(?:-({_VALUE}))?)(?:/([0-9]+))?")
_HASH = re.compile(r"H(?:\(([0-9]+)-([0-9]+)\))?(?:/([0-9]+))?")
_NEAREST = re.compile(r"([0-9]+)W")
_LAST_WEEKDAY = re.compile(rf"({_VALUE})L")
_NTH_WEEKDAY = re.compile(rf"({_VALUE})#([0-9]+)")


@dataclass(slots=True)
class Values:
    """What a field allows: a bit for each plain value, and the day rules that depend on the month.

    Shared between expressions once it is read, and not changed after that.
    nearest and last_weekdays are bit sets too; nth holds a bit set of weekdays for each ordinal.
    """

    mask: int = 0
    has_star: bool = False
    starts_with_star: bool = False
    last_day: bool = False
    last_workday: bool = False
    nearest: int = 0
    last_weekdays: int = 0
    nth: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)


@lru_cache(maxsize=16_384)
def read_field(spec: Field, text: str, hash_id: str | None) -> Values:
    """The values that `text` allows at the position `spec`."""
    upper = text.upper()
    values = Values(has_star="*" in text, starts_with_star=text[0] in "*?")
    if "?" in text:
        _read_question_mark(spec, text, values)
        return values
    for term in upper.split(","):
        if not term:
            raise _wrong(spec, text, "a list has an empty term; write values between the commas")
        if not (spec in DAY_FIELDS and _read_day_rule(spec, term, values)):
            values.mask |= _read_term(spec, term, hash_id)
    if spec is WEEKDAY and values.mask & 1 << 7:
        values.mask = values.mask & 0b1111111 | 1
    return values


def _read_question_mark(spec: Field, text: str, values: Values) -> None:
    if spec not in DAY_FIELDS:
        raise _wrong(spec, text, "? is for the two day fields only; use * here")
    if text != "?":
        raise _wrong(spec, text, "? stands alone; use * to combine it with a step or a list")
    values.mask = _bits(0, 6, 1) if spec is WEEKDAY else _bits(spec.low, spec.high, 1)


def _read_term(spec: Field, term: str, hash_id: str | None) -> int:
    if term[0] == "H" and (match := _HASH.fullmatch(term)):
        return _read_hash(spec, term, match, hash_id)
    match = _RANGE.fullmatch(term)
    if match is None:
        raise _wrong(spec, term, f"not understood; {_usage(spec)}")
    star, first, last, step = match.groups()
    every = _step(spec, term, step)
    if star:
        return _bits(spec.low, spec.high, every)
    low = _number(spec, term, first)
    if last is None:
        return _bits(low, spec.high if step else low, every)
    high = _number(spec, term, last)
    if high < low and last == "SUN":
        high = 7
    if high < low:
        raise _wrong(
            spec,
            term,
            f"the range runs backwards; write the smaller value first, or a list of two ranges "
            f"such as {first}-{spec.high},{spec.low}-{last}",
        )
    return _bits(low, high, every)


def _read_hash(spec: Field, term: str, match: re.Match[str], hash_id: str | None) -> int:
    """H draws one value, the same for ever, from the hash of the job's id."""
    if hash_id is None:
        raise _wrong(spec, term, "H needs the id of a job to hash; use a number here")
    first, last, step = match.groups()
    low, high = spec.low, spec.hash_high
    if first is not None:
        low, high = _number(spec, term, first), _number(spec, term, last)
        if high < low:
            raise _wrong(spec, term, "the range of H runs backwards; write the smaller value first")
    width = high - low + 1
    if step is None:
        offset = (crc32(hash_id.encode()) >> spec.hash_shift) % width
        return 1 << (low + offset)
    every = _step(spec, term, step)
    offset = (crc32(hash_id.encode()) >> spec.hash_shift) % min(every, width)
    return _bits(low + offset, high, every)


def _read_day_rule(spec: Field, term: str, values: Values) -> bool:
    """Whether `term` is one of the rules that depend on the month: L, LW, nW, nL, n#k."""
    if spec is DAY:
        if term == "L":
            values.last_day = True
        elif term == "LW":
            values.last_workday = True
        elif match := _NEAREST.fullmatch(term):
            values.nearest |= 1 << _number(spec, term, match[1])
        else:
            return False
        return True
    if match := _LAST_WEEKDAY.fullmatch(term):
        values.last_weekdays |= 1 << _number(spec, term, match[1]) % 7
    elif match := _NTH_WEEKDAY.fullmatch(term):
        ordinal = _digits(match[2])
        if not 1 <= ordinal <= 5:
            raise _wrong(spec, term, "the number after # counts weeks of a month; use 1 to 5")
        nth = list(values.nth)
        nth[ordinal - 1] |= 1 << _number(spec, term, match[1]) % 7
        values.nth = (nth[0], nth[1], nth[2], nth[3], nth[4])
    else:
        return False
    return True


def _number(spec: Field, term: str, text: str) -> int:
    if not text[0].isdigit():
        if text not in spec.names:
            raise _wrong(spec, term, f"{text} is no name of this field; use {spec.span}")
        return spec.names[text]
    number = _digits(text)
    if not spec.low <= number <= spec.high:
        raise _wrong(spec, term, f"{_cut(text)} is out of range; use {spec.span}")
    return number


def _step(spec: Field, term: str, text: str | None) -> int:
    if text is None:
        return 1
    step = _digits(text)
    if step == 0:
        raise _wrong(spec, term, "the step is 0; use 1 or more")
    return step


def _digits(text: str) -> int:
    """An int, of which nobody needs to see more than that it is too large."""
    significant = text.lstrip("0")
    return int(significant[:6] or "0") if len(significant) <= 6 else 999_999


def _bits(low: int, high: int, step: int) -> int:
    bits = 0
    for value in range(low, high + 1, step):
        bits |= 1 << value
    return bits


def _usage(spec: Field) -> str:
    usage = f"use *, a value ({spec.span}), a range a-b, a step /n, a list, or H"
    if spec is DAY:
        return f"{usage}; or L (last day), LW (last working day), 15W (working day nearest)"
    if spec is WEEKDAY:
        return f"{usage}; or 5L (last Friday), 5#3 (third Friday)"
    return usage


def _cut(text: str) -> str:
    return text if len(text) <= 12 else f"{text[:12]}…"


def _wrong(spec: Field, text: str, why: str) -> InvalidSchedule:
    return InvalidSchedule(f"{spec.name} {shown(text)}: {why}", field=spec.name)
