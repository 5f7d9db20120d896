"""Valkey flushed, killed, stopped under load, and dispatchers killed between commit and publish.

Runs a Chrono of its own by bin/up on a broker of ours, registers commands with a tick each second,
does the harm, and counts executions by what the commands themselves wrote. Run as
`python -m bench.broker`; exits 1 when a run was executed twice or not at all.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import redis

from bench import harness
from chronoproject.embedded import EmbeddedValkey, running

RECOVERED_WITHIN_SEC = 240
STOPPED_SEC = 45
PAUSE_SEC = 8
REGISTERED_SEC = 5  # by then all jobs are there, and begin together


class Broker:
    """A Valkey of ours: killed and started again at will, empty each time."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        """Start it; it ends with the stack."""
        self.server = EmbeddedValkey(home / "valkey", durable=False)
        self.server.reserve()
        self.stack = stack
        self.log = stack.enter_context((home / "valkey.log").open("ab"))
        self.start()

    def start(self) -> None:
        """Start it, empty."""
        self.stack.enter_context(running(self.server, self.log))

    def send(self, number: int) -> None:
        """Send it a signal."""
        for pid in self.server.holders():
            os.kill(pid, number)


def dispatcher_pids(home: Path) -> list[int]:
    """Return the dispatchers that live now."""
    processes = json.loads((home / "up.json").read_text())["processes"]
    return [one["pid"] for one in processes if one["name"].startswith("dispatcher")]


def flush(broker: Broker, home: Path) -> None:
    """Empty it."""
    with redis.Redis.from_url(broker.server.url) as client:
        client.flushall()


def kill_and_restart(broker: Broker, home: Path) -> None:
    """Let it die and come back with nothing."""
    broker.send(signal.SIGKILL)
    time.sleep(2)
    broker.start()


def stop_for_long(broker: Broker, home: Path) -> None:
    """Let it stand still."""
    broker.send(signal.SIGSTOP)
    time.sleep(STOPPED_SEC)
    broker.send(signal.SIGCONT)


def kill_between_commit_and_publish(broker: Broker, home: Path) -> None:
    """Kill the dispatchers while their push waits for a broker that stands still."""
    broker.send(signal.SIGSTOP)
    time.sleep(1.3)  # the tick of a second has been committed, and its push has begun
    for pid in dispatcher_pids(home):
        os.kill(pid, signal.SIGKILL)
    broker.send(signal.SIGCONT)


HARMS: tuple[Callable[[Broker, Path], None], ...] = (
    flush,
    kill_and_restart,
    stop_for_long,
    kill_between_commit_and_publish,
)


def register(up: dict[str, Any], jobs: int, file: Path, span: tuple[datetime, datetime]) -> None:
    """Register commands that write down which run they are, each second of the span."""
    headers = {"Authorization": f"Bearer {up['api_token']}"}
    with httpx.Client(base_url=up["api_url"], headers=headers) as api:
        for number in range(jobs):
            body = {
                "name": f"writes-{number}",
                "schedule": "* * * * * *",
                "startsAt": span[0].isoformat(),
                "endsAt": span[1].isoformat(),
                "command": f"echo $CHRONO_RUN_ID >> {file}",
                "misfireGraceSec": 3600,
            }
            api.post("/v1/jobs", json=body).raise_for_status()


def recovery_sec(database: psycopg.Connection[Any]) -> float:
    """Return how long it takes until every run of the past until now is terminal."""
    began = time.monotonic()
    (now,) = database.execute("SELECT clock_timestamp()").fetchone() or (None,)
    while time.monotonic() - began < RECOVERED_WITHIN_SEC:
        (left,) = database.execute(
            "SELECT count(*) FROM runs WHERE scheduled_for <= %s"
            " AND status IN ('waiting', 'queued', 'running', 'retrying')",
            [now],
        ).fetchone() or (0,)
        if not left:
            break
        time.sleep(0.1)
    return round(time.monotonic() - began, 1)


def verdict(database: psycopg.Connection[Any], file: Path, jobs: int) -> dict[str, Any]:
    """Compare what was executed with what is recorded, and that with what should be."""
    executed = Counter(file.read_text().split())
    runs = {str(row[0]) for row in database.execute("SELECT run_id FROM runs").fetchall()}
    by_status = dict(
        database.execute("SELECT status, count(*) FROM runs GROUP BY status").fetchall()
    )
    (ticks,) = database.execute(
        "SELECT %s * (1 + extract(epoch FROM max(scheduled_for) - min(scheduled_for)))::int"
        " FROM runs",
        [jobs],
    ).fetchone() or (0,)
    return {
        "ticks_of_the_span": ticks,
        "runs": len(runs),
        "by_status": by_status,
        "executed_once": sum(1 for run in runs if executed[run] == 1),
        "executed_twice": sum(1 for run in runs if executed[run] > 1),
        "not_executed": sum(1 for run in runs if executed[run] == 0),
    }


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=15)
    options = parser.parse_args()
    span_sec = STOPPED_SEC + PAUSE_SEC * (len(HARMS) + 1) + 60
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chrono-broker-")))
        home.chmod(0o755)
        file = home / "executed"
        file.touch()
        file.chmod(0o666)
        broker = Broker(home, stack)
        up = stack.enter_context(harness.chrono(REDIS_URL=broker.server.url))
        database = stack.enter_context(psycopg.connect(up["database_url"], autocommit=True))
        now = datetime.now(UTC)  # noqa: TID251 - no Django here
        start, end = (now + timedelta(seconds=after) for after in (REGISTERED_SEC, span_sec))
        register(up, options.jobs, file, (start, end))
        recovery = {}
        for harm in HARMS:
            time.sleep(PAUSE_SEC)
            harm(broker, up["home"])
            recovery[harm.__name__] = recovery_sec(database)
        while datetime.now(UTC) < end:  # noqa: TID251 - as above
            time.sleep(0.5)
        time.sleep(2)
        recovery["end"] = recovery_sec(database)
        found = verdict(database, file, options.jobs)
    harness.show({"jobs_each_second": options.jobs, "recovery_sec": recovery, **found})
    is_whole = not (found["executed_twice"] or found["not_executed"])
    is_complete = found["runs"] == found["ticks_of_the_span"] == found["executed_once"]
    return 0 if is_whole and is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
