"""What an edit changes of a schedule's ticks."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs import changes
from jobs.changes import compare
from jobs.schedule import Schedule

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def counts(old: Schedule | None, new: Schedule | None, days: int = 10) -> tuple[int, int, int, int]:
    found = compare(old, new, NOON, NOON + days * DAY)
    assert found.is_complete
    return found.added_count, found.removed_count, found.moved_count, found.kept_count


def test_as_many_ticks_on_a_date_are_the_same_ones_moved() -> None:
    assert counts(Schedule(cron="0 3 * * *"), Schedule(cron="0 4 * * *")) == (0, 0, 10, 0)
    found = compare(Schedule(cron="0 3 * * *"), Schedule(cron="0 4 * * *"), NOON, NOON + DAY)
    assert found.moved == [(NOON + 15 * HOUR, NOON + 16 * HOUR)]


def test_more_or_fewer_on_a_date_are_added_and_removed() -> None:
    assert counts(Schedule(cron="30 3 * * *"), Schedule(cron="0 3,4 * * *")) == (20, 10, 0, 0)


def test_ticks_of_both_are_kept_and_not_listed() -> None:
    assert counts(Schedule(cron="0 * * * *"), Schedule(cron="0 */2 * * *")) == (0, 120, 0, 120)


def test_no_schedule_has_no_ticks() -> None:
    assert counts(None, Schedule(cron="0 3 * * *")) == (10, 0, 0, 0)
    assert counts(Schedule(cron="0 3 * * *"), None) == (0, 10, 0, 0)
    assert counts(None, None) == (0, 0, 0, 0)


def test_dates_are_those_of_the_new_zone() -> None:
    """23:00 and 01:00 lie on two dates in UTC, on one in Tokyo."""
    old, new = "0 23 * * *", "0 1 * * *"
    assert counts(Schedule(cron=old), Schedule(cron=new))[2] == 9
    tokyo = Schedule(cron="0 10 * * *", timezone="Asia/Tokyo")  # 01:00 in UTC
    assert counts(Schedule(cron=old), tokyo) == (0, 0, 10, 0)


def test_lists_are_short_and_counts_whole() -> None:
    found = compare(None, Schedule(cron="* * * * *"), NOON, NOON + DAY)
    assert (found.added_count, len(found.added)) == (1440, changes.MAX_LISTED)
    assert found.added[0] == NOON + timedelta(minutes=1)


def test_very_many_ticks_are_compared_as_far_as_they_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "MAX_VISITED", 99)
    found = compare(Schedule(every_sec=1), Schedule(every_sec=1), NOON, NOON + DAY)
    assert not found.is_complete
    assert found.until == NOON + timedelta(seconds=50)  # both ticks of the last instant
    assert (found.kept_count, found.added_count, found.removed_count) == (50, 0, 0)
