"""PROTOCOL 5: an older dispatcher refuses, a newer one finds every next tick anew."""

import io
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from chronoproject.clock import db_now
from chronoproject.process import Stop
from jobs.cron import TZDATA_VERSION
from jobs.models import Job, JobNext, JobVersion
from runs import tzdata
from runs.dispatcher import Dispatcher
from runs.models import Tzdata
from tests.factories import set_next
from tests.integration.ledger.simulation import DAY, HOUR, World, misfires, ticks

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch, NOON)
    monkeypatch.setattr(tzdata, "db_now", lambda: made.now)
    return made


def computed_before(job: Job, **columns: object) -> Job:
    """Leave the job as an older tzdata would have: its rules gave it another next tick."""
    JobVersion.objects.filter(job=job).update(tzdata_version="2020a")
    if "next_run_at" in columns:
        set_next(job, next_run_at=columns.pop("next_run_at"))
    if columns:
        Job.objects.filter(job_id=job.job_id).update(**columns)
    return Job.objects.get(job_id=job.job_id)


def test_the_first_dispatcher_notes_its_version() -> None:
    Dispatcher("d1").dispatch_due()
    assert Tzdata.objects.get().version == TZDATA_VERSION


def test_a_newer_version_replaces_an_older_one() -> None:
    Tzdata.objects.create(version="2020a")
    tzdata.take_over()
    assert Tzdata.objects.get().version == TZDATA_VERSION


def test_an_older_dispatcher_refuses_and_changes_nothing(world: World) -> None:
    job = computed_before(world.create("* * * * *"), next_run_at=db_now() - HOUR)
    Tzdata.objects.create(version="9999z")
    with pytest.raises(CommandError, match=rf"tzdata {TZDATA_VERSION}, the database is at 9999z"):
        call_command("dispatcher", stdout=io.StringIO())
    assert ticks(job) == []
    assert Tzdata.objects.get().version == "9999z"


def test_a_dispatcher_that_has_been_overtaken_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tzdata, "CHECK_SEC", 0.0)
    replica = Dispatcher("d1")
    replica.run_once()
    Tzdata.objects.update(version="9999z")
    with pytest.raises(tzdata.OutdatedTzdata):
        replica.run_forever(Stop())


def test_a_job_whose_next_tick_stays_keeps_its_version(world: World) -> None:
    job = computed_before(world.create("0 3 * * *", timezone="Europe/Berlin"))
    assert tzdata.take_over() == 0
    version = JobVersion.objects.get(job=job)
    assert (version.tzdata_version, version.valid_to) == (TZDATA_VERSION, None)


def test_a_job_whose_next_tick_moves_gets_a_version_of_the_system(world: World) -> None:
    job = world.create("0 3 * * *", timezone="Europe/Berlin")
    right = job.next.next_run_at
    assert right is not None
    job = computed_before(job, next_run_at=right + HOUR)
    world.now += HOUR
    assert tzdata.take_over() == 1
    job.refresh_from_db()
    assert (job.next.next_run_at, job.version) == (right, 2)
    new = JobVersion.objects.get(job=job, version=2)
    assert (new.change, new.changed_by) == ("system", f"system: tzdata {TZDATA_VERSION}")
    assert (new.valid_from, new.tzdata_version) == (world.now, TZDATA_VERSION)
    assert JobVersion.objects.get(job=job, version=1).valid_to == world.now
    world.run_until(NOON + 2 * DAY, HOUR)
    assert world.verify()[1] == []
    assert tzdata.take_over() == 0


def test_a_tick_that_the_new_rules_put_into_the_past_is_not_dropped(world: World) -> None:
    """By the old rules 03:00 in Berlin was yet to come; by the new ones it was an hour ago."""
    job = world.create("0 3 * * *", timezone="Europe/Berlin")
    tick = job.next.next_run_at
    assert tick is not None
    computed_before(job, next_run_at=tick + 2 * HOUR)
    world.now = tick + HOUR
    tzdata.take_over()
    assert ticks(job) == [tick]
    world.run_until(tick + 2 * DAY, HOUR)
    assert ticks(job) == [tick, tick + DAY, tick + 2 * DAY]
    assert world.verify()[1] == []


def test_ticks_that_ran_are_not_settled_again(world: World) -> None:
    job = world.create("0 * * * *", misfirePolicy="run_all")
    world.run_until(NOON + 5 * HOUR, HOUR)
    computed_before(job, next_run_at=NOON + 9 * HOUR)
    world.now = NOON + 7 * HOUR
    tzdata.take_over()
    assert ticks(job) == [NOON + HOUR * n for n in range(1, 8)]
    assert world.verify()[1] == []


def test_what_is_due_is_left_to_the_dispatcher(world: World) -> None:
    job = computed_before(world.create("0 * * * *"))
    world.now = NOON + 3 * HOUR
    assert tzdata.take_over() == 0
    assert ticks(job) == []
    world.dispatch()
    assert world.verify()[1] == []


def test_a_gap_is_recorded_by_the_new_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, datetime(2026, 3, 28, 12, tzinfo=UTC))
    monkeypatch.setattr(tzdata, "db_now", lambda: world.now)
    job = world.create("30 2 * * *", timezone="Europe/Berlin", dstPolicy="skip")
    gap = misfires(job)
    assert len(gap) == 1
    computed_before(job)
    job.misfires.update(first_tick=world.now + HOUR, last_tick=world.now + HOUR)
    tzdata.take_over()
    assert misfires(job) == gap


def test_paused_and_deleted_jobs_and_those_without_a_zone_are_left_as_they_are(
    world: World,
) -> None:
    paused = computed_before(world.pause(world.create("* * * * *")))
    deleted = computed_before(world.delete(world.create("* * * * *")))
    lost = computed_before(world.create("* * * * *"), timezone="Mars/Olympus")
    assert tzdata.take_over() == 0
    assert {job.version for job in Job.objects.all()} == {1, 2}
    assert [paused.version, deleted.version, lost.version] == [2, 2, 1]
    assert tzdata.recompute() == 0


def test_batches_go_on_until_all_is_done(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tzdata, "BATCH", 2)
    for _ in range(5):
        job = world.create("0 * * * *")
        computed_before(job, next_run_at=NOON + timedelta(hours=9))
    assert tzdata.take_over() == 5
    assert set(JobNext.objects.values_list("next_run_at", flat=True)) == {NOON + HOUR}


@pytest.mark.django_db(transaction=True)
def test_the_process_ends_with_a_clear_line() -> None:
    Tzdata.objects.create(version="9999z")
    done = subprocess.run(
        [sys.executable, "manage.py", "dispatcher", "--name", "old"],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 1
    assert f"this dispatcher has tzdata {TZDATA_VERSION}, the database is at 9999z" in done.stderr
    assert "Traceback" not in done.stderr
