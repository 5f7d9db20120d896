"""A tick each second on an idle machine: due until started, with Chrono and django-celery-beat.

The machine's load before and after each round says how idle it was.

Chrono's lateness is started_at against the tick, a whole second. django-celery-beat has no cron by
the second: its interval is due a second after its last send, so it is measured against that.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import psycopg

from bench import harness
from bench.kills import register, wait_terminal
from bench.peers import environment
from chronoproject.embedded import EmbeddedValkey, running

P50_SEC, P95_SEC = 0.020, 0.080

LATENESS = """
SELECT extract(epoch FROM started_at - scheduled_for)::float8,
       extract(epoch FROM created_at - scheduled_for)::float8,
       extract(epoch FROM started_at - created_at)::float8
FROM runs WHERE status = 'succeeded' ORDER BY scheduled_for
"""


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and the maximum in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return {
        "p50_ms": round(cuts[49] * 1000, 1),
        "p95_ms": round(cuts[94] * 1000, 1),
        "max_ms": round(max(seconds) * 1000, 1),
    }


def of_chrono(seconds: int) -> dict[str, Any]:
    """Return the figures of a Chrono started by bin/up that runs one job a second."""
    with harness.chrono() as up:
        api = httpx.Client(
            base_url=up["api_url"], headers={"Authorization": f"Bearer {up['api_token']}"}
        )
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=15)  # noqa: TID251
        end = start + timedelta(seconds=seconds)
        register(api, 1, start, end)
        load = os.getloadavg()[0]
        time.sleep(max(0.0, (end - datetime.now(UTC)).total_seconds()))  # noqa: TID251
        with psycopg.connect(up["database_url"], autocommit=True) as database:
            wait_terminal(database, seconds)
            rows = database.execute(LATENESS).fetchall()
    assert len(rows) == seconds, f"{len(rows)} of {seconds} ticks have succeeded"
    started, recorded, waited = zip(*rows, strict=True)
    return {
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        **percentiles(started),
        "due_to_recorded": percentiles(recorded),
        "recorded_to_started": percentiles(waited),
    }


def of_peer(seconds: int) -> dict[str, Any]:
    """Return the figures of django-celery-beat with its DatabaseScheduler on SQLite."""
    with tempfile.TemporaryDirectory(prefix="chrono-bench-") as home:
        valkey = EmbeddedValkey(Path(home) / "valkey")
        with open(f"{home}/servers.log", "ab") as log, running(valkey, log):
            load = os.getloadavg()[0]
            found = environment.run("every_second", seconds, REDIS_URL=valkey.url, PEER_HOME=home)
    return {
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        **percentiles(found["late_sec"]),
        "drift_ms": round(found["drift_sec"] * 1000, 1),
        "crontab_minute_ms": [round(late * 1000, 1) for late in found["minute_late_sec"]],
    }


def main() -> None:
    """Measure; exit 1 when Chrono misses the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-rounds", type=int, default=1)
    options = parser.parse_args()
    environment.ensure()
    ours, peer = [], []
    for number in range(options.rounds):
        ours.append(of_chrono(options.seconds))
        if number < options.peer_rounds:
            peer.append(of_peer(options.seconds))
    middle = {name: median(one[name] for one in ours) for name in ("p50_ms", "p95_ms", "max_ms")}
    harness.show(
        {
            "seconds": options.seconds,
            "chrono": middle,
            "target": {"p50_ms": P50_SEC * 1000, "p95_ms": P95_SEC * 1000},
            "chrono_rounds": ours,
            "django_celery_beat_rounds": peer,
        }
    )
    is_good = middle["p50_ms"] <= P50_SEC * 1000 and middle["p95_ms"] <= P95_SEC * 1000
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
