"""Backfill makes missing ticks only, oldest first, on low, behind the job's limit."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection

from jobs.errors import FieldErrors, NotFound
from jobs.models import AuditEntry, Job
from runs import backfill, floor, lifecycle
from runs.backfill import Plan, backfill_all, backfill_make, backfill_plan, ensure_days
from runs.models import Run
from runs.records import RunRef
from tests.integration import support
from tests.integration.ledger.simulation import (
    DAY,
    HOUR,
    INSTANT,
    MINUTE,
    SECOND,
    World,
    spoil,
    ticks,
)

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch, NOON)
    monkeypatch.setattr(backfill, "db_now", lambda: made.now)
    return made


def plan(job: Job, since: datetime, before: datetime) -> Plan:
    made = backfill_plan(job, since, before)
    ensure_days(made)
    return made


def fill(job: Job, since: datetime, before: datetime) -> int:
    return backfill_make(plan(job, since, before), actor="ann")


def backfilled(job: Job) -> list[datetime]:
    rows = Run.objects.filter(job=job, trigger="backfill").order_by("scheduled_for")
    return list(rows.values_list("scheduled_for", flat=True))


def test_ticks_from_before_the_job_was_made_are_its_present_schedule_s(world: World) -> None:
    job = world.create("0 * * * *")
    assert fill(job, NOON - 3 * HOUR, NOON) == 3
    assert ticks(job) == [NOON - 3 * HOUR, NOON - 2 * HOUR, NOON - HOUR]
    run = Run.objects.earliest("scheduled_for")
    assert (run.trigger, run.status, run.priority) == ("backfill", "queued", "low")
    assert run.logical_date == run.scheduled_for
    assert world.verify()[1] == []
    world.start -= 5 * HOUR
    assert world.verify()[1] == []
    assert world.fates(job) == {"run": 3}


@pytest.mark.parametrize(
    ("policy", "fate"), [("run_once", "coalesced"), ("run_all", "capped"), ("skip", "skipped")]
)
def test_what_a_policy_left_out_is_made_and_is_then_its_run(
    world: World, policy: str, fate: str
) -> None:
    job = world.create("*/10 * * * *", misfirePolicy=policy, maxCatchup=0)
    world.now = NOON + HOUR
    world.dispatch()
    assert world.fates(job) == {fate: 5, "run": 1}
    assert fill(job, NOON + SECOND, NOON + 2 * HOUR) == 5
    assert world.fates(job) == {"run": 6}
    assert world.verify()[1] == []
    assert fill(job, NOON + SECOND, NOON + 2 * HOUR) == 0


def test_the_ticks_of_a_pause_are_made_during_it_and_after(world: World) -> None:
    job = world.pause(world.create("*/10 * * * *"))
    world.now = NOON + HOUR
    assert fill(job, NOON + SECOND, NOON + 25 * MINUTE) == 2
    job = world.resume(job)
    assert fill(job, NOON + SECOND, NOON + HOUR) == 3
    assert world.fates(job) == {"run": 5, "paused": 1}
    assert world.verify()[1] == []


def test_a_lost_run_is_made_again(world: World) -> None:
    job = world.create("*/10 * * * *")
    world.run_until(NOON + HOUR, MINUTE)
    spoil("DELETE FROM runs WHERE scheduled_for = %s", NOON + 20 * MINUTE)
    assert fill(job, NOON + SECOND, NOON + HOUR) == 1
    assert backfilled(job) == [NOON + 20 * MINUTE]
    assert world.verify()[1] == []


def test_what_is_still_owed_and_what_is_to_come_is_not_made(world: World) -> None:
    job = world.create("*/10 * * * *")
    world.now = NOON + 35 * MINUTE
    assert plan(job, NOON + SECOND, NOON + DAY).count == 0
    world.dispatch()
    assert fill(job, NOON + SECOND, NOON + DAY) == 2
    assert ticks(job) == [NOON + 10 * MINUTE, NOON + 20 * MINUTE, NOON + 30 * MINUTE]


def test_each_version_s_own_ticks_are_made(world: World) -> None:
    job = world.create("*/10 * * * *", misfirePolicy="skip", misfireGraceSec=0)
    world.now = NOON + 30 * MINUTE + SECOND
    job = world.patch(job, schedule="*/15 * * * *")
    world.now = NOON + HOUR + SECOND
    world.dispatch()
    assert fill(job, NOON + SECOND, NOON + 2 * HOUR) == 5
    minutes = [(tick - NOON) // MINUTE for tick in backfilled(job)]
    assert minutes == [10, 20, 30, 45, 60]
    assert set(Run.objects.values_list("job_version", flat=True)) == {2}


def test_a_gap_is_no_tick_to_make(world: World) -> None:
    world.now = datetime(2026, 3, 30, 12, tzinfo=UTC)
    job = world.create("30 2 * * *", timezone="Europe/Berlin", dstPolicy="skip")
    assert fill(job, world.now - 3 * DAY, world.now) == 2


def test_dates_bound_what_is_made(world: World) -> None:
    job = world.create("0 * * * *", startsAt="2026-03-04T10:00:00Z")
    assert fill(job, NOON - DAY, NOON) == 2


def test_a_manual_run_and_a_tick_never_take_each_other_s_place(world: World) -> None:
    job = world.create("* * * * *")
    support.queued(job, NOON - MINUTE + INSTANT, trigger="manual")
    assert fill(job, NOON - 2 * MINUTE, NOON) == 2
    assert Run.objects.filter(job=job).count() == 3


def test_a_dry_run_is_what_is_then_made(world: World) -> None:
    job = world.create("*/7 * * * *")
    dry = backfill_plan(job, NOON - DAY, NOON)
    assert not Run.objects.exists()
    assert fill(job, NOON - DAY, NOON) == dry.count == len(dry.ticks)
    assert backfilled(job) == list(dry.ticks)


def test_a_limit_lets_the_oldest_in_and_its_own_ticks_go_first(world: World) -> None:
    job = world.create("0 * * * *", maxConcurrency=1)
    fill(job, NOON - 3 * HOUR, NOON)
    assert support.statuses(job) == [
        ("queued", ""),
        ("waiting", "concurrency"),
        ("waiting", "concurrency"),
    ]
    world.run_until(NOON + HOUR, HOUR)
    finish_first(job)
    assert support.statuses(job) == [
        ("succeeded", ""),
        ("waiting", "concurrency"),
        ("waiting", "concurrency"),
        ("queued", ""),
    ]


@pytest.mark.parametrize("policy", ["skip", "cancel_running"])
def test_backfilled_runs_wait_whatever_the_policy_of_the_limit(world: World, policy: str) -> None:
    job = world.create("0 * * * *", maxConcurrency=1, concurrencyPolicy=policy)
    world.run_until(NOON + HOUR, HOUR)
    fill(job, NOON - 2 * HOUR, NOON)
    assert support.statuses(job) == [
        ("waiting", "concurrency"),
        ("waiting", "concurrency"),
        ("queued", ""),
    ]


def finish_first(job: Job) -> None:
    run = Run.objects.filter(job=job, status="queued").earliest("scheduled_for")
    (claimed,) = support.claim([RunRef(run.run_id, run.scheduled_for)])
    lifecycle.finish([support.result(claimed)])


def test_old_days_get_partitions_and_the_floor_is_lowered(world: World) -> None:
    job = world.create("0 0 * * *")
    fill(job, NOON - 20 * DAY, NOON)
    assert len(ticks(job)) == 20
    assert floor.read() <= ticks(job)[0]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM runs_default")
        assert cursor.fetchone() == (0,)


@pytest.mark.parametrize(
    ("since", "before", "field"),
    [
        (NOON - 40 * DAY, NOON, "from"),
        (NOON, NOON, "to"),
        (NOON, NOON - HOUR, "to"),
    ],
)
def test_spans_that_are_refused(
    world: World, since: datetime, before: datetime, field: str
) -> None:
    with pytest.raises(FieldErrors) as refused:
        backfill_plan(world.create("0 * * * *"), since, before)
    assert [error.field for error in refused.value.errors] == [field]


def test_too_many_ticks_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "MAX_TICKS", 100)
    job = world.create("* * * * *")
    with pytest.raises(FieldErrors, match="to"):
        backfill_plan(job, NOON - 101 * MINUTE, NOON)
    assert backfill_plan(job, NOON - 100 * MINUTE, NOON).count == 100


def test_a_large_one_is_made_in_batches_and_asked_again_makes_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "INLINE_TICKS", 10)
    monkeypatch.setattr(backfill, "BATCH", 7)
    job = world.create("* * * * *")
    large = backfill_plan(job, NOON - HOUR, NOON)
    assert (large.is_large, large.count, len(large.ticks)) == (True, 60, 10)
    span: tuple[Any, ...] = (job.job_id, NOON - HOUR, NOON)
    assert backfill_all(*span, actor="ann") == {"made": 60}
    spoil("DELETE FROM runs WHERE scheduled_for = %s", NOON - MINUTE)
    assert backfill_all(*span, actor="ann") == {"made": 1}
    assert backfilled(job) == [NOON - HOUR + MINUTE * n for n in range(60)]


def test_it_is_audited(world: World) -> None:
    job = world.create("0 * * * *")
    fill(job, NOON - 2 * HOUR, NOON)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.object_id) == ("ann", "backfill", str(job.job_id))
    assert entry.detail == {
        "from": "2026-03-04T10:00:00.000000Z",
        "to": "2026-03-04T12:00:00.000000Z",
        "made": 2,
    }


def test_a_job_deleted_meanwhile_gets_no_runs(world: World) -> None:
    job = world.create("0 * * * *")
    made = plan(job, NOON - 2 * HOUR, NOON)
    world.delete(job)
    with pytest.raises(NotFound):
        backfill_make(made, actor="ann")
    with pytest.raises(NotFound):
        backfill_all(job.job_id, NOON - HOUR, NOON, actor="ann")
    assert ticks(job) == []
