"""What becomes of due ticks, under each policy."""

import random
from datetime import UTC, datetime, timedelta
from time import process_time

import pytest

from jobs.misfire import Fire, MisfireDecision, MisfirePolicy, SkippedRange, decide
from jobs.schedule import Schedule

POLICIES: tuple[MisfirePolicy, ...] = ("run_once", "run_all", "skip")
MINUTELY = Schedule(cron="* * * * *")


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-02T{text}").replace(tzinfo=UTC)


def decided(
    policy: MisfirePolicy,
    first: str,
    now: str,
    *,
    schedule: Schedule = MINUTELY,
    grace_sec: int = 60,
    max_catchup: int = 100,
    floor: str | None = None,
    limit: int = 5_000,
) -> MisfireDecision:
    return decide(
        schedule,
        at(first),
        at(now),
        policy=policy,
        grace_sec=grace_sec,
        max_catchup=max_catchup,
        floor=None if floor is None else at(floor),
        limit=limit,
    )


# Dispatchers down from 09:00:30 to 12:00:30, a minutely job: the worked example of the design.


def test_example_run_once() -> None:
    assert decided("run_once", "09:01", "12:00:30") == MisfireDecision(
        fires=(Fire(at("12:00"), is_catch_up=False),),
        skipped=(SkippedRange(at("09:01"), at("11:59"), 179, "coalesced", at("12:00")),),
        next_run_at=at("12:01"),
    )


def test_example_run_all() -> None:
    decision = decided("run_all", "09:01", "12:00:30")
    late = tuple(Fire(at("10:20") + timedelta(minutes=n), is_catch_up=True) for n in range(100))
    assert decision == MisfireDecision(
        fires=(*late, Fire(at("12:00"), is_catch_up=False)),
        skipped=(SkippedRange(at("09:01"), at("10:19"), 79, "capped", None),),
        next_run_at=at("12:01"),
    )
    assert late[-1].tick == at("11:59")


