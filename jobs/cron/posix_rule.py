"""The rule at the end of a zone file (a POSIX TZ string), which holds for all later years."""

import re
from dataclasses import dataclass

from jobs.cron.dates import kind_of_year, new_year

DAY_SEC = 86_400
EPOCH_ORDINAL = 719_163  # 1970-01-01
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_CLOCK = r"([+-]?[0-9]+(?::[0-9]+){0,2})"
_RULE = re.compile(rf"{_NAME}{_CLOCK}(?:{_NAME}{_CLOCK}?,([^,]+),([^,]+))?")
_MONTH_DATE = re.compile(r"M([0-9]+)\.([0-9]+)\.([0-9]+)")


@dataclass(frozen=True, slots=True)
class YearlyChange:
    """When in each year the clock changes: M (month, week, weekday), J or plain day of year."""

    kind: str
    month: int
    week: int
    day: int
    wall_sec: int  # by the clock that is in force before the change

    def local_sec(self, year: int) -> int:
        """The change's wall clock, as seconds since 1970 on that clock."""
        first = new_year(year)
        is_leap = kind_of_year(year, first) >= 7
        if self.kind == "M":
            ordinal = self._nth_weekday(first, is_leap)
        elif self.kind == "J":  # 1 to 365, 29 February is never counted
            ordinal = first + self.day - 1 + (is_leap and self.day >= 60)
        else:
            ordinal = first + self.day
        return (ordinal - EPOCH_ORDINAL) * DAY_SEC + self.wall_sec

    def _nth_weekday(self, first: int, is_leap: bool) -> int:
        month = self.month - 1
        start = first + sum(_MONTH_LENGTHS[:month]) + (is_leap and month >= 2)
        length = _MONTH_LENGTHS[month] + (is_leap and month == 1)
        day = (self.day - start) % 7 + (self.week - 1) * 7
        return start + (day if day < length else day - 7)


@dataclass(frozen=True, slots=True)
class PosixRule:
    """A fixed offset, or two that change places every year."""

    offset: int
    summer_offset: int
    to_summer: YearlyChange | None
    to_standard: YearlyChange | None

    @property
    def is_yearly(self) -> bool:
        return self.to_summer is not None

    def changes_between(self, first_year: int, last_year: int) -> list[tuple[int, int]]:
        """(instant, offset from then on) of every change of those years, in order of time."""
        if self.to_summer is None or self.to_standard is None:
            return []
        changes = []
        for year in range(first_year, last_year + 1):
            changes.append((self.to_summer.local_sec(year) - self.offset, self.summer_offset))
            changes.append((self.to_standard.local_sec(year) - self.summer_offset, self.offset))
        return sorted(changes)


def parse_rule(text: str) -> PosixRule:
    """The rule that `text` states; ValueError when it is none."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a POSIX TZ string: {text!r}")
    standard, summer, to_summer, to_standard = match.groups()
    offset = -_seconds(standard)  # POSIX counts west of Greenwich
    if to_summer is None:
        return PosixRule(offset, offset, None, None)
    summer_offset = offset + 3600 if summer is None else -_seconds(summer)
    return PosixRule(offset, summer_offset, _change(to_summer), _change(to_standard))


def _change(text: str) -> YearlyChange:
    date_text, _, clock = text.partition("/")
    wall_sec = _seconds(clock) if clock else 2 * 3600
    if match := _MONTH_DATE.fullmatch(date_text):
        return YearlyChange("M", int(match[1]), int(match[2]), int(match[3]), wall_sec)
    if date_text.startswith("J"):
        return YearlyChange("J", 0, 0, int(date_text[1:]), wall_sec)
    return YearlyChange("N", 0, 0, int(date_text), wall_sec)


def _seconds(clock: str) -> int:
    sign = -1 if clock.startswith("-") else 1
    parts = [int(part) for part in clock.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
