"""Local dates over changes of the clocks, and the latest tick of a job."""

import uuid
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from dag.matching import (
    Latest,
    Source,
    SourceEdge,
    date_of,
    date_start,
    day_span,
    driven_date,
    has_ticks,
    latest_tick,
)
from jobs.schedule import Schedule

A, B, C, D = (uuid.UUID(int=number) for number in range(1, 5))
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def hours(span: tuple[datetime, datetime]) -> float:
    return (span[1] - span[0]) / timedelta(hours=1)


def source(
    job_id: uuid.UUID,
    cron: str | None = None,
    *edges: SourceEdge,
    zone: str = "UTC",
    next_run_at: datetime | None = None,
    valid_from: datetime = LONG_AGO,
) -> Source:
    schedule = Schedule(cron=cron, timezone=zone) if cron else None
    return Source(job_id, schedule, zone, next_run_at, valid_from, edges)


def tick(job_id: uuid.UUID) -> SourceEdge:
    return SourceEdge(job_id, "tick", 0)


def day(job_id: uuid.UUID, offset: int = 0) -> SourceEdge:
    return SourceEdge(job_id, "day", offset)


def of(*sources: Source) -> dict[uuid.UUID, Source]:
    return {one.job_id: one for one in sources}


@pytest.mark.parametrize(
    ("instant", "length"),
    [("2025-03-30 12:00", 23), ("2025-07-01 12:00", 24), ("2025-10-26 12:00", 25)],
)
def test_a_date_has_23_24_or_25_hours(instant: str, length: int) -> None:
    assert hours(day_span(at(instant), "Europe/Berlin")) == length


def test_a_date_begins_at_the_local_midnight() -> None:
    assert day_span(at("2025-03-29 23:30"), "Europe/Berlin") == (
        at("2025-03-29 23:00"),
        at("2025-03-30 22:00"),
    )


def test_an_offset_counts_dates_not_hours() -> None:
    assert day_span(at("2025-03-31 00:00"), "Europe/Berlin", -1) == (
        at("2025-03-29 23:00"),
        at("2025-03-30 22:00"),
    )


def test_a_date_whose_midnight_is_skipped_begins_at_the_end_of_the_gap() -> None:
    assert date_start(date(2024, 4, 26), "Africa/Cairo") == at("2024-04-25 22:00")


def test_a_date_that_the_calendar_left_out_is_empty() -> None:
    start, until = day_span(at("2011-12-29 12:00"), "Pacific/Apia", 1)
    assert start == until


@pytest.mark.parametrize(
    "zone", ["America/St_Johns", "America/Sao_Paulo", "America/Havana", "Africa/Cairo", "UTC"]
)
def test_dates_cover_time_without_overlap(zone: str) -> None:
    days = [date(2006, 1, 1) + timedelta(days=count) for count in range(800)]
    for one, following in pairwise(days):
        start, until = date_start(one, zone), date_start(following, zone)
        assert start < until
        for instant in (start, until - timedelta(seconds=1)):
            assert date_of(instant, zone) == one


def test_a_driven_day_job_has_its_row_at_the_start_of_the_date() -> None:
    assert driven_date(at("2025-06-01 21:00"), "Europe/Berlin", 0) == at("2025-05-31 22:00")
    assert driven_date(at("2025-06-01 22:00"), "Europe/Berlin", -1) == at("2025-06-02 22:00")


def test_the_latest_tick_is_at_or_before_the_instant() -> None:
    jobs = of(source(A, "0 2 * * *"))
    assert latest_tick(jobs, A, at("2025-06-01 03:00")).tick == at("2025-06-01 02:00")
    assert latest_tick(jobs, A, at("2025-06-01 02:00")).tick == at("2025-06-01 02:00")
    assert latest_tick(jobs, A, at("2025-06-01 01:59")).tick == at("2025-05-31 02:00")


def test_a_rare_tick_is_found_years_back() -> None:
    jobs = of(source(A, "0 0 29 2 *", valid_from=at("2000-01-01 00:00")))
    assert latest_tick(jobs, A, at("2023-01-01 00:00")).tick == at("2020-02-29 00:00")


def test_an_instant_is_its_own_latest_tick_for_ever() -> None:
    once = Source(A, Schedule(run_at=at("1999-01-01 00:00")), "UTC", None, LONG_AGO)
    assert latest_tick({A: once}, A, at("2025-06-01 00:00")).tick == at("1999-01-01 00:00")


def test_a_tick_older_than_the_version_is_the_ledgers_to_know() -> None:
    jobs = of(source(A, "0 2 * * *", valid_from=at("2025-06-01 02:30")))
    assert latest_tick(jobs, A, at("2025-06-01 03:00")) == Latest(at("2025-06-01 02:00"), False)
    assert latest_tick(jobs, A, at("2025-06-02 03:00")) == Latest(at("2025-06-02 02:00"), True)


def test_a_tick_that_is_still_due_is_certain() -> None:
    due = at("2025-06-01 02:00")
    jobs = of(source(A, "0 2 * * *", next_run_at=due, valid_from=at("2025-06-01 01:00")))
    assert latest_tick(jobs, A, at("2025-06-01 03:00")) == Latest(due, True)


def test_a_driven_jobs_ticks_are_the_union_of_its_upstreams() -> None:
    jobs = of(source(A, "0 * * * *"), source(B, "30 4 * * *"), source(C, None, tick(A), tick(B)))
    assert latest_tick(jobs, C, at("2025-06-01 04:45")).tick == at("2025-06-01 04:30")
    assert latest_tick(jobs, C, at("2025-06-01 05:10")).tick == at("2025-06-01 05:00")


def test_a_driven_day_jobs_tick_is_the_start_of_the_date() -> None:
    jobs = of(source(A, "0 * * * *"), source(B, None, day(A), zone="Europe/Berlin"))
    assert latest_tick(jobs, B, at("2025-06-01 09:30")).tick == at("2025-05-31 22:00")


def test_a_driven_day_job_that_looks_back_has_a_row_for_today() -> None:
    jobs = of(source(A, "0 * * * *"), source(B, None, day(A, -1)))
    assert latest_tick(jobs, B, at("2025-06-01 09:30")).tick == at("2025-06-01 00:00")


def test_one_uncertain_upstream_makes_the_union_uncertain() -> None:
    edited = source(B, "0 1 * * *", valid_from=at("2025-06-01 04:00"))
    jobs = of(source(A, "0 * * * *"), edited, source(C, None, tick(A), tick(B)))
    assert not latest_tick(jobs, C, at("2025-06-01 04:45")).is_certain


def test_only_jobs_below_a_schedule_have_ticks() -> None:
    jobs = of(source(A), source(B, None, tick(A)), source(C, "@daily"), source(D, None, tick(C)))
    assert [has_ticks(jobs, job) for job in (A, B, C, D)] == [False, False, True, True]


def test_a_chain_of_thousands_needs_no_deep_stack() -> None:
    ids = [uuid.UUID(int=number) for number in range(1, 3000)]
    jobs = of(source(ids[0], "@hourly"))
    jobs |= of(*(source(below, None, tick(above)) for above, below in pairwise(ids)))
    assert latest_tick(jobs, ids[-1], at("2025-06-01 09:30")).tick == at("2025-06-01 09:00")
