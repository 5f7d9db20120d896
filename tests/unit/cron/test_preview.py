"""What a preview says about changes of the clocks."""

from datetime import UTC, datetime

import pytest

from jobs.cron import InvalidSchedule, NeverFires, Preview, preview
from jobs.cron.evaluator import DstPolicy


def of(expression: str, zone: str, after: str, policy: DstPolicy = "vixie") -> Preview:
    start = datetime.fromisoformat(after).replace(tzinfo=UTC)
    return preview(expression, zone, start, 3, dst_policy=policy)


def texts(found: Preview) -> list[str]:
    return [note.text for note in found.notes]


def test_ticks_come_with_the_wall_clock_and_words() -> None:
    found = of("30 9 * * *", "Asia/Kolkata", "2026-01-01")
    assert found.description == "At 09:30, every day"
    assert found.ticks[0].tick.isoformat() == "2026-01-01T04:00:00+00:00"
    assert found.ticks[0].local.isoformat() == "2026-01-01T09:30:00+05:30"
    assert [tick.note for tick in found.ticks] == [None, None, None]
    assert found.notes == ()


def test_a_time_in_a_gap_runs_at_its_end() -> None:
    found = of("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00")
    note = "02:30 does not exist on 2026-03-29: runs at 03:00"
    assert found.ticks[0].note == note
    assert found.ticks[0].local.isoformat() == "2026-03-29T03:00:00+02:00"
    assert found.ticks[1].note is None
    assert texts(found) == [note, "02:30 comes twice on 2026-10-25: runs the first time only"]
    assert found.notes[0].at == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_several_times_in_a_gap_are_one_run() -> None:
    assert texts(of("0,20,40 2 * * *", "Europe/Berlin", "2026-03-28"))[0] == (
        "02:00, 02:20 and 02:40 do not exist on 2026-03-29: one run at 03:00"
    )
    assert texts(of("0-9 2 * * *", "Europe/Berlin", "2026-03-28"))[0] == (
        "02:00, 02:01 and 8 more do not exist on 2026-03-29: one run at 03:00"
    )


def test_policy_skip_says_that_the_time_does_not_run() -> None:
    found = of("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "skip")
    assert texts(found)[0] == "02:30 does not exist on 2026-03-29: does not run (dstPolicy skip)"
    assert found.ticks[0].local.isoformat() == "2026-03-30T02:30:00+02:00"
    assert found.ticks[0].note is None


def test_a_job_that_follows_elapsed_time_is_told_so() -> None:
    found = of("*/30 2 * * *", "Europe/Berlin", "2026-10-25T00:15")
    assert [tick.tick.strftime("%H:%M") for tick in found.ticks] == ["00:30", "01:00", "01:30"]
    twice = "02:00 to 03:00 comes twice on 2026-10-25: runs both times"
    assert {tick.note for tick in found.ticks} == {twice}
    assert texts(found) == [
        twice,
        "02:00 to 03:00 does not exist on 2027-03-28: nothing runs in between",
    ]
    spring = of("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00")
    assert texts(spring)[0] == (
        "02:00 to 03:00 does not exist on 2026-03-29: nothing runs in between"
    )


def test_the_second_pass_is_noted_even_when_asked_inside_it() -> None:
    found = of("*/30 2 * * *", "Europe/Berlin", "2026-10-25T01:15")
    assert found.ticks[0].note == "02:00 to 03:00 comes twice on 2026-10-25: runs both times"


def test_a_lost_day_names_both_dates() -> None:
    found = of("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00")
    assert found.ticks[1].note == (
        "12:00 does not exist on 2011-12-30: runs at 00:00 on 2011-12-31"
    )


def test_seconds_are_shown_where_they_matter() -> None:
    assert texts(of("15 30 2 * * *", "Europe/Berlin", "2026-03-28"))[0] == (
        "02:30:15 does not exist on 2026-03-29: runs at 03:00"
    )


def test_a_job_that_no_change_touches_has_no_notes() -> None:
    assert of("30 9 * * *", "Europe/Berlin", "2026-01-01").notes == ()
    assert of("30 2 * * MON", "Europe/Berlin", "2026-01-01").notes == ()


def test_what_is_wrong_is_refused() -> None:
    with pytest.raises(InvalidSchedule):
        of("30 25 * * *", "Europe/Berlin", "2026-01-01")
    with pytest.raises(NeverFires):
        of("* 2 * 3 SUN#2", "America/New_York", "2026-01-01")
    assert preview("@daily", "UTC", datetime(2026, 1, 1, tzinfo=UTC), 0).ticks == ()
