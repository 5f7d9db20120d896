"""Random expressions, and instants around changes of the clocks, for the property tests."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from hypothesis import strategies as st

from jobs.cron import zone_names
from jobs.cron.ticks import to_datetime, to_seconds
from jobs.cron.zones import Stretch, load_zone

WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True)
class Change:
    """A change of the clocks: the zone, the stretch that it starts, the offset before it."""

    zone: str
    stretch: Stretch
    offset_before: int

    @property
    def jump(self) -> int:
        return self.stretch.offset - self.offset_before

    @property
    def look_back(self) -> timedelta:
        """How long before an instant the clock may have shown more than it does then."""
        return timedelta(seconds=max(0, -self.jump) + 600)

    @property
    def at(self) -> datetime:
        return to_datetime(self.stretch.start)

    @property
    def wall_before(self) -> datetime:
        return to_datetime(self.stretch.start + self.offset_before)


@lru_cache(maxsize=2)
def changes(first_year: int, last_year: int) -> list[Change]:
    """Every change of every zone in those years, with each rule of change once."""
    start, end = (to_seconds(datetime(n, 1, 1, tzinfo=UTC)) for n in (first_year, last_year))
    found: dict[tuple[Stretch, int], Change] = {}
    for name in sorted(zone_names()):
        zone = load_zone(name)
        for stretch in zone.between(start, end):
            if stretch.start > start:
                offset = zone.at(stretch.start - 1).offset
                found.setdefault((stretch, offset), Change(name, stretch, offset))
    return list(found.values())


@lru_cache(maxsize=1)
def changes_of_whole_minutes() -> list[Change]:
    return [c for c in changes(1880, 2040) if c.offset_before % 60 == c.stretch.offset % 60 == 0]


@lru_cache(maxsize=1)
def changes_with_seconds() -> list[Change]:
    return [c for c in changes(1880, 2040) if c.offset_before % 60 or c.stretch.offset % 60]


@lru_cache(maxsize=1)
def unusual_changes() -> list[Change]:
    """By size or time of day; chance alone would rarely draw them."""
    return [
        c
        for c in changes_of_whole_minutes()
        if abs(c.jump) != 3600 or c.wall_before.hour not in (1, 2, 3)
    ]


def any_change() -> st.SearchStrategy[Change]:
    return st.one_of(
        st.deferred(lambda: st.sampled_from(changes_of_whole_minutes())),
        st.deferred(lambda: st.sampled_from(unusual_changes())),
    )


@st.composite
def near(draw: st.DrawFn, change: Change, hours: int = 14) -> datetime:
    """An instant near the change, often exactly at it or at a round distance."""
    span = hours * 3600
    distance = draw(
        st.one_of(
            st.integers(-span, span),
            st.sampled_from([-3600, -1800, -60, -1, 0, 1, 59, 60, 1800, 3600, 5400, 7200]),
            st.integers(-span // 900, span // 900).map(lambda quarters: quarters * 900),
        )
    )
    return change.at + timedelta(seconds=distance)


def expressions(change: Change, *, seconds: bool = False) -> st.SearchStrategy[str]:
    """Expressions that often name a time or a day close to the change."""
    wall = change.wall_before
    fields = [minutes(), hours(wall.hour), days(wall), months(wall), weekdays(wall)]
    if seconds:
        fields.insert(0, st.one_of(minutes(), st.sampled_from(["0", "*", "*/20", "30"])))
    return st.tuples(*fields).map(" ".join)


def minutes() -> st.SearchStrategy[str]:
    return st.one_of(
        st.integers(0, 59).map(str),
        st.sampled_from(["*", "*/7", "*/15", "*/30", "0", "30", "59", "0,30", "1,*", "5-50/9"]),
        st.sampled_from(["10/25", "0-59", "00,45", "H", "H/20", "H(5-20)", "H(0-40)/15"]),
    )


def hours(hour: int) -> st.SearchStrategy[str]:
    near_hour = st.integers(hour - 3, hour + 4).map(lambda n: n % 24)
    return st.one_of(
        near_hour.map(str),
        st.lists(near_hour, min_size=1, max_size=3).map(lambda ns: ",".join(map(str, ns))),
        st.tuples(near_hour, near_hour).map(lambda pair: f"{min(pair)}-{max(pair)}"),
        near_hour.map(lambda n: f"{n}/2"),
        st.sampled_from(["*", "*", "*/2", "*/5", "0-23", "1-23/2", "3,*/6", "H", "H(0-4)"]),
    )


def days(wall: datetime) -> st.SearchStrategy[str]:
    return st.one_of(
        st.just("*"),
        st.sampled_from(
            ["*", "?", "*/2", "1-31", "L", "LW", "1W", "15W", "31W", "15,L", "H", "2/3"]
        ),
        st.integers(-1, 1).map(lambda n: str((wall + timedelta(days=n)).day)),
    )


def months(wall: datetime) -> st.SearchStrategy[str]:
    return st.sampled_from(["*", "*", "*", "*/2", str(wall.month), "JAN-DEC", "1-12/1", "mar,OCT"])


def weekdays(wall: datetime) -> st.SearchStrategy[str]:
    today = wall.isoweekday() % 7
    week = (wall.day + 6) // 7
    named = [str(today), WEEKDAYS[today], f"{today}#{week}", f"{today}L", f"{WEEKDAYS[today]}#1,3L"]
    general = [
        "*",
        "*",
        "*",
        "?",
        "*/2",
        "0-6",
        "0-7",
        "MON-FRI",
        "FRI-SUN",
        "7",
        "1/2",
        "H",
        "5-7",
    ]
    return st.sampled_from(named + general)
