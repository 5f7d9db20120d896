"""Ticks each second while dispatchers are killed: none twice, none missing, all of them executed.

Runs a Chrono of its own by bin/up (CHRONO_HOME in a temporary folder), registers the jobs over the
API, and sends kill -9 to one dispatcher after another.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg

from bench.harness import chrono, show

TERMINAL_WITHIN_SEC = 300


def register(api: httpx.Client, count: int, start: datetime, end: datetime) -> list[str]:
    """Register no-op task jobs with a tick each second of [start, end)."""
    ids = []
    for number in range(count):
        answer = api.post(
            "/v1/jobs",
            json={
                "name": f"every-second-{number}",
                "schedule": "* * * * * *",
                "startsAt": start.isoformat(),
                "endsAt": (end - timedelta(seconds=1)).isoformat(),
                "payload": {"type": "task", "task": "chrono.noop"},
            },
        )
        answer.raise_for_status()
        ids.append(answer.json()["id"])
    return ids


def kill_dispatchers(home: Path, until: float, every_sec: float) -> int:
    """Kill a random dispatcher each `every_sec` until the monotonic instant; return how many."""
    killed = 0
    while time.monotonic() + every_sec < until:
        time.sleep(every_sec)
        processes = json.loads((home / "up.json").read_text())["processes"]
        pids = [one["pid"] for one in processes if one["name"].startswith("dispatcher")]
        os.kill(random.choice(pids), signal.SIGKILL)
        killed += 1
    return killed


def wait_terminal(database: psycopg.Connection[Any], expected: int) -> float:
    """Wait until `expected` runs are terminal, five minutes at most; return the seconds."""
    began = time.monotonic()
    while time.monotonic() - began < TERMINAL_WITHIN_SEC:
        row = database.execute(
            "SELECT count(*) FROM runs WHERE status IN ('succeeded','dead','skipped','cancelled')"
        ).fetchone()
        if row and row[0] >= expected:
            break
        time.sleep(1)
    return time.monotonic() - began


def verdict(database: psycopg.Connection[Any], jobs: int, seconds: int) -> dict[str, Any]:
    """Compare the ticks that should be with the rows that are."""
    (rows, distinct, first, last) = database.execute(
        "SELECT count(*), count(DISTINCT (job_id, scheduled_for)), min(scheduled_for),"
        " max(scheduled_for) FROM runs"
    ).fetchone() or (0, 0, None, None)
    misfired = database.execute("SELECT coalesce(sum(tick_count), 0) FROM misfires").fetchone()
    by_status = dict(
        database.execute("SELECT status, count(*) FROM runs GROUP BY status").fetchall()
    )
    late = database.execute(
        "SELECT percentile_disc(ARRAY[0.5, 0.95, 1]) WITHIN GROUP"
        " (ORDER BY extract(epoch FROM created_at - scheduled_for)) FROM runs"
    ).fetchone()
    return {
        "expected": jobs * seconds,
        "rows": rows,
        "twice": rows - distinct,
        "missing": jobs * seconds - distinct,
        "coalesced_or_skipped": int(misfired[0]) if misfired else None,
        "first_tick": str(first),
        "last_tick": str(last),
        "by_status": by_status,
        "due_to_recorded_sec_p50_p95_max": [round(float(one), 3) for one in late[0]]
        if late
        else [],
    }


def main() -> None:
    """Measure; exit 1 when a tick is missing or double."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--dispatchers", type=int, default=3)
    parser.add_argument("--kill-every", type=float, default=20)
    options = parser.parse_args()
    with chrono(CHRONO_DISPATCHERS=str(options.dispatchers)) as up:
        api = httpx.Client(
            base_url=up["api_url"], headers={"Authorization": f"Bearer {up['api_token']}"}
        )
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=30)  # noqa: TID251
        end = start + timedelta(seconds=options.seconds)
        register(api, options.jobs, start, end)
        until = time.monotonic() + (end - datetime.now(UTC)).total_seconds()  # noqa: TID251
        killed = kill_dispatchers(up["home"], until, options.kill_every)
        time.sleep(max(0.0, until - time.monotonic()))
        with psycopg.connect(up["database_url"], autocommit=True) as database:
            waited = wait_terminal(database, options.jobs * options.seconds)
            found = verdict(database, options.jobs, options.seconds)
    show({"killed": killed, "terminal_after_end_sec": round(waited, 1), **found})
    is_good = not (found["twice"] or found["missing"] or waited >= TERMINAL_WITHIN_SEC)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
