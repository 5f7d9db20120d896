"""What a next tick costs: by itself, for 100,000 jobs, and for the worst that can be sent.

    python bench/schedules.py

prints JSON. croniter and cronsim run beside us, in the same process, on the same questions. Times
are of the processor (one core), so that a busy machine does not blur them much.
"""

import gc
import json
import platform
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from croniter import croniter
from cronsim import CronSim

from jobs.cron import (
    TZDATA_VERSION,
    InvalidSchedule,
    evaluator_for,
    fields,
    next_ticks,
    parse,
    second_opinion,
    ticks,
    zone_info,
)
from jobs.cron import evaluator as evaluator_module
from jobs.cron.ticks import to_seconds
from jobs.schedule import Schedule

NOW = datetime(2026, 3, 2, 11, 59, 30, tzinfo=UTC)
ZONE = "Europe/Berlin"
EXPRESSIONS = (
    *("* * * * *", "*/5 * * * *", "0 * * * *", "0 3 * * *", "30 9 * * 1-5", "15 2,14 * * *"),
    *("0 0 1 * *", "0 0 13 * 5", "0 0 */2 * *", "0 0 29 2 *"),
)
JOBS = 100_000
ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "Europe/London", "Asia/Kolkata", "Asia/Tokyo"),
    *("America/Los_Angeles", "Australia/Sydney", "America/Sao_Paulo", "Asia/Singapore"),
    *("Europe/Paris", "America/Chicago", "Asia/Shanghai", "Europe/Madrid", "Africa/Johannesburg"),
)
ZONE_WEIGHTS = (60, 8, 7, 4, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1)
HOSTILE = {
    "10,000 characters": "0,1" + ",2" * 5_000 + " * * * *",
    "as many terms as 1,000 characters hold": "0" + ",5" * 495 + " * * * *",
    "six long lists": " ".join(["1-9/2,3-9,*/7,5" + ",2" * 70] * 6),
    "140 steps": ",".join(["0-59/1"] * 140) + " * * * *",
    "90 hashes": ",".join(["H(0-59)/7"] * 90) + " * * * *",
    "31 nearest working days": "0 0 " + ",".join(f"{n}W" for n in range(1, 32)) + " * *",
    "a number of 990 digits": "1" * 990 + " * * * *",
    "never: 30 February": "0 0 30 2 *",
    "never, in all fourteen kinds of year": "0 0 */31 2,4,6,9,11 1#1,2#2,3#3",
    "leap days that are Mondays": "0 0 */28 2 1#5",
    "only times that New York skips each year": "* 2 * 3 SUN#2",
}


def main() -> None:
    report = {
        "machine": {"python": platform.python_version(), "tzdata": TZDATA_VERSION},
        "us_per_next_tick": single_ticks(),
        "hundred_thousand_jobs": many_jobs(),
        "hostile_ms": hostile(),
    }
    print(json.dumps(report, indent=2))


def single_ticks() -> dict[str, object]:
    """Median over the expressions, each the best of five rounds."""
    aware = NOW.astimezone(zone_info(ZONE))
    instants = [to_seconds(NOW) + 61 * n for n in range(400)]
    found: dict[str, list[float]] = {}
    for expression in EXPRESSIONS:
        ours = evaluator_for(expression, ZONE)
        schedule = Schedule(cron=expression, timezone=ZONE)
        built, simulated = croniter(expression, aware), CronSim(expression, aware)
        for name, ask in (
            ("chrono, everything anew", lambda n, e=expression: anew(e)),
            ("chrono, compiled", lambda n, e=ours: e.search(instants[n])),
            ("chrono, remembered", lambda n, s=schedule: s.next_after(NOW)),
            ("croniter, everything anew", lambda n, e=expression: croniter_next(e, aware)),
            ("croniter, built once", lambda n, c=built: c.get_next(datetime)),
            ("cronsim, everything anew", lambda n, e=expression: next(CronSim(e, aware))),
            ("cronsim, built once", lambda n, c=simulated: next(c)),
        ):
            found.setdefault(name, []).append(best_us(ask, 40 if "anew" in name else 300))
    return {
        name: {"median": round(median(costs), 1), "worst": round(max(costs), 1)}
        for name, costs in found.items()
    }


def croniter_next(expression: str, aware: datetime) -> datetime:
    found: datetime = croniter(expression, aware).get_next(datetime)
    return found


