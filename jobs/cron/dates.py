"""Which dates an expression allows: one bit for each day of each kind of year.

A year is one of fourteen kinds (leap or not, and the weekday it starts on), and all of them occur
in any 400 years. So fourteen masks say everything, for ever, and "no date at all" is exact.
"""

from datetime import date

from jobs.cron.fields import Values

WEEK = 0b1111111
_LENGTHS = (
    (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
    (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
)
_STARTS = tuple(tuple(sum(lengths[:m]) for m in range(12)) for lengths in _LENGTHS)
# Bits of the days of a year that fall on the weekday of its day 0, 1, … 6.
_SEVENTHS = tuple(sum(1 << day for day in range(first, 366, 7)) for first in range(7))
LAST_ORDINAL = date.max.toordinal()


class Dates:
    """The dates that the three date fields allow together."""

    __slots__ = ("_masks", "day", "is_and", "months", "weekday")

    def __init__(self, day: Values, months: int, weekday: Values) -> None:
        self.day = day
        self.weekday = weekday
        self.months = [month for month in range(1, 13) if months >> month & 1]
        # Vixie's rule: two restricted day fields add up, unless one of them starts with a star.
        self.is_and = day.starts_with_star or weekday.starts_with_star
        self._masks: list[int | None] = [None] * 14

    @property
    def has_any(self) -> bool:
        return any(self.mask(kind) for kind in range(14))

    def next(self, ordinal: int) -> int | None:
        """The first allowed date at or after `ordinal` (as in date.toordinal), within 400 years."""
        if ordinal > LAST_ORDINAL:
            return None
        year = date.fromordinal(ordinal).year
        first = new_year(year)
        bits = self.mask(kind_of_year(year, first)) >> (ordinal - first)
        if bits:
            return ordinal + (bits & -bits).bit_length() - 1
        for later in range(year + 1, min(year + 401, 10_000)):
            first = new_year(later)
            bits = self.mask(kind_of_year(later, first))
            if bits:
                return first + (bits & -bits).bit_length() - 1
        return None

    def count(self, start: int, end: int) -> int:
        """How many allowed dates lie in [start, end)."""
        total = 0
        while start < end:
            year = date.fromordinal(start).year
            first = new_year(year)
            stop = min(end, new_year(year + 1))
            bits = self.mask(kind_of_year(year, first)) >> (start - first)
            total += (bits & ((1 << (stop - start)) - 1)).bit_count()
            start = stop
        return total

    def mask(self, kind: int) -> int:
        """The allowed days of a kind of year; bit 0 is 1 January."""
        mask = self._masks[kind]
        if mask is None:
            mask = self._masks[kind] = self._build(*divmod(kind, 7))
        return mask

    def _build(self, is_leap: int, first_weekday: int) -> int:
        lengths, starts = _LENGTHS[is_leap], _STARTS[is_leap]
        by_week = 0
        for weekday in range(7):
            if self.weekday.mask >> weekday & 1:
                by_week |= _SEVENTHS[(weekday - first_weekday) % 7]
        mask = 0
        for month in self.months:
            length, start = lengths[month - 1], starts[month - 1]
            first = (first_weekday + start) % 7
            days = self._days_of_month(length, first)
            weekdays = by_week >> start & ((1 << length) - 1) | self._weekday_rules(length, first)
            mask |= (days & weekdays if self.is_and else days | weekdays) << start
        return mask

    def _days_of_month(self, length: int, first: int) -> int:
        """Bits of the days that the day-of-month field allows; bit 0 is the first."""
        rule = self.day
        bits = rule.mask >> 1 & ((1 << length) - 1)
        if rule.last_day:
            bits |= 1 << (length - 1)
        if rule.last_workday:
            bits |= 1 << (_workday_near(length, length, first) - 1)
        if rule.nearest:
            for day in range(1, length + 1):
                if rule.nearest >> day & 1:
                    bits |= 1 << (_workday_near(day, length, first) - 1)
        return bits

    def _weekday_rules(self, length: int, first: int) -> int:
        """Bits of the days that nL and n#k allow in a month; bit 0 is the first."""
        rule = self.weekday
        if not rule.last_weekdays and not any(rule.nth):
            return 0
        bits = 0
        for weekday in range(7):
            day = (weekday - first) % 7
            for allowed in rule.nth:
                if allowed >> weekday & 1 and day < length:
                    bits |= 1 << day
                day += 7
            if rule.last_weekdays >> weekday & 1:
                last = (weekday - first) % 7 + 28
                bits |= 1 << (last if last < length else last - 7)
        return bits


def new_year(year: int) -> int:
    """The ordinal of 1 January; of 1 January 10000 as well, where dates end."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + 1


def kind_of_year(year: int, first: int) -> int:
    """0 to 13: the weekday of 1 January (ordinal `first`, Sunday is 0), plus 7 in a leap year."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return first % 7 + (7 if is_leap else 0)


def _workday_near(day: int, length: int, first: int) -> int:
    """The Monday to Friday nearest to `day`, inside the month."""
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
