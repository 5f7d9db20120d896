"""What Chrono promises while things break, by what the commands themselves wrote down.

`proxy`: workers cut off from PostgreSQL for longer than their lease; the first attempt is dead
before the second starts. `stop-postgres`: PostgreSQL is stopped at once and started again under
load. `rolling`: workers restarted one by one under half of the load that they can take. `limits`:
jobs triggered by many processes while workers are killed; never more at once than the limit.
`clock`: the database's clock is stepped by 90 s, ahead and back; nothing is reaped early. `broker`:
Valkey is away for a minute; limits fire on time.
Run as `python -m bench.faults <one of them>`; exits 1 when its promise is broken.
"""

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import fault_limits, fault_outages, fleet, harness
from bench.witness import Witness, account, is_single, witness
from chronoproject.embedded import EmbeddedPostgres, running
from tests.worker.proxy import Proxy, behind, proxy

Figures = dict[str, Any]
DONE_WITHIN_SEC = 300

LEASE_SEC = 6
CUT_WORKERS, CUT_CHILDREN = 5, 2
CUT_SEC = 12  # the second attempt starts about ten seconds after the cut, elsewhere
HANG = "[ $CHRONO_ATTEMPT != 1 ] || { trap '' TERM; while :; do say alive; sleep 0.25; done; }"

STOP_LOAD = 300
ROLLING_WORKERS, ROLLING_CHILDREN = 3, 4
LONG_ONE_OF = 50
FEED_EVERY_SEC = 0.2


# --- proxy ----------------------------------------------------------------------------------


