"""What verify_ticks finds when the database was tampered with, and how it tells."""

import io
import json
import uuid
from datetime import UTC, date, datetime

import pytest
from django.core.management import CommandError, call_command

from chronoproject.clock import db_now
from jobs.models import Job
from runs import verify
from runs.models import Alert, Run, TickCheck
from runs.reconcile import Fate, Span
from runs.sweeps import verify as sweep
from runs.verify import Problem
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
TEN_PAST = NOON + 10 * MINUTE


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, NOON)


def kinds(problems: list[Problem]) -> list[tuple[str, datetime]]:
    return [(problem.entry.fate.value, problem.entry.tick) for problem in problems]


def delete_run(job: Job, tick: datetime) -> None:
    spoil("DELETE FROM runs WHERE job_id = %s AND scheduled_for = %s", job.job_id, tick)


def insert_range(job: Job, rule: str, first: datetime, last: datetime, count: int) -> None:
    spoil(
        "INSERT INTO misfires (job_id, owner, first_tick, last_tick, tick_count, rule, job_version)"
        " VALUES (%s, %s, %s, %s, %s, %s, 1)",
        job.job_id,
        job.owner_id,
        first,
        last,
        count,
        rule,
    )


def test_a_tick_without_a_run_is_missing(world: World) -> None:
    job, whole = world.create("* * * * *"), world.create("* * * * *")
    world.run_until(TEN_PAST, MINUTE)
    delete_run(job, NOON + 4 * MINUTE)
    tally, problems = world.verify()
    assert kinds(problems) == [("missing", NOON + 4 * MINUTE)]
    assert problems[0].job.job_id == job.job_id != whole.job_id
    assert (tally.jobs, tally.expected, tally.found, tally.missing) == (2, 20, 19, 1)
    assert tally.percentage == 95.0
    assert world.fates(job) == {"run": 9, "missing": 1}


def test_a_tick_with_a_run_and_a_rule_is_a_duplicate(world: World) -> None:
    job = world.create("* * * * *")
    world.run_until(TEN_PAST, MINUTE)
    insert_range(job, "skipped", NOON + 2 * MINUTE, NOON + 3 * MINUTE, 2)
    tally, problems = world.verify()
    assert kinds(problems) == [
        ("duplicate", NOON + 2 * MINUTE),
        ("duplicate", NOON + 3 * MINUTE),
    ]
    assert (tally.duplicate, tally.missing, tally.expected) == (2, 0, 10)


def test_a_tick_under_two_rules_is_a_duplicate(world: World) -> None:
    job = world.create("* * * * *", misfirePolicy="skip")
    world.now = NOON + 5 * MINUTE
    world.dispatch()
    insert_range(job, "paused", NOON + 2 * MINUTE, NOON + 2 * MINUTE, 1)
    assert kinds(world.verify()[1]) == [("duplicate", NOON + 2 * MINUTE)]


def test_a_run_at_no_tick_is_unexplained(world: World) -> None:
    job = world.create("*/5 * * * *")
    world.run_until(TEN_PAST, MINUTE)
    support.queued(job, NOON + 3 * MINUTE)
    tally, problems = world.verify()
    assert kinds(problems) == [("unexplained", NOON + 3 * MINUTE)]
    assert (tally.expected, tally.found, tally.unexplained) == (2, 2, 1)
    assert world.fates(job) == {"run": 2, "unexplained": 1}


def test_a_run_off_the_whole_second_is_unexplained_unless_it_was_triggered(world: World) -> None:
    job = world.create("*/5 * * * *")
    world.run_until(TEN_PAST, MINUTE)
    support.queued(job, NOON + MINUTE + INSTANT, trigger="manual")
    assert world.verify()[1] == []
    support.queued(job, NOON + 2 * MINUTE + INSTANT)
    assert kinds(world.verify()[1]) == [("unexplained", NOON + 2 * MINUTE + INSTANT)]


