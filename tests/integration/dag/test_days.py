"""match: day, over changes of the clocks: as many ticks as the local date really has."""

from datetime import UTC, date, datetime

import pytest

from dag.matching import date_start
from dag.models import RunDep
from jobs.models import Job
from jobs.schedule import Schedule
from runs.models import Run
from tests.factories import set_next
from tests.integration.dag.past import DAY, HOUR, driven, make_days, scheduled, sweep, work
from tests.integration.dag.support import after, day, end, end_all, status, statuses

pytestmark = pytest.mark.django_db

BERLIN = "Europe/Berlin"
SPRING, PLAIN, AUTUMN = date(2025, 3, 30), date(2025, 6, 1), date(2025, 10, 26)
WAITING, QUEUED = ("waiting", "dependency"), ("queued", "")
FAILED = ("skipped", "upstream_failed")


def hours_of(day_: date) -> list[datetime]:
    """Return the hourly ticks of the date in Berlin."""
    start, until = date_start(day_, BERLIN), date_start(day_ + DAY, BERLIN)
    return [start + place * HOUR for place in range(int((until - start) / HOUR))]


def loads(day_: date, **values: object) -> Job:
    """Return an hourly job about to begin the date; however late, each tick has its run."""
    make_days(hours_of(day_)[0])
    values = {"timezone": "America/New_York", "misfire_grace_sec": 200_000, **values}
    return scheduled("0 * * * *", hours_of(day_)[0], **values)


@pytest.mark.parametrize(("day_", "count"), [(SPRING, 23), (PLAIN, 24), (AUTUMN, 25)])
def test_a_roll_up_waits_for_every_load_of_yesterday(day_: date, count: int) -> None:
    load = loads(day_)
    nightly = Schedule(timezone=BERLIN, cron="0 2 * * *").next_after(hours_of(day_)[-1])
    assert nightly is not None
    roll_up = after(scheduled("0 2 * * *", nightly, timezone=BERLIN), day(load, -1))
    hours = hours_of(day_)
    work(nightly)
    assert len(hours) == count
    assert RunDep.objects.get(job=roll_up).expected == count
    end_all(load, [*hours[:7], *hours[8:], nightly - HOUR])
    assert status(roll_up, nightly) == WAITING
    end(load, hours[7])
    assert status(roll_up, nightly) == QUEUED


@pytest.mark.parametrize(("day_", "count"), [(SPRING, 23), (PLAIN, 24), (AUTUMN, 25)])
def test_a_driven_day_job_has_one_row_a_date_at_its_start(day_: date, count: int) -> None:
    load = loads(day_)
    daily = driven(day(load), timezone=BERLIN)
    hours = hours_of(day_)
    work(hours[-1])
    end_all(load, hours[:-1])
    assert status(daily, hours[0]) == WAITING
    end(load, hours[-1])
    assert status(daily, hours[0]) == QUEUED
    assert Run.objects.filter(job=load).count() == count
    (run,) = Run.objects.filter(job=daily)
    assert (run.scheduled_for, run.logical_date, run.trigger) == (hours[0], hours[0], "dependency")


def test_a_day_is_not_over_before_its_last_tick_is_decided_on() -> None:
    load = loads(PLAIN)
    daily = driven(day(load), timezone=BERLIN)
    work(hours_of(PLAIN)[-2])
    end_all(load, hours_of(PLAIN)[:-1])
    sweep()
    assert status(daily, hours_of(PLAIN)[0]) == WAITING


def test_one_failed_load_ends_the_wait_for_the_day() -> None:
    load = loads(PLAIN)
    daily = driven(day(load), timezone=BERLIN)
    first, second = hours_of(PLAIN)[:2]
    work(second)
    end(load, second, "dead")
    assert status(daily, first) == FAILED


