"""A cycle of the dispatcher: due jobs become runs and advance, once, whoever else is at it."""

import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from chronoproject.clock import db_now
from jobs.models import Job, JobNext, Pause
from runs import dispatcher, settling
from runs.batch import Batch, dispatch
from runs.decisions import DueJob, decide_job
from runs.dispatcher import ClockGuard, Dispatcher
from runs.models import Alert, Misfire, Run
from tests.factories import set_next
from tests.integration import support

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def this_minute() -> datetime:
    return db_now().replace(second=0, microsecond=0)


def hourly(due: datetime) -> str:
    """Return a schedule with this tick and no other for an hour, whenever a test is run."""
    return f"{due.minute} * * * *"


def batch(now: datetime | None = None) -> Batch:
    return dispatch(now or db_now(), None, lambda decisions: None)


def ticks(job: Job) -> list[datetime]:
    return list(
        Run.objects.filter(job=job)
        .order_by("scheduled_for")
        .values_list("scheduled_for", flat=True)
    )


def test_a_due_job_gets_its_run_and_moves_on() -> None:
    due = this_minute()
    job = support.job(schedule="* * * * *", next_run_at=due, max_retries=2, priority="high")
    done = batch()
    assert (done.jobs, done.recorded, done.misfires) == (1, 1, 0)
    job.refresh_from_db()
    assert job.next.next_run_at == due + MINUTE
    run = Run.objects.get(job=job)
    assert (run.scheduled_for, run.logical_date, run.trigger) == (due, due, "schedule")
    assert (run.status, run.attempt_limit, run.priority) == ("queued", 3, "high")
    assert batch().jobs == 0


@pytest.mark.parametrize("change", ["later", "disabled", "deleted", "quarantined"])
def test_a_job_that_is_not_due_is_left_alone(change: str) -> None:
    now = this_minute()
    changes: dict[str, dict[str, Any]] = {
        "later": {"next_run_at": now + 5 * MINUTE},
        "disabled": {"enabled": False},
        "deleted": {"deleted_at": now},
        "quarantined": {"retry_at": now + 5 * MINUTE},
    }
    job = support.job(**{"schedule": "* * * * *", "next_run_at": now, **changes[change]})
    assert batch().jobs == 0
    assert not Run.objects.filter(job=job).exists()


def test_a_tick_recorded_before_is_not_recorded_again() -> None:
    due = this_minute()
    job = support.job(schedule="* * * * *", next_run_at=due)
    support.queued(job, due)
    done = batch()
    assert (done.jobs, done.recorded) == (1, 0)
    assert ticks(job) == [due]


def test_a_one_off_job_runs_once_and_has_no_next_tick() -> None:
    at = this_minute()
    job = support.job(run_at=at, next_run_at=at)
    batch()
    job.refresh_from_db()
    assert job.next.next_run_at is None
    assert ticks(job) == [at]
    assert batch().jobs == 0


def test_an_interval_counts_from_its_anchor() -> None:
    anchor = this_minute() - timedelta(seconds=90)
    job = support.job(every_sec=90, anchor=anchor, next_run_at=anchor + timedelta(seconds=90))
    batch()
    job.refresh_from_db()
    assert ticks(job) == [anchor + timedelta(seconds=90)]
    assert job.next.next_run_at == anchor + timedelta(seconds=180)


def test_missed_ticks_go_by_the_policy() -> None:
    now = this_minute() + timedelta(seconds=30)
    first = this_minute() - 179 * MINUTE
    jobs = {
        policy: support.job(
            schedule="* * * * *", next_run_at=first, misfire_policy=policy, name=policy
        )
        for policy in ("run_once", "run_all", "skip")
    }
    batch(now)
    assert ticks(jobs["run_once"]) == [this_minute()]
    assert ticks(jobs["skip"]) == [this_minute()]
    assert ticks(jobs["run_all"]) == [this_minute() - ago * MINUTE for ago in range(100, -1, -1)]
    found = {
        (misfire.job_id, misfire.rule): (misfire.first_tick, misfire.last_tick, misfire.tick_count)
        for misfire in Misfire.objects.all()
    }
    missed = (first, this_minute() - MINUTE, 179)
    assert found == {
        (jobs["run_once"].job_id, "coalesced"): missed,
        (jobs["skip"].job_id, "skipped"): missed,
        (jobs["run_all"].job_id, "capped"): (first, this_minute() - 101 * MINUTE, 79),
    }
    late = Run.objects.filter(job=jobs["run_all"], scheduled_for__lt=this_minute())
    assert set(late.values_list("priority", flat=True)) == {"low"}
    assert Run.objects.get(job=jobs["run_all"], scheduled_for=this_minute()).priority == "normal"


