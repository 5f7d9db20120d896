"""A simulated year in many zones, and a slow second opinion on what it must hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from jobs.cron import zone_info
from jobs.fields import instant_text
from jobs.models import Job
from tests.integration.ledger.simulation import DAY, HOUR, MINUTE, World, misfires, ticks

YEAR = datetime(2026, 1, 1, tzinfo=UTC)
YEAR_END = datetime(2027, 1, 1, tzinfo=UTC)
WEEK_SEC = 604_800
QUARTER = timedelta(minutes=15)  # every offset and every change of 2026 is a multiple of it
DAILY, HOURLY, MINUTELY = "30 2 * * *", "0 * * * *", "* * * * *"
CITIES = {
    "Africa": ("Abidjan", "Cairo", "Casablanca", "El_Aaiun", "Johannesburg"),
    "America": (
        "Asuncion",
        "Caracas",
        "Chicago",
        "Godthab",
        "Halifax",
        "Havana",
        "Los_Angeles",
        "Mexico_City",
        "New_York",
        "Santiago",
        "Sao_Paulo",
        "Scoresbysund",
        "St_Johns",
    ),
    "Antarctica": ("Macquarie", "Troll"),
    "Asia": ("Beirut", "Gaza", "Jerusalem", "Kathmandu", "Kolkata", "Tehran", "Tokyo"),
    "Atlantic": ("Azores",),
    "Australia": ("Adelaide", "Eucla", "Lord_Howe", "Sydney"),
    "Europe": ("Berlin", "Dublin", "London", "Moscow"),
    "Pacific": ("Apia", "Auckland", "Chatham"),
}
ZONES = ("UTC", *(f"{region}/{city}" for region, cities in CITIES.items() for city in cities))


@dataclass(frozen=True, slots=True)
class Simulated:
    """A job of the year with the ticks it must have run at, and those left out."""

    job: Job
    runs: list[datetime]
    gaps: list[datetime]


def changes_of(zone: ZoneInfo) -> Iterator[datetime]:
    """The instants of the year at which the zone's clocks change, never twice in a day of 2026."""
    day = YEAR - QUARTER
    while day < YEAR_END - QUARTER:
        before, instant = day.astimezone(zone).utcoffset(), day
        day += DAY
        if day.astimezone(zone).utcoffset() != before:
            while instant.astimezone(zone).utcoffset() == before:
                instant += QUARTER
            yield instant


def whole_year(world: World, name: str) -> Iterator[Simulated]:
    """An hourly job and two daily ones, by either dstPolicy, over the year."""
    zone = zone_info(name)
    until = instant_text(YEAR_END)
    span = {"timezone": name, "endsAt": until, "misfireGraceSec": WEEK_SEC}
    yield Simulated(world.create(HOURLY, **span), list(full_hours(zone)), [])
    daily = list(days(zone))
    yield Simulated(world.create(DAILY, **span), [tick for tick, _ in daily], [])
    yield Simulated(
        world.create(DAILY, dstPolicy="skip", **span),
        [tick for tick, is_gap in daily if not is_gap],
        [tick for tick, is_gap in daily if is_gap],
    )


def around_changes(world: World, name: str, reach: timedelta) -> Iterator[Simulated]:
    """A minutely job around each change of the clocks."""
    for change in changes_of(zone_info(name)):
        first, last = max(change - reach, YEAR + MINUTE), min(change + reach, YEAR_END)
        job = world.create(
            MINUTELY,
            timezone=name,
            startsAt=instant_text(first),
            endsAt=instant_text(last),
            misfireGraceSec=WEEK_SEC,
        )
        count = (last - first) // MINUTE + 1
        yield Simulated(job, [first + MINUTE * place for place in range(count)], [])


def full_hours(zone: ZoneInfo) -> Iterator[datetime]:
    """Every instant at which the clock shows a full hour: 23 to 25 of them a day."""
    instant = YEAR + QUARTER
    while instant <= YEAR_END:
        if instant.astimezone(zone).minute == 0:
            yield instant
        instant += QUARTER


def days(zone: ZoneInfo) -> Iterator[tuple[datetime, bool]]:
    """The one instant of each date for 02:30, and whether the clock jumped over it."""
    day = YEAR - 2 * DAY
    while day < YEAR_END + 2 * DAY:
        wall = day.replace(hour=2, minute=30, tzinfo=None)
        found = _first_shown(wall, zone)
        if YEAR < found <= YEAR_END:
            yield found, found.astimezone(zone).replace(tzinfo=None) != wall
        day += DAY


def _first_shown(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first instant at which the wall clock shows `wall` or has passed it."""
    instant = wall.replace(tzinfo=UTC) - 15 * HOUR
    while instant.astimezone(zone).replace(tzinfo=None) < wall:
        instant += QUARTER
    return instant


def check(simulated: Sequence[Simulated]) -> int:
    """Compare what is recorded with the second opinion; return how many ticks there are."""
    for one in simulated:
        zone = one.job.timezone
        assert ticks(one.job) == one.runs, (zone, one.job.schedule)
        assert [found[:2] for found in misfires(one.job)] == [("dst_gap", gap) for gap in one.gaps]
    return sum(len(one.runs) + len(one.gaps) for one in simulated)
