"""Figures that dispatch keeps on itself, where pages and metrics read them: the table figures.

One row a dispatcher replica and one a queue, overwritten every few seconds.
"""

import json
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median_high
from typing import Any

import redis
from django.conf import settings

from chronoproject.clock import db_now
from runs import floor, publisher
from runs.batch import Batch
from runs.sweeps import DISPATCHER, Sweep, register

DISPATCHER_KIND, QUEUE_KIND = "dispatcher", "queue"
WRITE_EVERY_SEC = 5.0
KEPT_BATCHES = 200
STAGES = ("claim_sec", "decide_sec", "record_sec")


@dataclass(slots=True)
class DispatchFigures:
    """A replica's last batches, and its totals since it started."""

    replica: str
    batches: deque[dict[str, float]] = field(default_factory=lambda: deque(maxlen=KEPT_BATCHES))
    totals: Counter[str] = field(
        default_factory=lambda: Counter(batches=0, jobs=0, ticks=0, quarantined=0)
    )
    _written_at: float = 0.0

    def add(self, batch: Batch, now: datetime, took_sec: float) -> None:
        """Count a batch that began at `now`, unless nothing was due."""
        if not (batch.jobs or batch.quarantined):
            return
        due_since = batch.due_since or now  # unknown where all of it was refused
        stages = {name: getattr(batch, name) for name in STAGES}
        figures = {
            "jobs": batch.jobs,
            "ticks": batch.recorded,
            "lag_sec": (now - due_since).total_seconds() + took_sec,
            **stages,
            "publish_sec": max(0.0, took_sec - sum(stages.values())),
        }
        self.batches.append(figures)
        self.totals.update(
            batches=1,
            jobs=batch.jobs,
            ticks=batch.recorded,
            quarantined=len(batch.quarantined),
        )

    def summary(self, shards: Sequence[int]) -> dict[str, Any]:
        """Return totals, the last batch, and median and greatest of the last two hundred."""
        names = self.batches[-1] if self.batches else {}
        columns = {name: [batch[name] for batch in self.batches] for name in names}
        return {
            "totals": dict(self.totals),
            "shards": list(shards),
            "last": self.batches[-1] if self.batches else None,
            "median": {name: median_high(values) for name, values in columns.items()},
            "greatest": {name: max(values) for name, values in columns.items()},
        }

    def write_if_due(self, shards: Sequence[int]) -> None:
        """Keep the row young, so that a reader can tell a replica that is gone."""
        if time.monotonic() - self._written_at >= WRITE_EVERY_SEC:
            self._written_at = time.monotonic()
            write({(DISPATCHER_KIND, self.replica): self.summary(shards)})


def write(rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    """Put rows in place, by kind and name."""
    if rows:
        floor.SQL["write_figures"].run(
            kind=[kind for kind, _ in rows],
            name=[name for _, name in rows],
            figures=[json.dumps(figures) for figures in rows.values()],
        )


def measure_queues() -> int:
    """Write what stands in each queue that has runs or had a moment ago, and who serves it."""
    rows = floor.SQL["queue_figures"].rows(floor=floor.read(), seen_sec=settings.CHRONO_LEASE_SEC)
    names = [publisher.queue_name(row[0], row[1]) for row in rows]
    depths = depths_of(names)
    now = db_now()
    write(
        {
            (QUEUE_KIND, name): {
                "runs": runs,
                "oldest_age_sec": round((now - oldest).total_seconds(), 3) if oldest else 0.0,
                "messages": depths.get(name),
                "has_worker": has_worker,
            }
            for name, (_, _, runs, oldest, has_worker) in zip(names, rows, strict=True)
        }
    )
    floor.SQL["purge_figures"].run()
    return len(rows)


def depths_of(queues: Sequence[str]) -> dict[str, int]:
    """Return the lengths of the lists; none of them while Redis is away."""
    if not queues or publisher.breaker.is_open:
        return {}
    try:
        pipeline = publisher.client().pipeline(transaction=False)
        for queue in queues:
            pipeline.llen(queue)
        return dict(zip(queues, pipeline.execute(), strict=True))
    except redis.RedisError:
        publisher.breaker.trip()
        return {}


register(DISPATCHER, Sweep("queues", WRITE_EVERY_SEC, measure_queues))
