"""Puts messages on Redis lists: <pool>.high, <pool>.normal, <pool>.low.

A message is a hint: run ids and ticks. It is Celery's protocol 2 envelope, built here by hand, so
that a batch costs one pipeline and a stock Celery worker executes it. Publishing happens after
the commit, holding no row lock; what cannot be pushed is marked and goes out by replay.
"""

import base64
import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.db import transaction

from runs.floor import SQL
from runs.records import RunRef

logger = logging.getLogger(__name__)

TASK_NAME = "chrono.run"
EPOCH_KEY = "chrono:epoch"  # since when Redis has its present memory; see sweeps/replay.py
PUSH_CHUNK = 1000
# Many runs at once share messages, for Celery handles fewer messages than it could execute short
# runs. A burst still makes enough messages for every pool child to get some.
MAX_RUNS_A_MESSAGE = 20
MIN_MESSAGES_OF_A_BURST = 64
SECOND_LINE_SEC, THIRD_LINE_SEC = 15, 30
EMBED = '{}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}'
HEADERS: dict[str, Any] = {
    "lang": "py",
    "task": TASK_NAME,
    "shadow": None,
    "eta": None,
    "expires": None,
    "group": None,
    "group_index": None,
    "retries": 0,
    "parent_id": None,
    "kwargsrepr": "{}",
    "origin": "chrono",
    "ignore_result": True,
    "replaced_task_nesting": 0,
    "stamped_headers": None,
    "stamps": {},
}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Messages that differ in their run alone: (run id, scheduled_for in ISO 8601) each."""

    pool: str
    priority: str
    limits: tuple[int, int]
    published_at: datetime
    runs: Sequence[tuple[str, str]]

    @property
    def queue(self) -> str:
        """Return the Redis list."""
        return queue_name(self.pool, self.priority)

    def envelopes(self) -> list[bytes]:
        """Return each message as Celery puts it on the wire (protocol 2, JSON)."""
        size = runs_a_message(len(self.runs))
        template = _template(self, size)
        starts = range(0, len(self.runs), size)
        ids = os.urandom(16 * len(starts)).hex()
        made = []
        for at, start in enumerate(starts):
            refs = self.runs[start : start + size]
            named = ", ".join([f'["{run_id}", "{tick}"]' for run_id, tick in refs])
            values = {
                "body": base64.b64encode(f"[[[{named}]], {EMBED}]".encode()).decode(),
                "id": ids[32 * at : 32 * at + 32],
                "refs": f"[[{named}]]".replace('"', "'"),
            }
            made.append((template % values).encode())
        return made


def runs_a_message(count: int) -> int:
    """Return how many of so many runs that are published together share a message."""
    return max(1, min(MAX_RUNS_A_MESSAGE, count // MIN_MESSAGES_OF_A_BURST))


def _template(outgoing: Outgoing, size: int) -> str:
    """Return the envelope with %(body)s, %(id)s and %(refs)s for what is a message's own.

    Celery's limits are of a message, so they leave time for all its runs; the shim's are of a run.
    """
    queue = outgoing.queue.replace("%", "%%")
    return json.dumps(
        {
            "body": "%(body)s",
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {
                **HEADERS,
                "id": "%(id)s",
                "root_id": "%(id)s",
                "argsrepr": "%(refs)s",
                "timelimit": [size * limit for limit in outgoing.limits],
                "published_at": outgoing.published_at.isoformat(),
            },
            "properties": {
                "correlation_id": "%(id)s",
                "reply_to": "",
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": queue},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": "%(id)s",
            },
        }
    )


def time_limits(kind: str, timeout_sec: int, kill_grace_sec: int) -> tuple[int, int]:
    """Return Celery's (hard, soft) limits in seconds.

    A task stops by them. A command's shim enforces its limit; Celery's come after it.
    """
    ends = timeout_sec + kill_grace_sec
    if kind == "command":
        return ends + THIRD_LINE_SEC, ends + SECOND_LINE_SEC
    return ends, timeout_sec


def queue_name(pool: str, priority: str) -> str:
    """Return the name of the Redis list of a pool and a priority."""
    return f"{pool}.{priority}"


def published_at_of(raw: bytes) -> datetime | None:
    """Return the stamp in a message's headers; None for a message that is not ours."""
    try:
        stamp = json.loads(raw)["headers"]["published_at"]
        return datetime.fromisoformat(stamp)
    except (ValueError, KeyError, TypeError):
        return None