def test_a_paused_team_keeps_advancing_and_the_ledger_says_so() -> None:
    due = this_minute()
    job = support.job(schedule="* * * * *", next_run_at=due - 2 * MINUTE)
    Pause.objects.create(owner=job.owner, created_by="test", created_at=due - 9 * MINUTE)
    batch()
    job.refresh_from_db()
    assert job.next.next_run_at == due + MINUTE
    assert ticks(job) == []
    misfire = Misfire.objects.get(job=job)
    assert (misfire.rule, misfire.tick_count, misfire.first_tick) == ("paused", 3, due - 2 * MINUTE)


def test_ticks_that_were_due_before_a_pause_began_go_by_the_policy() -> None:
    due = this_minute()
    job = support.job(schedule="* * * * *", next_run_at=due - 9 * MINUTE)
    Pause.objects.create(created_by="test", created_at=due - 4 * MINUTE - SECOND)
    batch()
    job.refresh_from_db()
    assert job.next.next_run_at == due + MINUTE
    assert ticks(job) == [due - 5 * MINUTE]
    found = Misfire.objects.filter(job=job).order_by("first_tick")
    assert list(found.values_list("rule", "first_tick", "tick_count")) == [
        ("coalesced", due - 9 * MINUTE, 4),
        ("paused", due - 4 * MINUTE, 5),
    ]


def test_a_limited_job_is_admitted_in_the_same_transaction() -> None:
    due = this_minute()
    job = support.job(
        schedule="* * * * *",
        next_run_at=due - 2 * MINUTE,
        misfire_policy="run_all",
        max_concurrency=1,
    )
    batch()
    assert support.statuses(job) == [
        ("queued", ""),
        ("waiting", "concurrency"),
        ("waiting", "concurrency"),
    ]


def test_a_job_that_cannot_be_decided_is_set_aside_and_its_neighbours_go_out() -> None:
    due = this_minute()
    poison = support.job(schedule="not a cron", next_run_at=due)
    healthy = [support.job(schedule="* * * * *", next_run_at=due) for _ in range(3)]
    done = batch()
    assert done.quarantined == (poison.job_id,)
    assert [ticks(job) for job in healthy] == [[due]] * 3
    poison.refresh_from_db()
    assert poison.next.next_run_at == due
    assert poison.next.retry_at is not None
    assert "InvalidSchedule" in poison.next.quarantine_reason
    assert Alert.objects.get().job_id == poison.job_id
    Job.objects.filter(job_id=poison.job_id).update(schedule="* * * * *")
    set_next(poison, retry_at=None)
    batch()
    assert ticks(poison) == [due]
    poison.refresh_from_db()
    assert poison.next.quarantine_reason == ""


def test_many_quarantined_jobs_do_not_hide_the_next_tick() -> None:
    due = this_minute()
    for _ in range(101):
        support.job(schedule="broken", next_run_at=due, retry_at=due + 60 * MINUTE)
    support.job(schedule=hourly(due), next_run_at=db_now() - timedelta(seconds=1))
    replica = Dispatcher("d1")
    replica.shards.refresh()
    assert replica.idle_sec() < 0.1


@pytest.mark.django_db(transaction=True)
def test_a_statement_that_fails_is_taken_apart_until_the_offender_stands_alone() -> None:
    due = this_minute()
    jobs = [support.job(schedule=hourly(due), next_run_at=due) for _ in range(5)]
    offender = jobs[2].job_id
    refuse_runs_of(offender)
    replica = Dispatcher("d1")
    batches = replica.dispatch_due()
    assert sum(done.jobs for done in batches) == 4
    told = {"batches": 1, "jobs": 4, "ticks": 4, "quarantined": 1}
    assert replica.figures.totals == told
    assert [ticks(job) for job in jobs if job.job_id != offender] == [[due]] * 4
    left = Job.objects.get(job_id=offender)
    assert (left.next.next_run_at, left.next.retry_at is not None) == (due, True)
    assert "PostgreSQL refuses" in left.next.quarantine_reason


def refuse_runs_of(job_id: uuid.UUID) -> None:
    """Make PostgreSQL itself refuse the job's rows; the partition's days go with the tables."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF NEW.job_id = '{job_id}' THEN
                    RAISE EXCEPTION 'a value that PostgreSQL refuses' USING ERRCODE = '22000';
                END IF;
                RETURN NEW;
            END $$;
            CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON runs
            FOR EACH ROW EXECUTE FUNCTION refuse();
            """
        )


@pytest.fixture(autouse=True)
def no_trigger_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "refuse_runs_of" in request.function.__code__.co_names:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER refuse ON runs")