def test_a_triggered_run_within_the_same_second_hides_no_missing_tick(world: World) -> None:
    job = world.create("*/5 * * * *")
    world.run_until(TEN_PAST, MINUTE)
    delete_run(job, NOON + 5 * MINUTE)
    support.queued(job, NOON + 5 * MINUTE + INSTANT, trigger="manual")
    assert kinds(world.verify()[1]) == [("missing", NOON + 5 * MINUTE)]


@pytest.mark.parametrize(
    ("first", "last", "count", "version"),
    [
        (5, 10, 3, 1),  # two ticks, told as three
        (1, 4, 1, 1),  # no tick at all
        (5, 5, 1, 7),  # no such version
        (-5, 0, 2, 1),  # before the job was
    ],
)
def test_a_range_that_its_version_does_not_explain(
    world: World, first: int, last: int, count: int, version: int
) -> None:
    job = world.create("*/5 * * * *", misfirePolicy="skip")
    world.start -= HOUR
    world.now = NOON + 20 * MINUTE
    insert_range(job, "skipped", NOON + first * MINUTE, NOON + last * MINUTE, count)
    spoil("UPDATE misfires SET job_version = %s", version)
    (problem,) = world.verify()[1]
    assert (problem.entry.fate, problem.entry.tick) == (
        Fate.UNEXPLAINED,
        NOON + first * MINUTE,
    )
    assert problem.entry.detail


def test_a_tick_coalesced_into_what_is_no_tick_is_unexplained(world: World) -> None:
    job = world.create("*/5 * * * *")
    world.now = NOON + 21 * MINUTE
    world.dispatch()
    spoil("UPDATE misfires SET into_scheduled_for = %s", NOON + 19 * MINUTE)
    assert kinds(world.verify()[1]) == [("unexplained", NOON + 5 * MINUTE)]
    assert ticks(job) == [NOON + 20 * MINUTE]


def test_a_job_that_stopped_advancing_has_missing_ticks(world: World) -> None:
    job = world.create("* * * * *")
    spoil("UPDATE job_next SET next_run_at = NULL WHERE job_id = %s", job.job_id)
    world.run_until(NOON + 3 * MINUTE, MINUTE)
    assert kinds(world.verify()[1]) == [("missing", NOON + MINUTE * n) for n in (1, 2, 3)]


def test_a_version_whose_zone_is_gone_is_named_once(world: World) -> None:
    job = world.create("0 * * * *", timezone="Europe/Berlin")
    world.run_until(NOON + 2 * HOUR, HOUR)
    spoil(
        "UPDATE job_versions"
        " SET definition = jsonb_set(definition, '{timezone}', '\"Mars/Olympus\"')"
    )
    (problem,) = world.verify()[1]
    assert problem.entry.fate == Fate.UNEXPLAINED
    assert "Mars/Olympus" in problem.entry.detail
    assert world.fates(job) == {"run": 2}