def test_rules_count_the_ticks_of_a_day_one_by_one() -> None:
    load = loads(PLAIN)
    rules = ("all_success", "all_done", "one_success", "one_failed", "none_failed")
    daily = {rule: driven(day(load), timezone=BERLIN, trigger_rule=rule) for rule in rules}
    hours = hours_of(PLAIN)

    def standing() -> dict[str, str]:
        return {rule: status(job, hours[0])[0] for rule, job in daily.items()}

    work(hours[0])
    end(load, hours[0])
    assert standing() == dict.fromkeys(rules, "waiting") | {"one_success": "queued"}
    work(hours[1])
    end(load, hours[1], "dead")
    assert standing() == {
        "all_success": "skipped",
        "all_done": "waiting",
        "one_success": "queued",
        "one_failed": "queued",
        "none_failed": "skipped",
    }
    work(hours[-1])
    end_all(load, hours[2:])
    assert standing()["all_done"] == "queued"


def test_ticks_of_the_day_that_were_coalesced_take_the_outcome_of_a_run_the_day_after() -> None:
    load = loads(PLAIN)
    daily = driven(day(load), timezone=BERLIN)
    hours, tomorrow = hours_of(PLAIN), hours_of(PLAIN + DAY)
    work(hours[19])
    end_all(load, hours[:20])
    Job.objects.filter(job_id=load.job_id).update(misfire_grace_sec=60)
    work(tomorrow[5])
    assert status(daily, hours[0]) == WAITING
    end(load, tomorrow[5])
    sweep()
    assert status(daily, hours[0]) == QUEUED


def test_ticks_of_the_day_that_were_left_out_count_as_skipped() -> None:
    load = loads(PLAIN, misfire_policy="skip")
    strict = driven(day(load), timezone=BERLIN)
    lenient = driven(day(load), timezone=BERLIN, trigger_rule="none_failed")
    hours = hours_of(PLAIN)
    work(hours[9])
    Job.objects.filter(job_id=load.job_id).update(misfire_grace_sec=60)
    work(hours[12])
    Job.objects.filter(job_id=load.job_id).update(misfire_grace_sec=200_000)
    work(hours[-1])
    end_all(load, [*hours[:10], *hours[12:]])
    assert [status(one, hours[0]) for one in (strict, lenient)] == [FAILED, QUEUED]


def test_a_pause_into_the_night_leaves_the_day_incomplete() -> None:
    load = loads(PLAIN)
    daily = driven(day(load), timezone=BERLIN)
    hours = hours_of(PLAIN)
    work(hours[9])
    end_all(load, hours[:10])
    Job.objects.filter(job_id=load.job_id).update(enabled=False)
    set_next(load, next_run_at=None)
    sweep()
    assert status(daily, hours[0]) == FAILED


def test_a_pause_after_the_last_tick_leaves_the_day_complete() -> None:
    load = loads(PLAIN)
    daily = driven(day(load), timezone=BERLIN)
    hours = hours_of(PLAIN)
    work(hours[-1])
    end_all(load, hours)
    Job.objects.filter(job_id=load.job_id).update(enabled=False)
    set_next(load, next_run_at=None)
    assert status(daily, hours[0]) == QUEUED


def test_a_date_without_any_tick_is_not_waited_for() -> None:
    sunday = PLAIN
    make_days(hours_of(sunday)[0])
    weekly = scheduled("0 12 * * 1", datetime(2025, 6, 2, 12, tzinfo=UTC))
    at = datetime(2025, 6, 1, 20, tzinfo=UTC)
    nightly = after(scheduled("0 20 * * *", at), day(weekly))
    work(at)
    assert status(nightly, at) == ("skipped", "no_upstream_tick")


def test_days_of_both_jobs_follow_one_another() -> None:
    load = loads(PLAIN)
    daily = driven(day(load), timezone=BERLIN)
    report = driven(daily)
    hours = hours_of(PLAIN)
    work(hours[-1])
    end_all(load, hours)
    end(daily, hours[0])
    assert statuses(report) == [QUEUED]
