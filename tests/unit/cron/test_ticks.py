"""Particular instants: the cases that other schedulers get wrong, and the edges of the calendar."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.cron import InvalidSchedule, NeverFires, evaluator_for, next_ticks


def ticks(expression: str, zone: str, after: str, count: int) -> list[str]:
    start = datetime.fromisoformat(after).replace(tzinfo=UTC)
    return [tick.strftime("%m-%d %H:%M") for tick in next_ticks(expression, zone, start, count)]


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        # a fixed-time job inside a gap, asked before, at and after the gap's end
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T00:59", ["03-29 01:00", "03-30 00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00", ["03-30 00:30", "03-31 00:30"]),
        ("0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00", ["03-29 01:00", "03-29 01:30"]),
        # a fold: the first pass only, asked inside either pass
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:15", ["10-25 00:30", "10-26 01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:15", ["10-26 01:30", "10-27 01:30"]),
        # a job that follows elapsed time runs in both passes, and not at all in a gap
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25T00:15", ["10-25 00:30", "10-25 01:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["03-30 00:00", "03-30 00:30"]),
        # half an hour: Lord Howe
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:00", ["10-03 15:30", "10-04 15:15"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:50", ["04-05 15:15", "04-06 15:15"]),
        # two hours: Troll
        ("30 1,2 * * *", "Antarctica/Troll", "2026-03-29T00:30", ["03-29 01:00", "03-29 23:30"]),
        # three hours: Casey
        ("0 1,2 * * *", "Antarctica/Casey", "2022-10-01T15:00", ["10-01 16:01", "10-02 14:00"]),
        ("0 1,2 * * *", "Antarctica/Casey", "2018-03-10T16:00", ["03-11 17:00", "03-11 18:00"]),
        # a whole day: Apia
        ("0 12 * * *", "Pacific/Apia", "2011-12-30T09:59", ["12-30 10:00", "12-30 22:00"]),
        ("0 0 30 12 *", "Pacific/Apia", "2011-12-01T00:00", ["12-30 10:00", "12-29 10:00"]),
        # midnight does not exist: Cairo, Beirut, Azores (where the day before has no 24th hour)
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T21:59", ["04-23 22:00", "04-24 21:00"]),
        ("5 0 * * *", "Asia/Beirut", "2026-03-28T21:59", ["03-28 22:00", "03-29 21:05"]),
        ("0 0 29 3 *", "Atlantic/Azores", "2026-03-28T12:00", ["03-29 01:00", "03-29 00:00"]),
        # negative summer time: Dublin; Ramadan: Casablanca
        ("30 1 * * *", "Europe/Dublin", "2026-03-29T00:00", ["03-29 01:00", "03-30 00:30"]),
        ("30 1 * * *", "Europe/Dublin", "2026-10-24T23:00", ["10-25 00:30", "10-26 01:30"]),
        ("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00", ["03-22 02:00", "03-23 01:30"]),
        # back at midnight, so that it is the last hour of a day that comes twice
        ("30 23 * * *", "America/Nuuk", "2026-10-24T23:00", ["10-25 00:30", "10-26 01:30"]),
    ],
)
def test_ticks_around_a_change(expression: str, zone: str, after: str, expected: list[str]) -> None:
    assert ticks(expression, zone, after, 2) == expected


def test_seconds_inside_a_gap_are_one_run_at_its_end() -> None:
    after = datetime(2026, 3, 29, tzinfo=UTC)
    first, second = next_ticks("*/15 30 2 * * *", "Europe/Berlin", after, 2)
    assert (first.isoformat(), second.isoformat()) == (
        "2026-03-29T01:00:00+00:00",
        "2026-03-30T00:30:00+00:00",
    )


def test_local_mean_time_has_seconds() -> None:
    after = datetime(1890, 1, 1, tzinfo=UTC)
    assert next_ticks("0 12 * * *", "Europe/Berlin", after, 1) == [
        datetime(1890, 1, 1, 11, 6, 32, tzinfo=UTC)
    ]


def test_after_is_exclusive_and_may_have_a_fraction() -> None:
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    just_before = noon - timedelta(microseconds=1)
    assert next_ticks("0 12 * * *", "UTC", just_before, 1) == [noon]
    assert next_ticks("0 12 * * *", "UTC", noon, 1) == [noon + timedelta(days=1)]
    just_after = noon + timedelta(microseconds=1)
    assert next_ticks("0 12 * * *", "UTC", just_after, 1) == [noon + timedelta(days=1)]


def test_after_may_be_in_any_offset_but_needs_one() -> None:
    after = datetime.fromisoformat("2026-05-01T12:00+02:00")
    assert next_ticks("0 11 * * *", "UTC", after, 1) == [datetime(2026, 5, 1, 11, tzinfo=UTC)]
    with pytest.raises(ValueError, match="needs an offset"):
        next_ticks("0 11 * * *", "UTC", datetime(2026, 5, 1), 1)  # noqa: DTZ001 - the point


def test_no_tick_asked_for_is_none_given() -> None:
    assert next_ticks("0 11 * * *", "UTC", datetime(2026, 5, 1, tzinfo=UTC), 0) == []


def test_the_calendar_ends() -> None:
    after = datetime(9999, 12, 27, tzinfo=UTC)
    found = next_ticks("0 0 * * *", "Pacific/Kiritimati", after, 50)
    assert 1 <= len(found) <= 5
    with pytest.raises(NeverFires):
        next_ticks("0 0 1 1 *", "UTC", after, 1)
    assert next_ticks("0 0 * * *", "Asia/Tokyo", datetime(1, 1, 1, tzinfo=UTC), 1)[0].year == 1


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Antarctica/Troll", "Pacific/Apia"])
def test_far_years_are_as_quick_and_as_right(zone: str) -> None:
    for year in (2051, 2400, 5000, 9000):
        after = datetime(year, 6, 1, tzinfo=UTC)
        found = next_ticks("30 2 * * *", zone, after, 400)
        assert len({tick.date() for tick in found}) == 400
        assert found == sorted(found)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="use vixie or skip") as refused:
        evaluator_for("* * * * *", "UTC", None, "quartz")  # type: ignore[arg-type]
    assert refused.value.field == "dstPolicy"


def test_jobs_share_an_evaluator_unless_their_id_matters() -> None:
    assert evaluator_for("0 2 * * *", "UTC", "a") is evaluator_for("0 2 * * *", "UTC", "b")
    assert evaluator_for("H 2 * * *", "UTC", "a") is not evaluator_for("H 2 * * *", "UTC", "b")
