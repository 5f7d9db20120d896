"""Runs a second, end to end, beside Celery and Procrastinate on the same two servers.

Chrono's runs are recorded and published while its worker idles; time counts from just before the
first is recorded to the last one's finish, each claimed, leased and finished in PostgreSQL. The
queue of a peer is filled beforehand, and time counts from its first execution: its best case.
`alone` is Chrono so too, with one run a message, as runs are published that come one by one. The
slow ones get fewer runs: rates are compared.

Run as `python -m bench.throughput`; exits 1 when a ratio misses its target.
"""

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import redis

from bench import cpu, fleet, harness
from bench.peers import environment
from chronoproject.embedded import EmbeddedPostgres

PROCESSES = 4
WARM_UP = 200  # until each pool child has its connection and its shim
ALONE_AT_ONCE = 100  # few enough that each gets a message of its own
WITHIN_SEC = 300
TARGETS: dict[str, dict[str, float | None]] = {  # Chrono's rate against a peer's
    "tasks": {"celery": 0.6, "celery-results": 4.0, "procrastinate": None},
    "commands": {"celery-command": 0.6},
}


def chrono(home: Path, job: Any, count: int) -> dict[str, float]:  # noqa: ANN401
    """Record and publish runs at once while a worker idles, and let it execute them."""
    with fleet.fleet(home) as running:
        worker = running.worker("bench", concurrency=PROCESSES)
        running.wait_ready()
        fleet.queue_runs([job], WARM_UP)
        fleet.wait_until(lambda: not fleet.unfinished(), WITHIN_SEC)
        harness.execute("VACUUM ANALYZE runs")
        before = spent(home, worker.pid)
        ((began,),) = harness.execute("SELECT clock_timestamp()")
        fleet.queue_runs([job], count)
        fleet.wait_until(lambda: not fleet.unfinished(), WITHIN_SEC, 0.1)
        after = spent(home, worker.pid)
    return {"per_sec": count / seconds_since(began, began, count), **cost(before, after, count)}


def alone(home: Path, job: Any, count: int) -> dict[str, float]:  # noqa: ANN401
    """Execute runs that each have a message of their own, published before the worker starts."""
    ((began,),) = harness.execute("SELECT clock_timestamp()")
    for start in range(0, count, ALONE_AT_ONCE):
        fleet.queue_runs([job], min(ALONE_AT_ONCE, count - start))
    harness.execute("VACUUM ANALYZE runs")
    with fleet.fleet(home) as running:
        worker = running.worker("bench", concurrency=PROCESSES)
        fleet.wait_until(lambda: fleet.unfinished() < count, WITHIN_SEC, 0.01)
        before, left = spent(home, worker.pid), fleet.unfinished()
        ((first,),) = harness.execute(
            "SELECT min(started_at) FROM runs WHERE created_at >= %s", began
        )
        fleet.wait_until(lambda: not fleet.unfinished(), WITHIN_SEC, 0.1)
        after = spent(home, worker.pid)
    return {"per_sec": count / seconds_since(first, began, count), **cost(before, after, left)}


def seconds_since(instant: Any, created: Any, count: int) -> float:  # noqa: ANN401
    """Return the seconds from an instant to the last finish of the runs created since."""
    ((done, seconds),) = harness.execute(
        "SELECT count(*), extract(epoch FROM max(finished_at) - %s)::float8 FROM runs"
        " WHERE created_at >= %s AND status = 'succeeded' AND attempt = 1",
        instant,
        created,
    )
    assert done == count, f"{done} of {count} succeeded at once"
    return float(seconds)


def cost(before: tuple[float, float], after: tuple[float, float], count: int) -> dict[str, float]:
    """Return the CPU seconds of a thousand runs."""
    return {
        "worker_cpu_sec_per_1000": (after[0] - before[0]) / count * 1000,
        "postgres_cpu_sec_per_1000": (after[1] - before[1]) / count * 1000,
    }


def spent(home: Path, worker: int) -> tuple[float, float]:
    """Return the CPU seconds of the worker with all it started, and of PostgreSQL."""
    return cpu.spent_sec(cpu.tree(worker)), cpu.spent_sec(postgres(home).holders())


def postgres(home: Path) -> EmbeddedPostgres:
    """Return the server that harness.servers runs there."""
    return EmbeddedPostgres(home / "postgres")


def peer(home: Path, name: str, count: int) -> dict[str, float]:
    """Run a peer in a database and a Redis database of its own, empty."""
    url, broker = os.environ["DATABASE_URL"], os.environ["REDIS_URL"].rsplit("/", 1)[0] + "/1"
    with redis.Redis.from_url(broker) as client:
        client.flushdb()
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("DROP DATABASE IF EXISTS peer WITH (FORCE)")
        database.execute("CREATE DATABASE peer")
    with tempfile.TemporaryDirectory(prefix="chrono-peer-") as folder:
        words = {"PEER": name, "PEER_HOME": folder, "REDIS": broker}
        url = url.rsplit("/", 1)[0] + "/peer"
        before = cpu.spent_sec(postgres(home).holders())
        found = environment.run("throughput", name, count, DB=url, **words)
        after = cpu.spent_sec(postgres(home).holders())
    return {**found, "postgres_cpu_sec_per_1000": (after - before) / count * 1000}


def in_turns(home: Path, options: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    """Return each one's rounds."""
    tasks, commands = options.tasks, options.commands
    payload = {"type": "task", "task": "chrono.noop"}
    noop = fleet.make_job(name="noop", payload=payload)
    true = fleet.make_job(name="true", command=["true"])
    steps: dict[str, Callable[[], dict[str, float]]] = {
        "chrono tasks": lambda: chrono(home, noop, tasks),
        "celery": lambda: peer(home, "celery", tasks // 2),
        "celery-results": lambda: peer(home, "celery-results", tasks // 5),
        "procrastinate": lambda: peer(home, "procrastinate", tasks // 5),
        "chrono tasks alone": lambda: alone(home, noop, tasks // 5),
        "chrono commands": lambda: chrono(home, true, commands),
        "celery-command": lambda: peer(home, "celery-command", commands // 2),
        "chrono commands alone": lambda: alone(home, true, commands // 2),
    }
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for _ in range(options.rounds):
        for name, step in steps.items():
            found[name].append(step())
            print(name, found[name][-1], file=sys.stderr, flush=True)
    return found


def ratios(found: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, Any]]:
    """Return Chrono's median rates against the peers', with the targets."""
    rates = {name: median(one["per_sec"] for one in rounds) for name, rounds in found.items()}
    return {
        f"{kind} / {name}": {
            "ratio": round(rates[f"chrono {kind}"] / rates[name], 2),
            "alone": round(rates[f"chrono {kind} alone"] / rates[name], 2),
            "target": target,
        }
        for kind, targets in TARGETS.items()
        for name, target in targets.items()
    }


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--commands", type=int, default=2_000)
    options = parser.parse_args()
    environment.ensure()
    with harness.servers(CHRONO_STATEMENT_TIMEOUT_SEC="300") as home:
        found = in_turns(home, options)
    figures = ratios(found)
    measured = {
        name: {key: harness.spread([one[key] for one in rounds]) for key in rounds[0]}
        for name, rounds in found.items()
    }
    harness.show({**vars(options), "measured": measured, "ratios": figures})
    wanted = [one for one in figures.values() if one["target"] is not None]
    return 0 if all(one["ratio"] >= one["target"] for one in wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
