"""Dispatchers stopped for three hours: rows, misfires and verify_ticks agree, by each policy."""

from datetime import UTC, datetime

import pytest

from runs.ids import run_id_of
from runs.reconcile import Fate
from tests.integration.ledger.simulation import HOUR, MINUTE, SECOND, World, misfires, ticks

pytestmark = pytest.mark.django_db

NINE = datetime(2026, 3, 4, 9, tzinfo=UTC)
STOPPED = NINE + 30 * SECOND  # DESIGN §6: down from 09:00:30 to 12:00:30
STARTED = NINE + 3 * HOUR + 30 * SECOND
TWELVE = NINE + 3 * HOUR


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, NINE - 30 * MINUTE)


def minutes(first: datetime, last: datetime) -> list[datetime]:
    return [first + MINUTE * n for n in range((last - first) // MINUTE + 1)]


@pytest.mark.parametrize(
    ("policy", "cap", "runs_in_outage", "recorded"),
    [
        (
            "run_once",
            100,
            [TWELVE],
            [("coalesced", NINE + MINUTE, TWELVE - MINUTE, 179)],
        ),
        (
            "run_all",
            100,
            minutes(NINE + HOUR + 20 * MINUTE, TWELVE),
            [("capped", NINE + MINUTE, NINE + HOUR + 19 * MINUTE, 79)],
        ),
        ("run_all", 1000, minutes(NINE + MINUTE, TWELVE), []),
        ("run_all", 0, [TWELVE], [("capped", NINE + MINUTE, TWELVE - MINUTE, 179)]),
        ("skip", 100, [TWELVE], [("skipped", NINE + MINUTE, TWELVE - MINUTE, 179)]),
    ],
)
def test_a_minutely_job_after_three_hours_without_dispatchers(
    world: World, policy: str, cap: int, runs_in_outage: list[datetime], recorded: list[object]
) -> None:
    job = world.create("* * * * *", misfirePolicy=policy, maxCatchup=cap)
    world.run_until(STOPPED, 10 * SECOND)
    world.now = STARTED
    world.dispatch()
    assert ticks(job) == minutes(world.start + MINUTE, NINE) + runs_in_outage
    assert misfires(job) == recorded
    tally, problems = world.verify()
    assert problems == []
    assert (tally.expected, tally.found, tally.due) == (210, 210, 0)
    fates = world.fates(job)
    assert fates["run"] == 30 + len(runs_in_outage)
    assert sum(fates.values()) == 210


def test_a_tick_that_was_coalesced_names_the_run_it_went_into(world: World) -> None:
    job = world.create("* * * * *")
    world.now = STARTED
    world.dispatch()
    entries = world.entries(job)
    into = {entry.run_id for entry in entries if entry.fate == Fate.COALESCED}
    assert into == {run_id_of(job.job_id, TWELVE)}
    assert entries[-1].fate == Fate.RUN
    assert entries[-1].run_id == run_id_of(job.job_id, TWELVE)


def test_what_is_owed_is_due_not_missing(world: World) -> None:
    job = world.create("* * * * *")
    world.run_until(STOPPED, MINUTE)
    world.now = STARTED
    tally, problems = world.verify()
    assert problems == []
    assert (tally.expected, tally.due) == (30, 180)
    assert world.fates(job) == {"run": 30, "due": 180}


def test_late_ticks_of_a_second_outage_are_the_next_decision(world: World) -> None:
    job = world.create("*/5 * * * *", misfirePolicy="run_all", maxCatchup=3)
    for hours in (1, 2, 3):
        world.now = NINE + hours * HOUR + SECOND
        world.dispatch()
    assert world.verify()[1] == []
    assert world.fates(job) == {"run": 3 * 4, "capped": 42 - 3 * 4}
