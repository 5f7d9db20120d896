"""Our reading of zone files, against zoneinfo's, for every zone there is."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from jobs.cron import TZDATA_VERSION, InvalidSchedule, instant_of, zone_info, zone_names
from jobs.cron.posix_rule import parse_rule
from jobs.cron.ticks import to_datetime, to_seconds
from jobs.cron.zones import Stretch, Zone, load_zone

FROM, TO = (to_seconds(datetime(year, 1, 1, tzinfo=UTC)) for year in (1800, 2060))


def _offset(name: str, second: int) -> int:
    offset = to_datetime(second).astimezone(zone_info(name)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _stretches(zone: Zone) -> list[Stretch]:
    return list(zone.between(FROM, TO))


@pytest.mark.parametrize("region", sorted({name.split("/")[0] for name in zone_names()}))
def test_every_change_of_every_zone_agrees_with_zoneinfo(region: str) -> None:
    for name in sorted(name for name in zone_names() if name.split("/")[0] == region):
        zone = load_zone(name)
        for stretch in _stretches(zone)[1:]:
            before, at = _offset(name, stretch.start - 1), _offset(name, stretch.start)
            assert (before, at) == (zone.at(stretch.start - 1).offset, stretch.offset), name
            assert before != at, name


def test_any_instant_of_any_zone_agrees_with_zoneinfo() -> None:
    rng = random.Random(3)
    for name in sorted(zone_names()):
        zone = load_zone(name)
        for first, last in ((1840, 2040), (2040, 2110), (2110, 9990)):
            second = to_seconds(datetime(rng.randint(first, last), 1, 1, tzinfo=UTC))
            second += rng.randrange(365 * 86_400)
            assert zone.at(second).offset == _offset(name, second), (name, second)


def test_changes_far_ahead_agree_with_zoneinfo() -> None:
    for name in ("Europe/Berlin", "America/Santiago", "Antarctica/Troll", "Africa/Casablanca"):
        zone = load_zone(name)
        start = to_seconds(datetime(2399, 1, 1, tzinfo=UTC))
        for stretch in list(zone.between(start, start + 3 * 366 * 86_400))[1:]:
            assert _offset(name, stretch.start - 1) != _offset(name, stretch.start)
            assert _offset(name, stretch.start) == stretch.offset
            assert zone.reaching(stretch.opening) == zone.at(zone.reaching(stretch.opening).start)


def test_table_and_yearly_rule_meet_without_a_seam() -> None:
    zone = load_zone("Europe/Berlin")
    start = to_seconds(datetime(2047, 1, 1, tzinfo=UTC))
    found = list(zone.between(start, start + 6 * 366 * 86_400))
    assert all(one.end == two.start for one, two in pairwise(found))
    assert len(found) == 13
    assert all(one.end + one.offset == two.reached for one, two in pairwise(found))


def test_reached_is_how_far_the_wall_clock_had_come() -> None:
    for name in ("Europe/Berlin", "Pacific/Apia", "Antarctica/Casey", "Asia/Manila"):
        highest = -(10**12)
        for stretch in _stretches(load_zone(name)):
            if stretch.start > FROM:
                assert stretch.reached == max(highest, stretch.reached)
            highest = max(highest, stretch.end + stretch.offset)


@pytest.mark.parametrize(
    ("text", "year", "expected"),
    [
        ("EST5EDT,M3.2.0,M11.1.0", 2026, ["2026-03-08T07:00", "2026-11-01T06:00"]),
        ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026, ["2026-03-29T01:00", "2026-10-25T01:00"]),
        ("IST-1GMT0,M10.5.0,M3.5.0/1", 2026, ["2026-03-29T01:00", "2026-10-25T01:00"]),
        ("EET-2EEST,M3.4.4/50,M10.4.4/50", 2026, ["2026-03-28T00:00", "2026-10-23T23:00"]),
        ("AAA3BBB,J60/0,J300", 2024, ["2024-03-01T03:00", "2024-10-27T04:00"]),
        ("AAA3BBB,59/0,300", 2024, ["2024-02-29T03:00", "2024-10-27T04:00"]),
    ],
)
def test_yearly_rules_of_every_form(text: str, year: int, expected: list[str]) -> None:
    changes = parse_rule(text).changes_between(year, year)
    assert [to_datetime(second).strftime("%Y-%m-%dT%H:%M") for second, _ in changes] == expected


def test_a_fixed_rule_never_changes() -> None:
    rule = parse_rule("<+0545>-5:45")
    assert (rule.offset, rule.changes_between(2000, 2100)) == (20_700, [])


def test_an_unreadable_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="POSIX"):
        parse_rule("no rule at all")


@pytest.mark.parametrize("name", ["europe/berlin", "Europe/Berlln", "Europe/B\xe9rlin"])
def test_a_misspelt_zone_names_the_right_one(name: str) -> None:
    with pytest.raises(InvalidSchedule, match="did you mean Europe/Berlin") as refused:
        load_zone(name)
    assert refused.value.field == "timezone"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "UTC+3",
        "../../etc/passwd",
        "/etc/localtime",
        "Europe",
        "Europe/",
        "zones",
        "x" * 10_000,
        "Europe/Berlin\n",
        "Europe\\Berlin",
        "posixrules",
        "__init__.py",
        "tzdata.zi",
    ],
)
def test_only_names_that_tzdata_lists_are_zones(name: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        load_zone(name)
    assert refused.value.field == "timezone"
    assert len(str(refused.value)) < 200


def test_the_systems_zone_files_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONTZPATH", "/nonexistent")
    monkeypatch.setattr("zoneinfo.TZPATH", ("/nonexistent",))
    load_zone.cache_clear()
    assert load_zone("Europe/Berlin").at(0).offset == 3600
    assert TZDATA_VERSION >= "2026f"


@pytest.mark.parametrize(
    ("local", "zone", "expected"),
    [
        ("2026-01-15T09:00", "Europe/Berlin", "2026-01-15T08:00"),
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:00"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30"),
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00"),
        ("2090-07-01T12:00", "America/New_York", "2090-07-01T16:00"),
    ],
)
def test_a_local_time_becomes_the_first_instant_that_shows_it(
    local: str, zone: str, expected: str
) -> None:
    instant = instant_of(datetime.fromisoformat(local), zone)
    assert instant == datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert instant - instant.replace(microsecond=0) == timedelta(0)
