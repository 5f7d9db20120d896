"""Jobs at their limits while workers die: the `limits` of bench.faults."""

import argparse
import multiprocessing
import os
import random
import signal
import time
import uuid
from collections import defaultdict
from contextlib import ExitStack
from typing import Any

from bench import fleet, harness
from bench.witness import Witness, account, witness

LEASE_SEC = 6
WORKERS, CHILDREN = 3, 4
TRIGGERS = 8  # processes
JOBS_BY_LIMIT = {1: 4, 5: 2}
KILL_EVERY_SEC = (2.0, 5.0)
KILLS_FOR_SEC = 120
NAPS_SEC = ("0.02", "0.02", "0.5")  # the longer ones are what a kill hits
MAIN_ONE_IN = 2  # the other kills are of pool children
FINISHED_WITHIN_SEC = 300


def limits(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Trigger amid kills; then see whether every limit can still be used in full."""
    count, draw = options.count or 2000, random.Random(options.seed)
    with ExitStack() as stack:
        home = stack.enter_context(harness.servers(CHRONO_LEASE_SEC=str(LEASE_SEC)))
        seen = stack.enter_context(witness())
        running = stack.enter_context(fleet.fleet(home))
        running.dispatcher()
        for number in range(WORKERS):
            running.worker(f"bench-{number}", concurrency=CHILDREN)
        running.wait_ready()
        jobs = make_jobs(seen)
        began = time.monotonic()
        with triggers([job.job_id for job in jobs.values()], count):
            kills = kill_workers(running, draw, count, began + KILLS_FOR_SEC)
        fleet.wait_until(lambda: not fleet.unfinished(), FINISHED_WITHIN_SEC, 0.5)
        took = time.monotonic() - began
        running.wait_ready()
        found = account(seen, count)
        full = use_in_full(seen, jobs)
        over = seen.count("over")
    figures = {
        "kills": kills,
        "seconds": round(took),
        "over_the_limit": over,
        **found,
        "full": full,
    }
    is_kept = (
        all(kills.values())
        and not (over or found["overlaps"] or found["retries_used"] or found["not_executed"])
        and found["by_status"] == {"succeeded": count}
        and all(full.values())
    )
    return figures, is_kept


def make_jobs(seen: Witness) -> dict[str, Any]:
    """Register the jobs, named by their limit and number."""
    made = {}
    for limit, number in [(limit, n) for limit, many in JOBS_BY_LIMIT.items() for n in range(many)]:
        name = f"limit-{limit}-{number}"
        text = seen.command("sleep ${NAP:-0.02}", name=name, limit=limit)
        made[name] = fleet.make_job(name=name, command=text, maxConcurrency=limit)
    return made


class triggers:  # noqa: N801 - a context manager
    """Processes that trigger these jobs at random, `count` times in all."""

    def __init__(self, job_ids: list[uuid.UUID], count: int) -> None:
        """Prepare them."""
        spawn = multiprocessing.get_context("spawn")
        shares = [count // TRIGGERS + (n < count % TRIGGERS) for n in range(TRIGGERS)]
        self.processes = [
            spawn.Process(target=trigger, args=(job_ids, share, n))
            for n, share in enumerate(shares)
        ]

    def __enter__(self) -> None:
        """Start them."""
        for one in self.processes:
            one.start()

    def __exit__(self, *_: object) -> None:
        """Wait for their end."""
        for one in self.processes:
            one.join(FINISHED_WITHIN_SEC)
            assert one.exitcode == 0, f"a trigger ended with {one.exitcode}"


def trigger(job_ids: list[uuid.UUID], count: int, seed: int) -> None:
    """Trigger jobs at random, at a pace that lasts through the kills."""
    harness.set_up_django(migrate=False)
    from jobs.models import Job
    from runs.services import run_trigger

    draw = random.Random(seed)
    jobs = list(Job.objects.filter(job_id__in=job_ids))
    for _ in range(count):
        nap = {"NAP": draw.choice(NAPS_SEC)}
        run_trigger(draw.choice(jobs), actor="bench", payload={"env": nap})
        time.sleep(draw.uniform(0, 0.4))


def kill_workers(
    running: fleet.Fleet, draw: random.Random, count: int, until: float
) -> dict[str, int]:
    """Kill a worker or a pool child now and then, until so many runs or the instant has come."""
    done = {"workers": 0, "pool_children": 0}
    fleet.wait_until(lambda: harness.execute("SELECT 1 FROM runs LIMIT 1"), 60)
    while time.monotonic() < until and recorded() < count:
        name = draw.choice(list(running.workers))
        victim = running.workers[name]
        children = pool_children(victim.pid)
        if draw.randrange(MAIN_ONE_IN) == 0:
            victim.stop(signal.SIGKILL)
            running.worker(name, concurrency=CHILDREN)
            done["workers"] += 1
        elif children:
            os.kill(draw.choice(children), signal.SIGKILL)
            done["pool_children"] += 1
        time.sleep(draw.uniform(*KILL_EVERY_SEC))
    return done


def recorded() -> int:
    """Return how many runs there are."""
    return int(harness.execute("SELECT count(*) FROM runs")[0][0])


def pool_children(main: int) -> list[int]:
    """Return the pool children of a worker."""
    from runs.executors import proctree
    from runs.reclaim import is_shim

    below = proctree.descendants(main)
    return [one.pid for one in below if one.parent == main and not is_shim(one.pid)]


def use_in_full(seen: Witness, jobs: dict[str, Any]) -> dict[str, bool]:
    """Trigger more than fits at once of each job; say whether its last place was taken."""
    from runs.services import run_trigger

    names: dict[str, str] = {}
    for name, job in jobs.items():
        for _ in range(2 * int(name.split("-")[1])):
            run = run_trigger(job, actor="bench", payload={"env": {"NAP": "1"}})
            names[str(run.run_id)] = name
    fleet.wait_until(lambda: not fleet.unfinished(), FINISHED_WITHIN_SEC, 0.5)
    taken: dict[str, int] = defaultdict(int)
    for line in seen.lines():
        if line.word == "start" and line.run_id in names:
            taken[names[line.run_id]] = max(taken[names[line.run_id]], line.slot)
    return {name: taken[name] == int(name.split("-")[1]) for name in jobs}