def test_digests_and_the_closer_look_agree(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for schedule in ("* * * * *", "H * * * *", {"everySec": 7}, {"runAt": "2026-03-04T12:05:00Z"}):
        world.create(schedule)
        world.create(schedule, timezone="Asia/Kathmandu")
    paused = world.create("*/2 * * * *")
    world.run_until(NOON + 5 * MINUTE, MINUTE)
    world.pause(paused)
    world.run_until(TEN_PAST, MINUTE)
    by_digest, problems = world.verify()
    monkeypatch.setattr(verify, "plain_ticks", lambda history, span: None)
    by_tick, others = world.verify()
    assert problems == others == []
    assert by_digest == by_tick
    assert by_digest.expected > 190


def test_pages_and_batches_leave_nothing_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [world.create("* * * * *") for _ in range(7)]
    world.run_until(TEN_PAST, MINUTE)
    monkeypatch.setattr(verify, "PAGE_JOBS", 3)
    monkeypatch.setattr(verify, "BATCH_TICKS", 15)
    for job in jobs:
        delete_run(job, TEN_PAST)
    tally, problems = world.verify()
    assert (tally.jobs, tally.expected, tally.missing) == (7, 70, 7)
    assert {problem.job.job_id for problem in problems} == {job.job_id for job in jobs}


def test_a_ledger_page_reaches_past_runs_that_no_version_explains(world: World) -> None:
    job = world.create("0 * * * *")
    for n in range(20):
        support.queued(job, NOON + MINUTE * (n + 1))
    world.run_until(NOON + 2 * HOUR, HOUR)
    assert world.fates(job) == {"unexplained": 20, "run": 2}


def test_spans_end_at_midnights() -> None:
    spans = list(verify.days_of(NOON, NOON + DAY + HOUR))
    midnight = datetime(2026, 3, 5, tzinfo=UTC)
    assert spans == [
        Span(NOON - INSTANT, midnight - INSTANT),
        Span(midnight - INSTANT, NOON + DAY + HOUR - INSTANT),
    ]


# --- the command ----------------------------------------------------------------------------


def command(*options: str) -> tuple[str, int]:
    out = io.StringIO()
    code = 0
    try:
        call_command("verify_ticks", *options, stdout=out)
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    return out.getvalue(), code


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose clock is the database's, five minutes on."""
    start = (db_now() - 6 * MINUTE).replace(second=0, microsecond=0)
    return World(monkeypatch, start)


def test_the_command_is_silent_but_for_the_sum_when_all_is_well(live: World) -> None:
    live.create("* * * * *")
    live.run_until(live.start + 5 * MINUTE, MINUTE)
    printed, code = command("--to", (live.start + 5 * MINUTE + SECOND).isoformat())
    assert code == 0
    assert printed.count("\n") == 1
    assert "1 jobs, 5 ticks" in printed
    assert "0 missing, 0 duplicate, 0 unexplained" in printed
    assert "100 % complete" in printed


def test_the_command_names_what_is_wrong_and_exits_1(live: World) -> None:
    job = live.create("* * * * *", name="nightly")
    live.run_until(live.start + 5 * MINUTE, MINUTE)
    missing = live.start + 2 * MINUTE
    delete_run(job, missing)
    span = ["--from", live.start.isoformat(), "--to", (live.now + SECOND).isoformat()]
    printed, code = command(*span)
    assert code == 1
    assert f"missing     {missing:%Y-%m-%dT%H:%M:%SZ}  job {job.job_id} (nightly)" in printed
    printed, code = command(*span, "--json", "--job", str(job.job_id), "--team", "data")
    assert code == 1
    told = json.loads(printed)
    assert told["isClean"] is False
    assert told["counts"] == {
        "jobs": 1,
        "expected": 5,
        "found": 4,
        "due": 0,
        "missing": 1,
        "duplicate": 0,
        "unexplained": 0,
    }
    assert told["missing"][0]["jobId"] == str(job.job_id)
    assert told["missing"][0]["tick"] == f"{missing:%Y-%m-%dT%H:%M:%S.000000Z}"


def test_the_command_looks_only_where_it_is_told_to(live: World) -> None:
    job, other = live.create("* * * * *"), live.create("* * * * *")
    live.run_until(live.start + 5 * MINUTE, MINUTE)
    delete_run(job, live.start + 2 * MINUTE)
    support.team("others")
    to = ["--to", (live.now + SECOND).isoformat()]
    assert command(*to, "--job", str(other.job_id))[1] == 0
    assert command(*to, "--team", "others")[1] == 0
    assert command(*to, "--from", (live.start + 3 * MINUTE).isoformat())[1] == 0
    assert command(*to)[1] == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--from", "yesterday"], "--from 'yesterday'"),
        (["--to", "2026-03-04T12:00:00"], "--to '2026-03-04T12:00:00'"),
        (["--from", "9000-01-01T00:00:00Z"], "--from 9000"),
        (["--job", "x"], "--job 'x'"),
        (["--job", str(uuid.UUID(int=5))], "--job 00000000"),
        (["--team", "nobody"], "--team 'nobody'"),
    ],
)
def test_bad_usage_is_named_and_exits_2(options: list[str], named: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("verify_ticks", *options)
    assert refused.value.returncode == 2
    assert str(refused.value).startswith(named)


# --- the nightly check ----------------------------------------------------------------------


TODAY = datetime(2026, 3, 9, tzinfo=UTC)


def it_is(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    monkeypatch.setattr(sweep, "db_now", lambda: now)


@pytest.fixture
def yesterday(monkeypatch: pytest.MonkeyPatch) -> World:
    today = TODAY
    it_is(monkeypatch, TODAY + HOUR)
    world = World(monkeypatch, today - DAY - HOUR)
    world.create("*/30 * * * *", misfireGraceSec=86_400)
    world.run_until(today, 10 * HOUR)
    return world


def test_yesterday_is_verified_once_and_its_completeness_is_kept(yesterday: World) -> None:
    assert sweep.verify_last_day() == 1
    check = TickCheck.objects.get()
    assert check.day == date(2026, 3, 8)
    assert check.finished_at is not None
    assert (check.jobs, check.expected, check.found, check.percentage) == (1, 48, 48, 100.0)
    assert not Alert.objects.exists()
    assert sweep.verify_last_day() == 0
    assert TickCheck.objects.count() == 1


def test_a_day_that_is_not_whole_is_told(yesterday: World) -> None:
    (job,) = Job.objects.all()
    delete_run(job, Run.objects.latest("scheduled_for").scheduled_for - HOUR)
    sweep.verify_last_day()
    check = TickCheck.objects.get()
    assert (check.missing, check.percentage) == (1, 100.0 * 47 / 48)
    alert = Alert.objects.get()
    assert alert.kind == "ticks_incomplete"
    assert "1 missing" in alert.message


def test_a_long_check_goes_on_where_it_stopped(
    yesterday: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        yesterday.create("0 0 1 1 *")
    monkeypatch.setattr(verify, "PAGE_JOBS", 2)
    monkeypatch.setattr(sweep, "SLICE_SEC", 0.0)
    assert [sweep.verify_last_day() for _ in range(2)] == [2, 2]
    assert TickCheck.objects.get().finished_at is None
    assert sweep.verify_last_day() == 0
    check = TickCheck.objects.get()
    assert check.finished_at is not None
    assert (check.jobs, check.expected, check.percentage) == (4, 48, 100.0)


def test_days_that_maintenance_missed_are_made_up_for(yesterday: World) -> None:
    TickCheck.objects.create(day=date(2026, 3, 5), finished_at=TODAY)
    for _ in range(5):
        sweep.verify_last_day()
    days = TickCheck.objects.filter(finished_at__isnull=False).order_by("day")
    assert [day.day for day in days.values_list("day", flat=True)] == [5, 6, 7, 8]


def test_a_long_stop_of_maintenance_leaves_older_days_out(yesterday: World) -> None:
    TickCheck.objects.create(day=date(2020, 1, 1), finished_at=TODAY)
    sweep.verify_last_day()
    assert TickCheck.objects.latest("day").day == date(2026, 3, 2)


def test_a_day_is_verified_once_its_last_ticks_can_have_been_dispatched(
    yesterday: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    TickCheck.objects.create(day=date(2026, 3, 7), finished_at=TODAY)
    it_is(monkeypatch, TODAY + MINUTE)
    sweep.verify_last_day()
    assert TickCheck.objects.count() == 1
    it_is(monkeypatch, TODAY + 11 * MINUTE)
    sweep.verify_last_day()
    assert TickCheck.objects.count() == 2