def test_example_skip() -> None:
    assert decided("skip", "09:01", "12:00:30") == MisfireDecision(
        fires=(Fire(at("12:00"), is_catch_up=False),),
        skipped=(SkippedRange(at("09:01"), at("11:59"), 179, "skipped", None),),
        next_run_at=at("12:01"),
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_a_tick_on_time_is_ordinary_under_every_policy(policy: MisfirePolicy) -> None:
    assert decided(policy, "12:00", "12:00:00.004") == MisfireDecision(
        (Fire(at("12:00"), is_catch_up=False),), (), at("12:01")
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_a_tick_as_late_as_the_grace_is_still_ordinary(policy: MisfirePolicy) -> None:
    hourly = Schedule(cron="0 * * * *")
    decision = decided(policy, "12:00", "12:01:00", schedule=hourly)
    assert decision.fires == (Fire(at("12:00"), is_catch_up=False),)
    assert decision.skipped == ()


def test_just_past_the_grace_it_is_a_misfire() -> None:
    hourly = Schedule(cron="0 * * * *")
    once = decided("run_once", "12:00", "12:01:00.001", schedule=hourly)
    assert (once.fires, once.skipped) == ((Fire(at("12:00"), is_catch_up=False),), ())
    every = decided("run_all", "12:00", "12:01:00.001", schedule=hourly)
    assert (every.fires, every.skipped) == ((Fire(at("12:00"), is_catch_up=True),), ())
    none = decided("skip", "12:00", "12:01:00.001", schedule=hourly)
    assert none.fires == ()
    assert none.skipped == (SkippedRange(at("12:00"), at("12:00"), 1, "skipped", None),)
    assert {once.next_run_at, every.next_run_at, none.next_run_at} == {at("13:00")}


def test_run_once_takes_the_latest_missed_tick_if_none_is_within_grace() -> None:
    hourly = Schedule(cron="0 * * * *")
    assert decided("run_once", "09:00", "11:30", schedule=hourly) == MisfireDecision(
        fires=(Fire(at("11:00"), is_catch_up=False),),
        skipped=(SkippedRange(at("09:00"), at("10:00"), 2, "coalesced", at("11:00")),),
        next_run_at=at("12:00"),
    )


def test_run_once_coalesces_into_the_first_of_several_within_grace() -> None:
    decision = decided("run_once", "09:01", "12:00:30", grace_sec=300)
    assert [fire.tick for fire in decision.fires] == [
        at(f"{text}") for text in ("11:56", "11:57", "11:58", "11:59", "12:00")
    ]
    assert decision.skipped == (
        SkippedRange(at("09:01"), at("11:55"), 175, "coalesced", at("11:56")),
    )


def test_run_all_below_the_cap_skips_nothing() -> None:
    decision = decided("run_all", "11:58", "12:00:30")
    assert [(fire.tick, fire.is_catch_up) for fire in decision.fires] == [
        (at("11:58"), True),
        (at("11:59"), True),
        (at("12:00"), False),
    ]
    assert decision.skipped == ()


def test_run_all_with_no_catchup_caps_all_that_is_missed() -> None:
    decision = decided("run_all", "11:58", "12:00:30", max_catchup=0)
    assert [fire.tick for fire in decision.fires] == [at("12:00")]
    assert decision.skipped == (SkippedRange(at("11:58"), at("11:59"), 2, "capped", None),)


@pytest.mark.parametrize("policy", POLICIES)
def test_ticks_older_than_the_oldest_hot_day_are_capped(policy: MisfirePolicy) -> None:
    decision = decided(policy, "09:01", "12:00:30", floor="11:00")
    assert decision.skipped[0] == SkippedRange(at("09:01"), at("10:59"), 119, "capped", None)
    assert all(fire.tick >= at("11:00") for fire in decision.fires)
    rule = {"run_once": "coalesced", "skip": "skipped"}.get(policy)
    assert [(r.first, r.last, r.count, r.rule) for r in decision.skipped[1:]] == (
        [(at("11:00"), at("11:59"), 60, rule)] if rule else []
    )


def test_a_floor_above_everything_leaves_no_run() -> None:
    hourly = Schedule(cron="0 * * * *")
    decision = decided("run_once", "09:00", "11:30", schedule=hourly, floor="11:15")
    assert decision == MisfireDecision(
        (), (SkippedRange(at("09:00"), at("11:00"), 3, "capped", None),), at("12:00")
    )


def test_what_is_not_due_is_left_alone() -> None:
    assert decided("run_all", "12:01", "12:00:30") == MisfireDecision((), (), at("12:01"))
    assert decided("run_all", "12:01", "12:00:30", schedule=Schedule()) == MisfireDecision(
        (), (), None
    )


def test_a_next_run_at_that_is_no_tick_never_becomes_a_run() -> None:
    hourly = Schedule(cron="0 * * * *")
    decision = decided("run_all", "11:17:30.5", "12:00:05", schedule=hourly)
    assert [fire.tick for fire in decision.fires] == [at("12:00")]
    assert decided("run_all", "11:17", "11:30", schedule=hourly).next_run_at == at("12:00")


def test_the_last_tick_leaves_no_next_one() -> None:
    once = Schedule(run_at=at("12:00"))
    assert decided("run_once", "12:00", "12:00:01", schedule=once).next_run_at is None
    late = decided("skip", "12:00", "13:00", schedule=once)
    assert (late.fires, late.next_run_at) == ((), None)


def test_more_than_the_limit_is_left_for_the_next_decision() -> None:
    first = decided("run_all", "11:00", "12:00:30", limit=10)
    assert [fire.tick for fire in first.fires] == [
        at("11:00") + timedelta(minutes=n) for n in range(10)
    ]
    assert first.next_run_at == at("11:10")
    secondly = Schedule(cron="* * * * * *")
    within_grace = decided("skip", "12:00", "12:00:50", schedule=secondly, limit=20)
    assert len(within_grace.fires) == 20
    assert within_grace.next_run_at == at("12:00:20")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_secondly_job_down_for_years_is_decided_in_milliseconds(policy: MisfirePolicy) -> None:
    secondly = Schedule(cron="* * * * * *", timezone="Europe/Berlin")
    start = process_time()
    decision = decide(
        secondly,
        at("09:00"),
        at("12:00") + timedelta(days=1000),
        policy=policy,
        grace_sec=60,
        max_catchup=1000,
    )
    assert process_time() - start < 0.5
    missed = sum(found.count for found in decision.skipped)
    assert missed + len(decision.fires) == 1000 * 86_400 + 3 * 3600 + 1


def _ledger(decision: MisfireDecision, schedule: Schedule) -> list[datetime]:
    """Every tick that a decision accounts for."""
    ticks = [fire.tick for fire in decision.fires]
    for found in decision.skipped:
        covered = list(schedule.ticks(found.first - timedelta(seconds=1), found.last))
        assert len(covered) == found.count
        assert (covered[0], covered[-1]) == (found.first, found.last)
        ticks += covered
    return ticks


ZONES = (
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll"),
    *("Africa/Casablanca", "Europe/Dublin", "Atlantic/Azores", "America/Santiago"),
    *("Asia/Beirut", "Pacific/Chatham", "America/St_Johns", "UTC"),
)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", ["5 * * * *", "30 2 * * *", "0 0,1,2,3 * * *"])
def test_a_year_of_outages_accounts_for_every_tick_once(zone: str, cron: str) -> None:
    """Dispatchers that come and go at random, policies and knobs at random: nothing is lost."""
    rng = random.Random(f"{zone} {cron}")
    schedule = Schedule(cron=cron, timezone=zone)
    start, end = (datetime(year, 1, 1, tzinfo=UTC) for year in (2026, 2027))
    due, now, seen = schedule.next_after(start), start, list[datetime]()
    while now < end:
        now = min(end, now + timedelta(seconds=rng.choice([1, 30, 3_000, 40_000, 400_000])))
        while due is not None and due <= now:
            decision = decide(
                schedule,
                due,
                now,
                policy=rng.choice(POLICIES),
                grace_sec=rng.choice([0, 60, 7_200]),
                max_catchup=rng.choice([0, 3, 100]),
                floor=rng.choice([None, now - timedelta(days=2)]),
                limit=rng.choice([1, 7, 5_000]),
            )
            assert [fire.tick for fire in decision.fires] == sorted(
                fire.tick for fire in decision.fires
            )
            seen += _ledger(decision, schedule)
            due = decision.next_run_at
    assert sorted(seen) == list(schedule.ticks(start, end))
