"""PROTOCOL 2: a write settles the old version's ticks, and the new one starts after it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection

from jobs.errors import FieldErrors
from jobs.models import Job, JobVersion, Pause
from runs.models import Run
from tests.integration.ledger.simulation import (
    DAY,
    HOUR,
    INSTANT,
    MINUTE,
    SECOND,
    World,
    misfires,
    spoil,
    ticks,
)

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
HALF = SECOND / 2
BERLIN_GAP = datetime(2026, 3, 29, 1, tzinfo=UTC)  # 02:00 becomes 03:00


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, NOON)


def clean(world: World) -> int:
    """Return how many ticks were expected, of which none may be wrong."""
    tally, problems = world.verify()
    assert problems == []
    return tally.expected


def test_an_edit_settles_what_was_due_and_starts_after_itself(world: World) -> None:
    job = world.create("* * * * *")
    world.now = NOON + 10 * MINUTE + HALF
    job = world.patch(job, schedule="*/5 * * * *")
    assert ticks(job) == [NOON + 10 * MINUTE]
    assert misfires(job) == [("coalesced", NOON + MINUTE, NOON + 9 * MINUTE, 9)]
    assert job.next.next_run_at == NOON + 15 * MINUTE
    world.run_until(NOON + HOUR, MINUTE)
    assert clean(world) == 10 + 10


def test_a_tick_at_the_very_instant_of_an_edit_is_the_old_version_s(world: World) -> None:
    job = world.create("* * * * *")
    world.now = NOON + MINUTE
    job = world.patch(job, schedule="* * * * * *")
    assert ticks(job) == [NOON + MINUTE]
    assert job.next.next_run_at == NOON + MINUTE + SECOND
    world.run_until(NOON + MINUTE + 5 * SECOND, SECOND)
    assert clean(world) == 1 + 5


def test_several_edits_within_a_second(world: World) -> None:
    job = world.create("* * * * * *")
    world.now = NOON + HALF
    for nth, schedule in enumerate(("*/2 * * * * *", "* * * * * *", None, "*/5 * * * * *")):
        world.now = NOON + HALF + nth * INSTANT
        job = world.patch(job, schedule=schedule)
    assert job.next.next_run_at == NOON + 5 * SECOND
    world.run_until(NOON + 10 * SECOND, SECOND)
    assert ticks(job) == [NOON + 5 * SECOND, NOON + 10 * SECOND]
    assert clean(world) == 2


def test_a_pause_is_no_outage_and_a_resume_no_catch_up(world: World) -> None:
    job = world.create("* * * * *", misfirePolicy="run_all")
    world.run_until(NOON + 5 * MINUTE, MINUTE)
    world.now += HALF
    job = world.pause(job)
    assert job.next.next_run_at is None
    world.run_until(NOON + 20 * MINUTE, MINUTE)
    assert world.fates(job) == {"run": 5, "paused": 15}
    assert misfires(job) == []  # recorded once the pause ends
    job = world.resume(job)
    assert job.next.next_run_at == NOON + 21 * MINUTE
    assert misfires(job) == [("paused", NOON + 6 * MINUTE, NOON + 20 * MINUTE, 15)]
    world.run_until(NOON + 30 * MINUTE, MINUTE)
    assert world.fates(job) == {"run": 15, "paused": 15}
    assert clean(world) == 30


def test_edits_of_a_paused_job_record_each_version_s_ticks_as_paused(world: World) -> None:
    job = world.pause(world.create("* * * * *"))
    world.now = NOON + 10 * MINUTE + HALF
    job = world.patch(job, schedule="*/10 * * * *")
    world.now = NOON + HOUR + HALF
    job = world.delete(job)
    assert [(rule, count) for rule, _, _, count in misfires(job)] == [("paused", 10), ("paused", 5)]
    assert clean(world) == 15


def test_what_was_due_before_a_pause_goes_by_the_policy(world: World) -> None:
    job = world.create("* * * * *", misfirePolicy="run_all", maxCatchup=2)
    world.now = NOON + 5 * MINUTE + HALF
    job = world.pause(job)
    assert ticks(job) == [NOON + MINUTE * n for n in (3, 4, 5)]
    assert misfires(job) == [("capped", NOON + MINUTE, NOON + 2 * MINUTE, 2)]
    assert clean(world) == 5


def test_a_delete_records_and_cancels_what_was_due_and_expects_no_more(world: World) -> None:
    job = world.create("* * * * *")
    world.now = NOON + 3 * MINUTE + HALF
    world.delete(job)
    assert Run.objects.get(job=job).status == "cancelled"
    world.run_until(NOON + HOUR, MINUTE)
    assert clean(world) == 3
    assert world.fates(job) == {"coalesced": 2, "run": 1}


def test_the_pause_of_a_team_holds_for_an_edit_too(world: World) -> None:
    job = world.create("* * * * *", misfirePolicy="run_all")
    world.run_until(NOON + 2 * MINUTE, MINUTE)
    Pause.objects.create(owner=world.team, created_by="test", created_at=world.now + HALF)
    world.now = NOON + 10 * MINUTE + HALF
    job = world.patch(job, schedule="*/5 * * * *")
    assert ticks(job) == [NOON + MINUTE, NOON + 2 * MINUTE]
    assert misfires(job) == [("paused", NOON + 3 * MINUTE, NOON + 10 * MINUTE, 8)]
    world.run_until(NOON + 20 * MINUTE, MINUTE)
    assert world.fates(job) == {"run": 2, "paused": 10}
    assert clean(world) == 12


def test_an_edit_settles_more_ticks_than_one_decision_makes(world: World) -> None:
    job = world.create("* * * * * *", misfireGraceSec=7200)
    world.now = NOON + 6001 * SECOND
    world.patch(job, schedule=None)
    assert len(ticks(job)) == 6001
    assert clean(world) == 6001


def test_a_one_off_that_ran_is_edited_without_running_again(world: World) -> None:
    at = "2026-03-04T12:05:00Z"
    job = world.create({"runAt": at})
    world.run_until(NOON + 10 * MINUTE, MINUTE)
    job = world.patch(job, description="it ran")
    assert job.next.next_run_at is None
    job = world.patch(job, schedule={"runAt": "2026-03-04T12:30:00Z"})
    world.run_until(NOON + HOUR, MINUTE)
    assert ticks(job) == [NOON + 5 * MINUTE, NOON + 30 * MINUTE]
    with pytest.raises(FieldErrors):
        world.patch(job, schedule={"runAt": at})
    assert clean(world) == 2


def test_a_one_off_moved_before_it_ran_runs_at_its_new_time_alone(world: World) -> None:
    job = world.create({"runAt": "2026-03-04T12:05:00Z"})
    world.now += 4 * MINUTE
    world.patch(job, schedule={"runAt": "2026-03-04T12:10:00Z"})
    world.run_until(NOON + HOUR, MINUTE)
    assert ticks(job) == [NOON + 10 * MINUTE]
    assert clean(world) == 1


def test_dates_bound_the_ticks_and_may_be_moved(world: World) -> None:
    job = world.create("* * * * *", endsAt="2026-03-04T12:03:00Z")
    world.run_until(NOON + 10 * MINUTE, MINUTE)
    assert ticks(job) == [NOON + MINUTE * n for n in (1, 2, 3)]
    job = world.patch(job, endsAt="2026-03-04T12:12:00Z")
    assert job.next.next_run_at == NOON + 11 * MINUTE
    world.run_until(NOON + 20 * MINUTE, MINUTE)
    job = world.patch(job, startsAt="2026-03-04T12:25:00Z", endsAt=None)
    assert job.next.next_run_at == NOON + 25 * MINUTE
    world.run_until(NOON + 30 * MINUTE, MINUTE)
    assert len(ticks(job)) == 3 + 2 + 6
    assert clean(world) == 11


def test_an_interval_keeps_its_anchor_through_other_edits(world: World) -> None:
    world.now = NOON + 7 * SECOND + HALF
    job = world.create({"everySec": 60})
    world.run_until(NOON + 5 * MINUTE, SECOND * 10)
    job = world.patch(job, description="the same rhythm")
    world.run_until(NOON + 10 * MINUTE, SECOND * 10)
    assert ticks(job) == [NOON + 7 * SECOND + n * MINUTE for n in range(1, 10)]
    job = world.patch(job, schedule={"everySec": 60, "anchor": "2026-03-04T00:00:00Z"})
    world.run_until(NOON + 12 * MINUTE, SECOND * 10)
    assert ticks(job)[9:] == [NOON + 11 * MINUTE, NOON + 12 * MINUTE]
    assert clean(world) == 11


def test_an_edit_mends_a_quarantined_job_and_its_ticks_are_owed_no_more(world: World) -> None:
    job = world.create("* * * * *")
    spoil("UPDATE job_next SET retry_at = %s, quarantine_reason = 'x'", NOON + HOUR)
    world.run_until(NOON + 5 * MINUTE, MINUTE)
    assert ticks(job) == []
    assert world.fates(job) == {"due": 5}
    world.now += HALF
    job = world.patch(job, description="mended")
    assert (job.next.retry_at, job.next.quarantine_reason) == (None, "")
    world.run_until(NOON + 10 * MINUTE, MINUTE)
    assert world.fates(job) == {"coalesced": 4, "run": 6}
    assert clean(world) == 10


@pytest.mark.parametrize("act", ["patch", "pause", "delete"])
def test_a_job_whose_zone_is_gone_can_be_mended(world: World, act: str) -> None:
    job = world.create("0 * * * *", timezone="Europe/Berlin")
    spoil("UPDATE jobs SET timezone = 'Mars/Olympus'")
    world.now += 3 * HOUR
    acts: dict[str, Any] = {
        "patch": lambda: world.patch(job, timezone="Europe/Paris"),
        "pause": lambda: world.pause(job),
        "delete": lambda: world.delete(job),
    }
    acts[act]()
    assert ticks(job) == []
    assert JobVersion.objects.filter(job=job).count() == 2


def test_a_paused_job_whose_zone_is_gone_is_not_resumed(world: World) -> None:
    job = world.pause(world.create("0 * * * *", timezone="Europe/Berlin"))
    spoil("UPDATE jobs SET timezone = 'Mars/Olympus'")
    world.now += HOUR
    with pytest.raises(FieldErrors) as refused:
        world.resume(job)
    assert refused.value.errors[0].field == "timezone"
    assert Job.objects.get().enabled is False


@pytest.mark.parametrize("act", ["patch", "pause", "delete"])
def test_a_clock_that_was_set_back_leaves_what_has_run_before_the_edit(
    world: World, act: str
) -> None:
    job = world.create("* * * * *")
    world.run_until(NOON + 10 * MINUTE, MINUTE)
    world.now -= 3 * MINUTE
    acts: dict[str, Any] = {
        "patch": lambda: world.patch(job, schedule="*/4 * * * *"),
        "pause": lambda: world.pause(job),
        "delete": lambda: world.delete(job),
    }
    acts[act]()
    assert JobVersion.objects.get(job=job, version=2).valid_from == NOON + 10 * MINUTE
    world.now = NOON + 20 * MINUTE
    world.dispatch()
    assert world.fates(job)["run"] >= 10
    assert clean(world) == {"patch": 13, "pause": 20, "delete": 10}[act]


def test_versions_follow_one_another_whatever_the_clock_says(world: World) -> None:
    job = world.create(None)
    world.now -= HOUR
    job = world.patch(job, schedule="0 * * * *")
    assert JobVersion.objects.get(job=job, version=2).valid_from == NOON + INSTANT
    assert job.next.next_run_at == NOON + HOUR


# --- gaps that dstPolicy skip leaves out ------------------------------------------------------


@pytest.fixture
def spring(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, BERLIN_GAP - HOUR)


def nightly(world: World, **body: Any) -> Job:  # noqa: ANN401 - as a client writes it
    return world.create("30 2 * * *", timezone="Europe/Berlin", dstPolicy="skip", **body)


GAP = ("dst_gap", BERLIN_GAP, BERLIN_GAP, 1)


def test_a_gap_before_the_first_tick_of_a_new_job_is_recorded(spring: World) -> None:
    job = nightly(spring)
    assert misfires(job) == [GAP]
    spring.run_until(BERLIN_GAP + DAY, HOUR)
    assert spring.fates(job) == {"dst_gap": 1, "run": 1}
    assert clean(spring) == 2


def test_a_gap_between_an_edit_and_the_first_tick_is_recorded(spring: World) -> None:
    job = spring.create("30 2 * * *", timezone="Europe/Berlin")
    job = spring.patch(job, dstPolicy="skip")
    assert misfires(job) == [GAP]
    spring.run_until(BERLIN_GAP + HOUR, HOUR)
    assert clean(spring) == 1


def test_a_gap_recorded_ahead_is_void_when_an_edit_comes_before_it(spring: World) -> None:
    job = nightly(spring)
    spring.now += MINUTE
    job = spring.patch(job, schedule="45 2 * * *", dstPolicy="vixie")
    assert misfires(job) == []
    spring.run_until(BERLIN_GAP + HOUR, HOUR)
    assert ticks(job) == [BERLIN_GAP]
    assert clean(spring) == 1


def test_a_gap_that_an_edit_comes_after_stays(spring: World) -> None:
    job = nightly(spring)
    spring.now = BERLIN_GAP + MINUTE
    job = spring.patch(job, schedule="45 2 * * *")
    assert misfires(job) == [GAP]
    assert clean(spring) == 1


def test_a_gap_while_the_job_is_paused_is_a_gap(spring: World) -> None:
    job = spring.pause(nightly(spring))
    assert misfires(job) == []
    spring.now = BERLIN_GAP + 3 * DAY
    assert spring.fates(job) == {"dst_gap": 1, "paused": 3}
    spring.resume(job)
    assert clean(spring) == 4


def test_a_gap_while_the_team_is_paused_is_a_gap(spring: World) -> None:
    job = nightly(spring)
    Pause.objects.create(created_by="test", created_at=spring.now)
    spring.run_until(BERLIN_GAP + 3 * DAY, DAY)
    assert spring.fates(job) == {"dst_gap": 1, "paused": 3}
    assert clean(spring) == 4


def test_a_gap_after_the_last_tick_is_recorded(spring: World) -> None:
    spring.now = spring.start = BERLIN_GAP - 2 * DAY
    job = nightly(spring, endsAt="2026-03-29T12:00:00Z")
    spring.run_until(BERLIN_GAP + DAY, HOUR)
    assert spring.fates(job) == {"dst_gap": 1, "run": 2}
    assert clean(spring) == 3


def test_a_gap_that_was_not_recorded_is_missing(spring: World) -> None:
    job = nightly(spring)
    spring.run_until(BERLIN_GAP + HOUR, HOUR)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM misfires")
    assert [problem.entry.fate for problem in spring.verify()[1]] == ["missing"]
    assert spring.fates(job) == {"missing": 1}