def cut_off(options: argparse.Namespace) -> tuple[Figures, bool]:
    """Cut workers off, N in all, each with all its children busy."""
    rounds = -(-(options.times or 30) // CUT_WORKERS)
    with ExitStack() as stack:
        home = stack.enter_context(harness.servers(CHRONO_LEASE_SEC=str(LEASE_SEC)))
        seen = stack.enter_context(witness())
        running_fleet = stack.enter_context(fleet.fleet(home))
        running_fleet.dispatcher()
        proxies = [
            stack.enter_context(proxy(os.environ["DATABASE_URL"])) for _ in range(CUT_WORKERS)
        ]
        for number, one in enumerate(proxies):
            running_fleet.worker(
                f"cut-{number}",
                concurrency=CUT_CHILDREN,
                pool="cut",
                DATABASE_URL=behind(os.environ["DATABASE_URL"], one),
            )
        running_fleet.worker("elsewhere", concurrency=4, pool="elsewhere")
        running_fleet.wait_ready()
        job = fleet.make_job(name="hangs", pool="cut", command=seen.command(HANG))
        for number in range(rounds):
            one_cut(seen, job, proxies, is_frozen=number % 2 == 1)
        return verdict_of_cuts(seen, rounds)


def one_cut(seen: Witness, job: Any, proxies: list[Proxy], *, is_frozen: bool) -> None:  # noqa: ANN401
    """Cut all workers off (or let nothing through either way), and heal."""
    count = CUT_WORKERS * CUT_CHILDREN
    before = seen.count("start")
    fleet.queue_runs([job], count)
    fleet.wait_until(lambda: seen.count("start") == before + count, 60)
    # So that the second attempt starts while the first one's worker is still cut off.
    harness.execute("UPDATE runs SET pool = 'elsewhere' WHERE status = 'running'")
    for one in proxies:
        one.freeze() if is_frozen else one.cut()
    time.sleep(CUT_SEC)
    for one in proxies:
        one.heal()
    fleet.wait_until(lambda: not fleet.unfinished(), 60)


def verdict_of_cuts(seen: Witness, rounds: int) -> tuple[Figures, bool]:
    """Compare each first attempt's last sign of life with the second's start."""
    count = rounds * CUT_WORKERS * CUT_CHILDREN
    last: dict[str, float] = {}
    second: dict[str, float] = {}
    for line in seen.lines():
        if line.word == "alive":
            last[line.run_id] = line.at
        elif line.word == "start" and line.attempt == 2:
            second[line.run_id] = line.at
    margins = [second[run_id] - at for run_id, at in last.items() if run_id in second]
    found = account(seen, count)
    figures = {
        "cuts": rounds * CUT_WORKERS,
        "lease_sec": LEASE_SEC,
        "cut_sec": CUT_SEC,
        "dead_before_next_start_sec": harness.spread(margins),
        **found,
    }
    is_kept = (
        found["by_status"] == {"succeeded": count}
        and found["attempts"] == {"worker_lost": count}
        and len(margins) == count
        and not found["overlaps"]
        and not found["retries_used"]
        and min(margins) > 0
    )
    return figures, is_kept


# --- stop-postgres --------------------------------------------------------------------------


def stop_postgres(options: argparse.Namespace) -> tuple[Figures, bool]:
    """Stop PostgreSQL with no word to anyone, and start it again, amid short commands."""
    times, draw, queued = options.times or 20, random.Random(options.seed), 0
    with ExitStack() as stack:
        home = stack.enter_context(harness.servers())
        seen = stack.enter_context(witness())
        running_fleet = stack.enter_context(fleet.fleet(home))
        running_fleet.dispatcher()
        running_fleet.worker("bench", concurrency=4)
        running_fleet.wait_ready()
        job = fleet.make_job(name="short", command=seen.command("sleep 0.02"))
        for _ in range(times):
            queued += len(fleet.queue_runs([job], STOP_LOAD))
            time.sleep(draw.uniform(0.1, 1.2))
            restart_postgres(home, stack, draw.uniform(0, 2))
            time.sleep(draw.uniform(0.1, 1.5))
        fleet.wait_until(lambda: not fleet.unfinished(), DONE_WITHIN_SEC)
        lived = all(one.process.poll() is None for one in running_fleet.workers.values())
        found = account(seen, queued)
    return {"stops": times, **found, "worker_lived": lived}, is_single(found) and lived


def restart_postgres(home: Path, stack: ExitStack, away_sec: float) -> None:
    """Stop it in its immediate mode; start it on the same data after a while."""
    from django.db import connection

    server = EmbeddedPostgres(home / "postgres")
    lines = (server.data / "postmaster.pid").read_text().splitlines()
    os.kill(int(lines[0]), signal.SIGQUIT)
    connection.close()
    fleet.wait_until(lambda: not server.holders(), 30)
    time.sleep(away_sec)
    log = stack.enter_context((home / "servers.log").open("ab"))
    stack.enter_context(running(server, log))


# --- rolling --------------------------------------------------------------------------------


class Feeder:
    """Queues runs at a steady rate from a thread of its own."""

    def __init__(self, feed: Callable[[int], int], per_sec: float) -> None:
        """Start with `per_sec` runs a second."""
        self.fed = 0
        self._feed = feed
        self._per_sec = per_sec
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from django.db import connection

        began = time.monotonic()
        while not self._stop.wait(FEED_EVERY_SEC):
            owed = int((time.monotonic() - began) * self._per_sec) - self.fed
            self.fed += self._feed(owed) if owed > 0 else 0
        connection.close()

    def stop(self) -> int:
        """End it; return how many were queued."""
        self._stop.set()
        self._thread.join(30)
        return self.fed


def rolling(options: argparse.Namespace) -> tuple[Figures, bool]:
    """Restart each worker in turn, several times over, at half of the rate measured before."""
    turns = options.times or 3
    with ExitStack() as stack:
        home = stack.enter_context(harness.servers())
        seen = stack.enter_context(witness())
        running_fleet = stack.enter_context(fleet.fleet(home))
        running_fleet.dispatcher()
        names = [f"bench-{number}" for number in range(ROLLING_WORKERS)]
        for name in names:
            running_fleet.worker(name, concurrency=ROLLING_CHILDREN)
        running_fleet.wait_ready()
        short = fleet.make_job(name="short", command=seen.command(":"), retries=2)
        long = fleet.make_job(name="long", command=seen.command("sleep 1"), retries=2)
        jobs = [short] * (LONG_ONE_OF - 1) + [long]
        count = options.count or 2000
        rate = command_rate(jobs, count)
        feeder = Feeder(lambda owed: len(fleet.queue_runs(jobs, owed)), rate / 2)
        codes = [restart(running_fleet, name) for _ in range(turns) for name in names]
        fed = feeder.stop()
        fleet.wait_until(lambda: not fleet.unfinished(), DONE_WITHIN_SEC)
        found = account(seen, count + fed)
    figures = {"restarts": len(codes), "full_rate_per_sec": round(rate), "exit_codes": codes}
    return {**figures, **found}, is_single(found) and not any(codes)


def command_rate(jobs: list[Any], count: int) -> float:
    """Return how many of these commands end a second when they are all there at once."""
    fleet.queue_runs(jobs, count)
    return count / fleet.wait_until(lambda: not fleet.unfinished(), DONE_WITHIN_SEC)


def restart(running_fleet: fleet.Fleet, name: str) -> int:
    """Let a worker drain and start its successor; return its exit code."""
    code = running_fleet.workers[name].stop()
    running_fleet.worker(name, concurrency=ROLLING_CHILDREN)
    running_fleet.wait_ready()
    return code


FAULTS: dict[str, Callable[[argparse.Namespace], tuple[Figures, bool]]] = {
    "proxy": cut_off,
    "stop-postgres": stop_postgres,
    "rolling": rolling,
    "limits": fault_limits.limits,
    "clock": fault_outages.clock,
    "broker": fault_outages.broker,
}


def main() -> int:
    """Break things."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=list(FAULTS))
    parser.add_argument("--times", type=int, help="how many cuts, stops, turns, or steps")
    parser.add_argument("--count", type=int, help="how many runs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    figures, is_kept = FAULTS[options.fault](options)
    harness.show({"fault": options.fault, "is_kept": is_kept, **figures})
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
