"""A schedule as a value: cron, one instant, an interval, or nothing; bounds, counts, refusals."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.cron import InvalidSchedule, NeverFires
from jobs.schedule import MAX_EVERY_SEC, Schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NOW = at("2026-03-02T12:00:30")


def test_cron_in_its_zone() -> None:
    schedule = Schedule(cron="0 2 * * *", timezone="Europe/Berlin")
    assert schedule.next_after(NOW) == at("2026-03-03T01:00")
    assert list(schedule.ticks(NOW, at("2026-03-05T01:00"))) == [
        at("2026-03-03T01:00"),
        at("2026-03-04T01:00"),
        at("2026-03-05T01:00"),
    ]


def test_ticks_exclude_after_and_include_until() -> None:
    schedule = Schedule(cron="* * * * *")
    noon = at("2026-03-02T12:00")
    assert list(schedule.ticks(noon, noon)) == []
    assert list(schedule.ticks(noon - timedelta(microseconds=1), noon)) == [noon]
    assert list(schedule.ticks(noon, noon + timedelta(seconds=119.9))) == [at("2026-03-02T12:01")]


def test_one_instant_in_whole_seconds() -> None:
    schedule = Schedule(run_at=datetime.fromisoformat("2026-03-03T09:00:00.750+01:00"))
    assert schedule.next_after(NOW) == at("2026-03-03T08:00")
    assert schedule.next_after(at("2026-03-03T08:00")) is None
    assert schedule.count(NOW, at("2027-01-01")) == 1
    assert schedule.count(at("2026-03-03T08:00"), at("2027-01-01")) == 0


def test_an_interval_is_counted_from_its_anchor() -> None:
    schedule = Schedule(every_sec=5400, anchor=at("2026-03-02T00:10:00.9"))
    assert list(schedule.ticks(NOW, at("2026-03-02T15:10"))) == [
        at("2026-03-02T12:10"),
        at("2026-03-02T13:40"),
        at("2026-03-02T15:10"),
    ]


def test_an_anchor_ahead_sets_the_phase_and_starts_at_the_start() -> None:
    anchor = at("2026-03-10T00:00:07")
    assert Schedule(every_sec=60, anchor=anchor).next_after(NOW) == at("2026-03-02T12:01:07")
    later = Schedule(every_sec=60, anchor=anchor, starts_at=anchor)
    assert later.next_after(NOW) == anchor
    unanchored = Schedule(every_sec=3600, starts_at=at("2026-03-02T12:34:56"))
    assert unanchored.next_after(NOW) == at("2026-03-02T12:34:56")


def test_an_interval_does_not_care_about_summer_time() -> None:
    schedule = Schedule(every_sec=86_400, anchor=at("2026-03-28T12:00"), timezone="Europe/Berlin")
    assert schedule.next_after(at("2026-03-28T12:00")) == at("2026-03-29T12:00")


def test_no_schedule_has_no_tick() -> None:
    assert Schedule().next_after(NOW) is None
    assert list(Schedule().ticks(NOW, at("2030-01-01"))) == []
    assert Schedule().count(NOW, at("2030-01-01")) == 0
    assert Schedule().newest(NOW, at("2030-01-01"), 5) == []
    Schedule().validate()


def test_start_and_end_are_both_inclusive() -> None:
    schedule = Schedule(
        cron="0 * * * *", starts_at=at("2026-03-02T14:00"), ends_at=at("2026-03-02T16:00")
    )
    assert list(schedule.ticks(NOW, at("2027-01-01"))) == [
        at("2026-03-02T14:00"),
        at("2026-03-02T15:00"),
        at("2026-03-02T16:00"),
    ]
    assert schedule.next_after(at("2026-03-02T16:00")) is None
    assert schedule.count(NOW, at("2027-01-01")) == 3
    assert schedule.newest(NOW, at("2027-01-01"), 2) == [
        at("2026-03-02T15:00"),
        at("2026-03-02T16:00"),
    ]


def test_a_start_with_a_fraction_begins_with_the_second_after_it() -> None:
    schedule = Schedule(cron="* * * * * *", starts_at=at("2026-03-02T14:00:00.000001"))
    assert schedule.next_after(NOW) == at("2026-03-02T14:00:01")
    ended = Schedule(cron="* * * * * *", ends_at=at("2026-03-02T14:00:00.999999"))
    assert ended.next_after(at("2026-03-02T13:59:59")) == at("2026-03-02T14:00:00")
    assert ended.next_after(at("2026-03-02T14:00:00")) is None


def test_bounds_hold_for_one_instant_and_for_intervals_too() -> None:
    run_at = at("2026-03-03T08:00")
    assert Schedule(run_at=run_at, starts_at=run_at, ends_at=run_at).next_after(NOW) == run_at
    assert Schedule(run_at=run_at, ends_at=NOW).next_after(NOW) is None
    assert Schedule(every_sec=10, ends_at=NOW).next_after(NOW) is None


def test_the_calendar_ends_for_intervals() -> None:
    schedule = Schedule(every_sec=MAX_EVERY_SEC, anchor=at("9990-01-01"))
    assert schedule.next_after(at("9991-01-01")) is None


def test_counting_and_newest_agree_with_listing() -> None:
    end = NOW + timedelta(days=9)
    for schedule in (
        Schedule(cron="7,30 */2 * * *", timezone="Asia/Kathmandu"),
        Schedule(cron="30 2 * * *", timezone="Europe/Berlin", ends_at=NOW + timedelta(days=5)),
        Schedule(every_sec=4321, starts_at=NOW + timedelta(days=1)),
        Schedule(run_at=NOW + timedelta(days=3)),
    ):
        ticks = list(schedule.ticks(NOW, end))
        assert schedule.count(NOW, end) == len(ticks)
        for limit in (0, 1, 2, len(ticks), len(ticks) + 7):
            assert schedule.newest(NOW, end, limit) == ticks[len(ticks) - min(limit, len(ticks)) :]


def test_gap_ticks_of_policy_skip() -> None:
    schedule = Schedule(cron="30 2 * * *", timezone="Europe/Berlin", dst_policy="skip")
    year = (at("2026-01-01"), at("2027-01-01"))
    assert list(schedule.gap_ticks(*year)) == [at("2026-03-29T01:00")]
    assert at("2026-03-29T01:00") not in list(schedule.ticks(*year))
    assert schedule.count(*year) == 364
    vixie = Schedule(cron="30 2 * * *", timezone="Europe/Berlin")
    assert list(vixie.gap_ticks(*year)) == []
    assert vixie.count(*year) == 365
    assert list(Schedule(every_sec=60, dst_policy="skip").gap_ticks(*year)) == []
    bounded = Schedule(
        cron="30 2 * * *", timezone="Europe/Berlin", dst_policy="skip", ends_at=at("2026-02-01")
    )
    assert list(bounded.gap_ticks(*year)) == []


def test_a_gap_tick_that_coincides_with_an_ordinary_one_is_not_left_out() -> None:
    schedule = Schedule(cron="0,30 2,3 * * *", timezone="Europe/Berlin", dst_policy="skip")
    day = (at("2026-03-29T00:00"), at("2026-03-29T12:00"))
    assert list(schedule.gap_ticks(*day)) == []
    assert list(schedule.ticks(*day)) == [at("2026-03-29T01:00"), at("2026-03-29T01:30")]


def test_schedules_are_values() -> None:
    one = Schedule(cron="0 2 * * *", timezone="Europe/Berlin")
    assert one == Schedule(cron="0 2 * * *", timezone="Europe/Berlin")
    assert len({one, Schedule(cron="0 2 * * *", timezone="Europe/Berlin"), Schedule()}) == 2


def test_a_hash_needs_the_jobs_id() -> None:
    hashed = Schedule(cron="H H * * *", hash_id="hello")
    assert hashed.next_after(NOW) == at("2026-03-03T11:10")
    with pytest.raises(InvalidSchedule, match="needs the id"):
        Schedule(cron="H H * * *").validate()


@pytest.mark.parametrize(
    ("schedule", "field"),
    [
        (Schedule(cron="60 * * * *"), "minute"),
        (Schedule(cron="0 2 * * *", timezone="Mars/Phobos"), "timezone"),
        (Schedule(timezone="Mars/Phobos"), "timezone"),
        (Schedule(cron="0 2 * * *", run_at=NOW), "expression"),
        (Schedule(cron="0 2 * * *", every_sec=5), "expression"),
        (Schedule(every_sec=0), "everySec"),
        (Schedule(every_sec=-5), "everySec"),
        (Schedule(every_sec=MAX_EVERY_SEC + 1), "everySec"),
        (Schedule(run_at=datetime(2026, 1, 1)), "runAt"),  # noqa: DTZ001 - the point
        (Schedule(every_sec=5, anchor=datetime(2026, 1, 1)), "anchor"),  # noqa: DTZ001
        (Schedule(cron="0 2 * * *", anchor=NOW), "anchor"),
        (Schedule(cron="0 2 * * *", starts_at=datetime(2026, 1, 1)), "startsAt"),  # noqa: DTZ001
        (Schedule(cron="0 2 * * *", starts_at=NOW, ends_at=at("2026-03-01")), "endsAt"),
        (Schedule(cron="0 2 * * *", dst_policy="quartz"), "dstPolicy"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_refused_by_the_name_of_its_field(schedule: Schedule, field: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        schedule.validate()
    assert refused.value.field == field
    assert not isinstance(refused.value, NeverFires)


@pytest.mark.parametrize(
    ("schedule", "after", "field"),
    [
        (Schedule(cron="0 0 30 2 *"), None, "day-of-month"),
        (Schedule(cron="0 2 * * *", starts_at=NOW, ends_at=at("2026-03-03")), None, "endsAt"),
        (Schedule(run_at=NOW, starts_at=at("2027-01-01")), None, "runAt"),
        (Schedule(run_at=NOW), NOW, "runAt"),
        (Schedule(cron="* 2 * 3 SUN#2", timezone="America/New_York"), NOW, "schedule"),
        (Schedule(every_sec=60, ends_at=at("2026-03-02")), NOW, "endsAt"),
    ],
)
def test_what_has_no_tick_is_refused(
    schedule: Schedule, after: datetime | None, field: str
) -> None:
    with pytest.raises(NeverFires) as refused:
        schedule.validate(after)
    assert refused.value.field == field


def test_what_is_right_passes() -> None:
    for schedule in (
        Schedule(cron="30 2 * * *", timezone="Europe/Berlin", dst_policy="skip", starts_at=NOW),
        Schedule(cron="0 0 29 2 *"),
        Schedule(run_at=NOW),
        Schedule(every_sec=1, anchor=NOW, ends_at=at("2026-03-03")),
    ):
        schedule.validate()
        schedule.validate(NOW - timedelta(seconds=1))


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(
    st.integers(1, 200_000),
    st.integers(-(10**9), 4 * 10**9),
    st.integers(-(10**9), 4 * 10**9),
    st.integers(0, 10**6),
)
def test_intervals_count_what_they_list(every: int, anchor: int, after: int, span: int) -> None:
    epoch = at("1970-01-01")
    schedule = Schedule(every_sec=every, anchor=epoch + timedelta(seconds=anchor))
    start = epoch + timedelta(seconds=after)
    end = start + timedelta(seconds=min(span, every * 300))
    ticks = list(schedule.ticks(start, end))
    assert schedule.count(start, end) == len(ticks)
    assert all((tick - epoch).total_seconds() % every == anchor % every for tick in ticks)
