"""Properties: the evaluator and the slow walk through UTC name the same ticks."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jobs.cron import NeverFires, evaluator_for, next_ticks, zone_info
from jobs.cron.ticks import to_datetime, to_seconds
from tests.unit.cron import strategies
from tests.unit.cron.brute_force import SlowCron
from tests.unit.cron.strategies import Change, any_change, expressions, near

JOB = "5d7c2a64-job"
# CHRONO_TEST_EXAMPLES multiplies the examples for a longer look; the default stays quick.
FACTOR = int(os.environ.get("CHRONO_TEST_EXAMPLES", "1"))


def examples(count: int) -> settings:
    return settings(max_examples=count * FACTOR, derandomize=True, deadline=None, database=None)


def fast_ticks(
    expression: str, zone: str, after: datetime, until: datetime, *, skip_gaps: bool = False
) -> list[datetime]:
    evaluator = evaluator_for(expression, zone, JOB, "skip" if skip_gaps else "vixie")
    ticks, instant = [], to_seconds(after)
    while (found := evaluator.next(instant)) is not None and found <= to_seconds(until):
        ticks.append(to_datetime(found))
        instant = found
    return ticks


@examples(120)
@given(st.data(), any_change(), st.booleans())
def test_five_fields_around_changes(data: st.DataObject, change: Change, skip_gaps: bool) -> None:
    expression = data.draw(expressions(change))
    after = data.draw(near(change))
    until = after + timedelta(hours=16)
    slow = SlowCron(expression, JOB).ticks(
        zone_info(change.zone), after, until, skip_gaps=skip_gaps, look_back=change.look_back
    )
    try:
        fast = fast_ticks(expression, change.zone, after, until, skip_gaps=skip_gaps)
    except NeverFires:
        fast = []
    assert fast == slow


@examples(30)
@given(st.data(), any_change(), st.booleans())
def test_six_fields_around_changes(data: st.DataObject, change: Change, skip_gaps: bool) -> None:
    assume(abs(change.jump) <= 3 * 3600)
    expression = data.draw(expressions(change, seconds=True))
    after = data.draw(near(change, hours=2))
    until = after + timedelta(minutes=80)
    slow = SlowCron(expression, JOB).ticks(
        zone_info(change.zone),
        after,
        until,
        skip_gaps=skip_gaps,
        look_back=change.look_back,
    )
    try:
        fast = fast_ticks(expression, change.zone, after, until, skip_gaps=skip_gaps)
    except NeverFires:
        fast = []
    assert fast == slow


@examples(12)
@given(st.data())
def test_offsets_with_seconds_before_standard_time(data: st.DataObject) -> None:
    change = data.draw(st.sampled_from(strategies.changes_with_seconds()))
    assume(abs(change.jump) <= 3 * 3600)
    expression = data.draw(expressions(change))
    after = data.draw(near(change, hours=2))
    until = after + timedelta(hours=2)
    slow = SlowCron(expression, JOB).ticks(
        zone_info(change.zone), after, until, look_back=change.look_back
    )
    try:
        fast = fast_ticks(expression, change.zone, after, until)
    except NeverFires:
        fast = []
    assert fast == slow


@examples(100)
@given(st.data(), any_change(), st.booleans())
def test_counting_agrees_with_listing(data: st.DataObject, change: Change, skip_gaps: bool) -> None:
    expression = data.draw(expressions(change, seconds=data.draw(st.booleans())))
    after = data.draw(near(change))
    until = after + timedelta(seconds=data.draw(st.integers(0, 8 * 3600)))
    try:
        evaluator = evaluator_for(expression, change.zone, JOB, "skip" if skip_gaps else "vixie")
    except NeverFires:
        return
    listed = fast_ticks(expression, change.zone, after, until, skip_gaps=skip_gaps)
    assert evaluator.count(to_seconds(after), to_seconds(until)) == len(listed)


@examples(60)
@given(st.data(), any_change())
def test_ticks_left_out_in_gaps_are_the_difference_of_the_policies(
    data: st.DataObject, change: Change
) -> None:
    expression = data.draw(expressions(change))
    after = data.draw(near(change))
    until = after + timedelta(hours=16)
    try:
        evaluator = evaluator_for(expression, change.zone, JOB, "skip")
    except NeverFires:
        return
    left_out = [to_datetime(n) for n in evaluator.gap_ticks(to_seconds(after), to_seconds(until))]
    kept = fast_ticks(expression, change.zone, after, until, skip_gaps=True)
    assert sorted(kept + left_out) == fast_ticks(expression, change.zone, after, until)
    assert not set(kept) & set(left_out)


@examples(60)
@given(st.data(), any_change())
def test_the_next_tick_does_not_depend_on_where_one_asks(
    data: st.DataObject, change: Change
) -> None:
    """Asked from any instant before it, also inside a gap run or a second pass, it is the same."""
    expression = data.draw(expressions(change))
    after = data.draw(near(change))
    try:
        first, second = next_ticks(expression, change.zone, after, 2, hash_id=JOB)
    except NeverFires:
        return
    between = first + (second - first) * data.draw(st.floats(0, 0.999))
    assert first <= between < second
    assert next_ticks(expression, change.zone, between, 1, hash_id=JOB) == [second]


@examples(60)
@given(st.data())
def test_dates_agree_with_the_calendar(data: st.DataObject) -> None:
    start = datetime(
        data.draw(st.integers(1890, 2110)), data.draw(st.integers(1, 12)), 1, tzinfo=UTC
    )
    expression = "0 0 " + " ".join(
        data.draw(part)
        for part in (strategies.days(start), strategies.months(start), strategies.weekdays(start))
    )
    slow = SlowCron(expression, JOB)
    expected = [
        day for n in range(500) if slow.matches_date((day := start + timedelta(days=n)).date())
    ]
    try:
        found = fast_ticks(expression, "UTC", start - timedelta(1), start + timedelta(days=499))
    except NeverFires:
        found = []
    assert [tick for tick in found if tick >= start] == expected


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca"])
@pytest.mark.parametrize("expression", ["0 * * * *", "30 2 * * *", "0,30 */2 L * 0"])
def test_a_whole_year(zone: str, expression: str) -> None:
    after, until = (datetime(year, 1, 1, tzinfo=UTC) for year in (2020, 2021))
    slow = SlowCron(expression).ticks(zone_info(zone), after, until, step=timedelta(minutes=30))
    assert fast_ticks(expression, zone, after, until) == slow