def anew(expression: str) -> None:
    forget()
    next_ticks(expression, ZONE, NOW, 1)


def forget() -> None:
    """Drop what is shared, apart from the zones."""
    for cached in (
        fields.read_field,
        parse._read_dates,
        parse.compile_expression,
        parse.needs_hash,
        ticks._evaluator,
        evaluator_module._remembered,
    ):
        cached.cache_clear()


def best_us(ask: Callable[[int], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(5):
        start = process_time()
        for n in range(rounds):
            ask(n)
        best = min(best, (process_time() - start) / rounds * 1e6)
    return best


def many_jobs() -> dict[str, object]:
    """100,000 schedules made and asked, as a dispatcher does with rows of the jobs table."""
    rows = mix(random.Random(7))
    forget()
    gc.collect()
    cold = ask_all(rows, NOW)
    warm = ask_all(rows, NOW + timedelta(days=1, minutes=1))
    again = ask_all(rows, NOW + timedelta(days=1, minutes=1))
    sample = rows[:: JOBS // 1_000]
    start = process_time()
    for expression, zone in sample:
        croniter_next(expression, NOW.astimezone(zone_info(zone)))
    peer = (process_time() - start) / len(sample) * JOBS
    return {
        "mix": "35 % of 24 popular ones, 40 % at a multiple of 5 minutes (daily, working days or "
        "one weekday), 15 % the same at any minute, 10 % monthly; 15 zones, 60 % of it UTC",
        "jobs": JOBS,
        "distinct_expressions": len({expression for expression, _ in rows}),
        "distinct_pairs": len(set(rows)),
        "sec_with_nothing_in_memory": round(cold, 2),
        "sec_compiled_at_another_instant": round(warm, 2),
        "sec_at_the_same_instant": round(again, 2),
        "sec_croniter_one_by_one_extrapolated": round(peer, 1),
    }


def ask_all(rows: list[tuple[str, str]], after: datetime) -> float:
    start = process_time()
    for expression, zone in rows:
        assert Schedule(cron=expression, timezone=zone).next_after(after) is not None
    return process_time() - start


def mix(rng: random.Random) -> list[tuple[str, str]]:
    popular = [
        *("0 0 * * *", "@hourly", "*/5 * * * *", "*/15 * * * *", "0 2 * * *", "* * * * *"),
        *("*/10 * * * *", "*/30 * * * *", "0 */6 * * *", "0 3 * * *", "30 2 * * *", "0 1 * * *"),
        *("0 6 * * *", "0 0 * * 0", "0 */2 * * *", "0 */4 * * *", "0 12 * * *", "15 * * * *"),
        *("30 * * * *", "0 0 1 * *", "0 9 * * 1-5", "0 4 * * SUN", "*/2 * * * *", "0 0 L * *"),
    ]
    rows = []
    for _ in range(JOBS):
        kind, hour = rng.random(), rng.randrange(24)
        if kind < 0.35:
            expression = rng.choice(popular)
        elif kind < 0.75:
            expression = f"{rng.randrange(0, 60, 5)} {hour} * * {weekdays(rng)}"
        elif kind < 0.90:
            expression = f"{rng.randrange(60)} {hour % 8} * * {weekdays(rng)}"
        else:
            expression = f"0 {hour % 8} {rng.randint(1, 28)} * *"
        rows.append((expression, rng.choices(ZONES, ZONE_WEIGHTS)[0]))
    return rows


def weekdays(rng: random.Random) -> str:
    return rng.choices(["*", "1-5", str(rng.randrange(7))], [6, 3, 1])[0]


def hostile() -> dict[str, object]:
    """From the text to ticks or a refusal, with croniter's second opinion, nothing remembered."""
    costs = {name: best_us(partial(attack, text), 3) / 1e3 for name, text in HOSTILE.items()}
    worst = max(costs, key=costs.__getitem__)
    return {
        "worst": {"what": worst, "ms": round(costs[worst], 2)},
        "each": {name: round(cost, 3) for name, cost in costs.items()},
    }


def attack(expression: str, _: int) -> None:
    forget()
    second_opinion._check.cache_clear()
    try:
        next_ticks(expression, "America/New_York", NOW, 5, hash_id="job")
        second_opinion.check_second_opinion(expression, "job")
    except InvalidSchedule:
        return


if __name__ == "__main__":
    main()
