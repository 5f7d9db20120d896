"""From the text of an expression to the values it allows."""

from dataclasses import dataclass
from functools import lru_cache

from jobs.cron.dates import Dates
from jobs.cron.errors import InvalidSchedule, NeverFires, shown
from jobs.cron.fields import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, Field, Values, read_field

MAX_LENGTH = 1_000
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
SIX_FIELDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """An expression, ready to be evaluated. Bit n of a mask says that value n is allowed."""

    fields: tuple[str, ...]  # always six, seconds first
    seconds: int
    minutes: int
    hours: int
    dates: Dates
    is_wildcard: bool  # a * in minute or hour: it follows elapsed time, not the wall clock


@lru_cache(maxsize=32_768)
def compile_expression(expression: str, hash_id: str | None = None) -> Compiled:
    """Raise InvalidSchedule for what is not an expression, NeverFires for one without a date."""
    texts = split_fields(expression)
    second, minute, hour = (
        _read(spec, text, hash_id)
        for spec, text in zip((SECOND, MINUTE, HOUR), texts[:3], strict=True)
    )
    dates = _read_dates(*texts[3:], hash_id if "H" in "".join(texts[3:]).upper() else None)
    if not dates.has_any:
        raise _never(expression, texts)
    return Compiled(
        fields=texts,
        seconds=second.mask,
        minutes=minute.mask,
        hours=hour.mask,
        dates=dates,
        is_wildcard=minute.has_star or hour.has_star,
    )


@lru_cache(maxsize=4_096)
def _read_dates(day: str, month: str, weekday: str, hash_id: str | None) -> Dates:
    """Most schedules say * * *, and all of those share one Dates with its masks."""
    months = _read(MONTH, month, hash_id).mask
    return Dates(_read(DAY, day, hash_id), months, _read(WEEKDAY, weekday, hash_id))


def _read(spec: Field, text: str, hash_id: str | None) -> Values:
    return read_field(spec, text, hash_id if "H" in text.upper() else None)


@lru_cache(maxsize=32_768)
def needs_hash(expression: str) -> bool:
    """Whether the ticks depend on the job's id (THU is the one name with an H in it)."""
    upper = expression.upper()
    return "H" in upper.replace("THU", "") and not upper.startswith("@")


def split_fields(expression: str) -> tuple[str, ...]:
    """The six fields, seconds first, of an expression or macro."""
    _check_characters(expression)
    text = expression.strip(" \t")
    if not text:
        raise InvalidSchedule("the expression is empty; write five fields such as 0 2 * * *")
    if text[0] == "@":
        text = _macro(text)
    parts = text.replace("\t", " ").split(" ")
    texts = tuple(part for part in parts if part)
    if len(texts) == 5:
        return ("0", *texts)
    if len(texts) == 6:
        return texts
    raise InvalidSchedule(
        f"the expression has {len(texts)} field{'s' if len(texts) > 1 else ''}; write five "
        "(minute hour day-of-month month day-of-week), or six with the second in front"
    )


def _check_characters(expression: str) -> None:
    if len(expression) > MAX_LENGTH:
        raise InvalidSchedule(
            f"the expression has {len(expression)} characters; {MAX_LENGTH} is the most"
        )
    if expression.isascii() and expression.replace("\t", " ").isprintable():
        return
    place, wrong = next(
        (place, char)
        for place, char in enumerate(expression, 1)
        if char != "\t" and not (char.isascii() and char.isprintable())
    )
    field = _field_at(expression, place)
    raise InvalidSchedule(
        f"character {place} of the expression, in the {field} field, is {wrong!a}; only printable "
        "ASCII is allowed, with blanks or tabs between the fields",
        field=field,
    )


def _field_at(expression: str, place: int) -> str:
    """The name of the field that the character `place` belongs to, as far as that can be told."""
    names = [spec.name for spec in SIX_FIELDS]
    if len(expression.split()) < len(names):
        del names[0]
    before = len(expression[: place - 1].split())
    starts_a_field = expression[place - 2 : place - 1].strip() == ""
    return names[min(before if starts_a_field else before - 1, len(names) - 1)]


def _macro(text: str) -> str:
    fields = MACROS.get(text.lower())
    if fields is None:
        raise InvalidSchedule(f"{shown(text)} is no macro; use one of {', '.join(MACROS)}")
    return fields


def _never(expression: str, texts: tuple[str, ...]) -> NeverFires:
    day, month, weekday = texts[3:]
    return NeverFires(
        f"{shown(expression)} never fires: no date in 400 years has day-of-month {day}, "
        f"month {month} and day-of-week {weekday}",
        field=DAY.name,
    )