def test_a_batch_is_bounded_by_ticks(settings: Settings) -> None:
    settings.CHRONO_BATCH_TICKS = 5
    due = this_minute()
    jobs = [
        support.job(schedule="* * * * *", next_run_at=due - 4 * MINUTE, misfire_policy="run_all")
        for _ in range(2)
    ]
    first = batch()
    assert (first.jobs, first.recorded, first.is_full) == (1, 5, True)
    assert batch().jobs == 1
    assert [len(ticks(job)) for job in jobs] == [5, 5]


def test_the_day_of_a_tick_gets_its_partition() -> None:
    long_ago = this_minute() - timedelta(days=9)
    job = support.job(
        schedule="0 0 * * *",
        next_run_at=long_ago.replace(hour=0, minute=0),
        misfire_policy="run_all",
    )
    Dispatcher("d1").dispatch_due()
    assert len(ticks(job)) >= 9
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM runs_default")
        assert cursor.fetchone() == (0,)


def test_the_idle_wait_ends_at_the_next_tick() -> None:
    replica = Dispatcher("d1")
    replica.run_once()
    support.job(schedule="* * * * *", next_run_at=db_now() + timedelta(milliseconds=300))
    assert 0.0 < replica.idle_sec() <= 0.3
    JobNext.objects.update(next_run_at=db_now() - MINUTE)
    assert replica.idle_sec() == dispatcher.LOCKED_POLL_SEC


def test_a_jump_of_the_clock_holds_dispatch_and_then_is_believed() -> None:
    guard = ClockGuard()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert guard.is_held(start, 100.0) is False
    assert guard.is_held(start + timedelta(seconds=50), 101.0) is False
    jumped = start + timedelta(seconds=152)
    assert guard.is_held(jumped, 102.0) is True
    assert guard.is_held(jumped + timedelta(seconds=20), 122.0) is True
    assert guard.is_held(jumped + timedelta(seconds=31), 133.0) is False


def test_an_edit_settles_the_ticks_of_the_version_in_force() -> None:
    due = this_minute()
    job = support.job(schedule="* * * * *", next_run_at=due - 3 * MINUTE)
    settling.settle(job, due + timedelta(seconds=10))
    assert ticks(job) == [due]
    assert Misfire.objects.get(job=job).tick_count == 3


def test_the_ticks_of_a_paused_job_are_recorded_as_paused_when_it_is_edited() -> None:
    job = support.job(schedule="0 * * * *", enabled=False, next_run_at=None)
    settling.settle(job, db_now())
    misfire = Misfire.objects.get(job=job)
    assert (misfire.rule, misfire.tick_count) == ("paused", 24)
    assert ticks(job) == []


def test_a_gap_that_dst_policy_skips_stands_in_the_ledger() -> None:
    due = datetime(2026, 3, 28, 1, 30, tzinfo=UTC)  # 02:30 in Berlin, the day before the gap
    job = support.job(
        schedule="30 2 * * *", timezone="Europe/Berlin", dst_policy="skip", next_run_at=due
    )
    due_job = settling.as_due(job)
    decision = decide_job(due_job, due, due)
    assert [run.scheduled_for for run in decision.runs] == [due]
    assert [(misfire.rule, misfire.first_tick) for misfire in decision.misfires] == [
        ("dst_gap", datetime(2026, 3, 29, 1, 0, tzinfo=UTC))
    ]
    assert decision.next_run_at == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


def test_limit_keys_name_the_job_or_what_several_share() -> None:
    free, own, shared = (
        settling.as_due(support.job(**values))
        for values in (
            {},
            {"max_concurrency": 1},
            {"max_concurrency": 1, "concurrency_key": "wh"},
        )
    )
    assert isinstance(free, DueJob)
    assert free.limit_key is None
    assert own.limit_key == f"job:{own.job_id}"
    assert shared.limit_key == f"key:{shared.owner}:wh"


@pytest.mark.django_db(transaction=True)
def test_replicas_at_the_same_jobs_record_each_tick_once() -> None:
    due = this_minute()
    jobs = [support.job(schedule=hourly(due), next_run_at=due) for _ in range(200)]
    start = threading.Barrier(4)

    def replica() -> None:
        start.wait()
        try:
            Dispatcher(str(uuid.uuid4())).dispatch_due()
        finally:
            connection.close()

    in_threads(replica, 4)
    assert Run.objects.count() == 200
    assert set(Run.objects.values_list("scheduled_for", flat=True)) == {due}
    assert JobNext.objects.filter(next_run_at=due + 60 * MINUTE).count() == len(jobs)


def in_threads(work: Callable[[], None], count: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
