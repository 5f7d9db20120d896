"""The slow evaluator that the fast one is measured against.

It shares no code with it: sets instead of bits, the calendar module instead of masks, and no
arithmetic on local times. It walks UTC step by step and asks zoneinfo what the wall clock shows.
"""

import calendar
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from zlib import crc32
from zoneinfo import ZoneInfo

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
NAMES = {
    "month": ("", *MONTHS),
    "weekday": ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
}
LIMITS = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (0, 7),
}
HASH_PLACE = {"minute": 0, "hour": 1, "day": 2, "month": 3, "weekday": 4, "second": 5}
LOOK_BACK = timedelta(hours=25)  # no zone ever set its clock back further than a day


class SlowCron:
    """One expression of five fields, or six with the second in front."""

    def __init__(self, expression: str, hash_id: str = "") -> None:
        texts = expression.upper().split()
        self.has_seconds = len(texts) == 6
        self._hash_id = hash_id
        self.seconds = self._plain("second", texts[0]) if self.has_seconds else {0}
        texts = texts[-5:]
        self.minutes, self.hours = self._plain("minute", texts[0]), self._plain("hour", texts[1])
        self.months = self._plain("month", texts[3])
        self.days, self.weekdays = texts[2].split(","), texts[4].split(",")
        self._dates: dict[date, bool] = {}
        self.follows_elapsed_time = "*" in texts[0] + texts[1]
        self.both_day_fields = texts[2][0] in "*?" or texts[4][0] in "*?"

    def matches(self, wall: datetime) -> bool:
        """Whether the wall clock's reading is one that the expression names."""
        if wall.second not in self.seconds or wall.minute not in self.minutes:
            return False
        if wall.hour not in self.hours:
            return False
        day = wall.date()
        if day not in self._dates:
            self._dates[day] = self.matches_date(day)
        return self._dates[day]

    def matches_date(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_day = any(self._day_matches(term, day) for term in self.days)
        by_weekday = any(self._weekday_matches(term, day) for term in self.weekdays)
        return (by_day and by_weekday) if self.both_day_fields else (by_day or by_weekday)

    def ticks(
        self,
        zone: ZoneInfo,
        after: datetime,
        until: datetime,
        *,
        skip_gaps: bool = False,
        look_back: timedelta = LOOK_BACK,
        step: timedelta | None = None,
    ) -> list[datetime]:
        """The ticks with after < tick <= until."""
        step = step or self._step(zone, after)
        if self.follows_elapsed_time:
            walk = _walk(zone, after, until, step)
            return [utc for utc, wall in walk if utc > after and self.matches(wall)]
        walk = _walk(zone, after - look_back, until, step)
        ticks, reading_step = [], self._reading_step(step)
        _, shown = next(walk)  # the wall clock's highest reading so far
        for utc, wall in walk:
            if wall <= shown:
                continue  # a second pass
            readings = [wall] if skip_gaps else _readings(shown, wall, reading_step)
            if utc > after and any(self.matches(reading) for reading in readings):
                ticks.append(utc)
            shown = wall
        return ticks

    def _step(self, zone: ZoneInfo, around: datetime) -> timedelta:
        offsets = [
            (around + timedelta(days=day)).astimezone(zone).utcoffset() for day in range(-4, 6)
        ]
        is_whole = all(offset is not None and offset.seconds % 60 == 0 for offset in offsets)
        return timedelta(minutes=1) if is_whole and not self.has_seconds else timedelta(seconds=1)

    def _reading_step(self, step: timedelta) -> timedelta:
        return timedelta(seconds=1) if self.has_seconds else max(step, timedelta(minutes=1))

    def _plain(self, place: str, text: str) -> set[int]:
        values: set[int] = set()
        for term in text.split(","):
            values |= self._term(place, term)
        return values

    def _term(self, place: str, term: str) -> set[int]:
        low, high = LIMITS[place]
        body, _, step = term.partition("/")
        if body in ("*", "?"):
            first, last = low, high
        elif body.startswith("H"):
            return self._hashed(place, body, step)
        elif "-" in body:
            first, last = (self._value(place, part) for part in body.split("-"))
            if first > last and body.endswith("SUN"):
                last = 7
        else:
            first = self._value(place, body)
            last = high if step else first
        return set(range(first, last + 1, int(step or "1")))

    def _hashed(self, place: str, body: str, step: str) -> set[int]:
        low, high = LIMITS[place]
        high = {"day": 28, "weekday": 6}.get(place, high)
        if "(" in body:
            low, high = (int(part) for part in body[2:-1].split("-"))
        drawn = crc32(self._hash_id.encode()) >> HASH_PLACE[place]
        if not step:
            return {low + drawn % (high - low + 1)}
        first = low + drawn % min(int(step), high - low + 1)
        return set(range(first, high + 1, int(step)))

    def _value(self, place: str, text: str) -> int:
        return int(text) if text.isdigit() else NAMES[place].index(text)

    def _day_matches(self, term: str, day: date) -> bool:
        length = calendar.monthrange(day.year, day.month)[1]
        if term == "L":
            return day.day == length
        if term == "LW":
            workdays = [n for n in range(1, length + 1) if day.replace(day=n).isoweekday() < 6]
            return day.day == workdays[-1]
        if term.endswith("W"):
            target = int(term[:-1])
            if target > length or day.isoweekday() > 5:
                return False
            nearest = min(
                (n for n in range(1, length + 1) if day.replace(day=n).isoweekday() < 6),
                key=lambda n: abs(n - target),
            )
            return day.day == nearest
        return day.day in self._term("day", term)

    def _weekday_matches(self, term: str, day: date) -> bool:
        weekday = day.isoweekday() % 7
        if "#" in term:
            name, ordinal = term.split("#")
            return weekday == self._value("weekday", name) % 7 and (day.day + 6) // 7 == int(
                ordinal
            )
        if term.endswith("L"):
            is_last = (day + timedelta(days=7)).month != day.month
            return is_last and weekday == self._value("weekday", term[:-1]) % 7
        return weekday in {value % 7 for value in self._term("weekday", term)}


def _walk(
    zone: ZoneInfo, start: datetime, end: datetime, step: timedelta
) -> Iterator[tuple[datetime, datetime]]:
    """(instant, wall clock's reading) from start to end, on whole steps."""
    utc = (
        start.replace(microsecond=0)
        if step.seconds == 1
        else start.replace(second=0, microsecond=0)
    )
    while utc <= end:
        yield utc, utc.astimezone(zone).replace(tzinfo=None, fold=0)
        utc += step


def _readings(shown: datetime, wall: datetime, step: timedelta) -> list[datetime]:
    """The whole steps of the wall clock that come after `shown`, up to `wall`."""
    if wall - shown == step:
        return [wall]
    reading = shown.replace(second=0) if step.seconds >= 60 else shown
    readings = []
    while reading <= wall:
        if reading > shown:
            readings.append(reading)
        reading += step
    return readings
