"""Dispatcher replicas on shards: two against one, and four of them killed and paused at random.

Run as `python -m bench.replicas`; exits 1 when a tick is missing or double, or a take-over is late.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import harness

ROOT = Path(__file__).parent.parent
LEASE_SEC = 5
SHARDS = 16
EVERY_SEC = 5  # a burst each so many seconds


@dataclass
class Fleet:
    """Dispatcher processes of our own, by number."""

    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    log: Any = field(default_factory=tempfile.TemporaryFile)

    def start(self, number: int) -> None:
        """Start the replica of that number."""
        self.processes[number] = subprocess.Popen(
            [sys.executable, "manage.py", "dispatcher", "--name", f"d{number}"],
            cwd=ROOT,
            env={**os.environ, "CHRONO_SHARDS": str(SHARDS)},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )

    def stop(self) -> None:
        """End all of them."""
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            process.wait(30)


@contextmanager
def fleet(count: int) -> Iterator[Fleet]:
    """Run so many replicas, their shards shared out."""
    made = Fleet()
    try:
        for number in range(count):
            made.start(number)
        wait_until(lambda: shares() == fair(count), 60)
        yield made
    finally:
        made.stop()


def shares() -> list[int]:
    """Return how many shards each living replica holds, fewest first."""
    rows = harness.execute(
        "SELECT count(*) FROM leases WHERE name LIKE 'shard/%%' AND lease_until > clock_timestamp()"
        " GROUP BY holder ORDER BY 1"
    )
    return [row[0] for row in rows]


def fair(replicas: int) -> list[int]:
    """Return the shares that should be."""
    each, rest = divmod(SHARDS, replicas)
    return [each] * (replicas - rest) + [each + 1] * rest


def wait_until(look: Any, within_sec: float, every_sec: float = 0.02) -> float:  # noqa: ANN401
    """Wait until `look` is true; return the seconds."""
    began = time.perf_counter()
    while not look():
        if time.perf_counter() - began > within_sec:
            raise AssertionError(f"not within {within_sec} s")
        time.sleep(every_sec)
    return time.perf_counter() - began


def burst_sec(replicas: int, due: int) -> float:
    """Return the seconds from due until all is recorded and published, with that many replicas."""
    from runs import publisher

    with fleet(replicas):
        publisher.client().flushdb()
        harness.execute("TRUNCATE runs")
        ((at,),) = harness.execute(
            "WITH soon AS (SELECT date_trunc('second', clock_timestamp()) + interval '3 s' AS at,"
            " (SELECT array_agg(job_id) FROM (SELECT job_id FROM jobs ORDER BY job_id LIMIT %s) j)"
            " AS ids), moved AS (UPDATE job_next SET next_run_at = soon.at FROM soon"
            " WHERE job_id = ANY(soon.ids)), written AS (UPDATE jobs SET"
            " schedule = to_char(soon.at AT TIME ZONE 'UTC', 'FMSS FMMI * * * *') FROM soon"
            " WHERE job_id = ANY(soon.ids)) SELECT at FROM soon",
            due,
        )
        harness.execute("VACUUM ANALYZE jobs")
        harness.execute("VACUUM ANALYZE job_next")
        wait_until(lambda: now() >= at, 10, 0.001)
        began = time.perf_counter()
        wait_until(lambda: not is_due(at), 60, 0.01)
        took = time.perf_counter() - began
    ((count, distinct),) = harness.execute("SELECT count(*), count(DISTINCT job_id) FROM runs")
    assert (count, distinct) == (due, due), (count, distinct)
    return took


def now() -> Any:  # noqa: ANN401 - an instant
    """Return the database's time."""
    return harness.execute("SELECT clock_timestamp()")[0][0]


def is_due(at: Any) -> bool:  # noqa: ANN401 - an instant
    """Say whether a job of that instant is left."""
    found = harness.execute(
        "SELECT EXISTS (SELECT FROM job_next WHERE next_run_at IS NOT NULL AND next_run_at <= %s)",
        at,
    )
    return bool(found[0][0])