@cache
def client() -> redis.Redis:
    """Return this process's Redis client; every call on it ends within its time-out."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=settings.CELERY_BROKER_TRANSPORT_OPTIONS["socket_timeout"],
        socket_connect_timeout=settings.CELERY_BROKER_TRANSPORT_OPTIONS["socket_connect_timeout"],
        health_check_interval=10,
    )


class Breaker:
    """After one failed push, publishing pauses for a moment: dispatch never waits for Redis."""

    def __init__(self, pause_sec: float = 1.0) -> None:
        """Start closed."""
        self.pause_sec = pause_sec
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        """Say whether to leave Redis alone for now."""
        return time.monotonic() < self._open_until

    def trip(self) -> None:
        """Open for the pause."""
        self._open_until = time.monotonic() + self.pause_sec


breaker = Breaker()


def publish_after_commit(refs: Sequence[RunRef]) -> None:
    """Publish these queued runs once the surrounding transaction has committed."""
    if refs:
        transaction.on_commit(lambda: publish(refs))


def publish(refs: Sequence[RunRef]) -> int:
    """Push the messages of queued runs; return how many. A failed push is left to replay."""
    instants = [ref.scheduled_for for ref in refs]
    rows = SQL["messages_of"].rows(
        run_id=[ref.run_id for ref in refs], first=min(instants), last=max(instants)
    )
    alike: dict[tuple[str, str, tuple[int, int]], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        alike[row[2], row[3], time_limits(*row[5:])].append(row)
    return send(
        [
            Outgoing(
                *key,
                published_at=min(row[4] for row in group),
                runs=[(str(row[0]), row[1].isoformat()) for row in group],
            )
            for key, group in alike.items()
        ]
    )


def send(outgoing: Sequence[Outgoing]) -> int:
    """Push, and mark what Redis refused so that replay takes it; return how many went out."""
    runs = [run for messages in outgoing for run in messages.runs]
    outgoing = [messages for messages in outgoing if messages.runs]
    if not runs or push(outgoing):
        return len(runs)
    ticks = [datetime.fromisoformat(tick) for _, tick in runs]
    SQL["mark_unpublished"].run(
        run_id=[run_id for run_id, _ in runs],
        scheduled_for=ticks,
        first=min(ticks),
        last=max(ticks),
    )
    return 0


def _together(outgoing: Sequence[Outgoing]) -> list[Outgoing]:
    """Put together what differs in its runs alone: those of many schedules share messages."""
    alike: dict[tuple[str, str, tuple[int, int]], list[Outgoing]] = defaultdict(list)
    for one in outgoing:
        alike[one.pool, one.priority, one.limits].append(one)
    return [
        Outgoing(
            *key,
            published_at=min(one.published_at for one in group),
            runs=[run for one in group for run in one.runs],
        )
        for key, group in alike.items()
    ]


def push(outgoing: Sequence[Outgoing]) -> bool:
    """LPUSH the envelopes in one pipeline (never RPUSH, PROTOCOL 12); False when Redis refused."""
    if breaker.is_open:
        return False
    epoch = min(messages.published_at for messages in outgoing)
    by_queue: dict[str, list[bytes]] = defaultdict(list)
    for messages in _together(outgoing):
        by_queue[messages.queue] += messages.envelopes()
    try:
        pipeline = client().pipeline(transaction=False)
        pipeline.set(EPOCH_KEY, epoch.isoformat(), nx=True)
        for queue, envelopes in by_queue.items():
            for start in range(0, len(envelopes), PUSH_CHUNK):
                pipeline.lpush(queue, *envelopes[start : start + PUSH_CHUNK])
        pipeline.execute()
    except redis.RedisError as error:
        breaker.trip()
        logger.warning("cannot publish, the runs stay queued and are replayed: %s", error)
        return False
    return True