def torment(living: Fleet, until: float, draw: random.Random) -> dict[str, int]:
    """Kill and pause replicas at random until the monotonic instant; one is always left alone."""
    done = {"kills": 0, "pauses": 0}
    paused: dict[int, float] = {}
    while time.monotonic() < until:
        time.sleep(draw.uniform(0.3, 1.5))
        for number in [one for one, end in paused.items() if time.monotonic() >= end]:
            living.processes[number].send_signal(signal.SIGCONT)
            del paused[number]
        victims = [number for number in living.processes if number not in paused]
        if len(victims) < 2:
            continue
        victim = draw.choice(victims)
        if draw.random() < 0.5:
            living.processes[victim].kill()
            living.processes[victim].wait()
            living.start(victim)
            done["kills"] += 1
        else:
            living.processes[victim].send_signal(signal.SIGSTOP)
            paused[victim] = time.monotonic() + draw.uniform(1, 2 * LEASE_SEC)
            done["pauses"] += 1
    for number in paused:
        living.processes[number].send_signal(signal.SIGCONT)
    return done


def chaos(jobs: int, bursts: int, seed: int) -> dict[str, Any]:
    """Let four replicas live through the bursts; compare what is recorded with what should be."""
    with fleet(4) as living:
        harness.execute("TRUNCATE runs")
        harness.execute(
            "WITH a AS (SELECT"
            " to_timestamp(%s * ceil(extract(epoch FROM clock_timestamp()) / %s + 1)) AS first),"
            " few AS (SELECT job_id FROM jobs ORDER BY job_id LIMIT %s),"
            " moved AS (UPDATE job_next n SET next_run_at = a.first"
            " FROM a, few WHERE n.job_id = few.job_id)"
            " UPDATE jobs j SET schedule = %s, timezone = 'UTC', starts_at = a.first,"
            " ends_at = a.first + make_interval(secs => %s)"
            " FROM a, few WHERE j.job_id = few.job_id",
            EVERY_SEC, EVERY_SEC, jobs, f"*/{EVERY_SEC} * * * * *", EVERY_SEC * (bursts - 1),
        )  # fmt: skip
        until = time.monotonic() + EVERY_SEC * (bursts + 2)
        done = torment(living, until, random.Random(seed))
        wait_until(lambda: not is_due(now()), 60)
    rows = harness.execute(
        "SELECT scheduled_for, count(*), count(DISTINCT job_id),"
        " extract(epoch FROM max(created_at) - scheduled_for)::float8"
        " FROM runs GROUP BY 1 ORDER BY 1"
    )
    ((misfired,),) = harness.execute("SELECT coalesce(sum(tick_count), 0)::int FROM misfires")
    return {
        **done,
        "bursts": len(rows),
        "expected": jobs * bursts,
        "recorded": sum(row[1] for row in rows),
        "twice": sum(row[1] - row[2] for row in rows),
        "missing": jobs * bursts - sum(row[2] for row in rows),
        "misfired": misfired,
        "longest_gap_sec": round(max(row[3] for row in rows), 2),
    }


def compare(due: int, rounds: int) -> dict[str, Any]:
    """Return one replica and two in turns, and how two fare against one."""
    one, two = [], []
    for _ in range(rounds):
        one.append(burst_sec(1, due))
        two.append(burst_sec(2, due))
    ratio = harness.spread(one)["median"] / harness.spread(two)["median"]
    return {
        "due": due,
        "one_sec": harness.spread(one),
        "two_sec": harness.spread(two),
        "two_against_one": round(ratio, 2),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--due", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=int, default=2000, help="jobs of a burst under torment")
    parser.add_argument("--bursts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with harness.servers(CHRONO_STATEMENT_TIMEOUT_SEC="300"):
        harness.make_jobs(options.jobs, ["0 * * * *"])
        figures = compare(options.due, options.rounds) if options.rounds else {}
        figures["torment"] = chaos(options.burst, options.bursts, options.seed)
        harness.show({"jobs": options.jobs, "shards": SHARDS, **figures})
    found = figures["torment"]
    is_whole = not (found["twice"] or found["missing"] or found["misfired"])
    return 0 if is_whole and found["longest_gap_sec"] <= LEASE_SEC + 1 else 1


if __name__ == "__main__":
    sys.exit(main())
