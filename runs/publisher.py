"""Puts messages on Redis lists: <pool>.high, <pool>.normal, <pool>.low.

A message is a hint: run ids and ticks. It is Celery's protocol 2 envelope, built here by hand, so
that a batch costs one pipeline and a stock Celery worker executes it. Publishing happens after
the commit, holding no row lock; what cannot be pushed is marked and goes out by replay.
"""

import base64
import json
import logging
import time
import uuid
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
SECOND_LINE_SEC, THIRD_LINE_SEC = 15, 30
EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
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
class Message:
    """What a message says of its run; limits follow from the definition in force."""

    run_id: uuid.UUID
    scheduled_for: datetime
    pool: str
    priority: str
    published_at: datetime
    kind: str
    timeout_sec: int
    kill_grace_sec: int

    @property
    def queue(self) -> str:
        """Return the Redis list."""
        return queue_name(self.pool, self.priority)

    @property
    def limits(self) -> tuple[int, int]:
        """Return Celery's (hard, soft) limits in seconds.

        A task stops by them. A command's shim enforces its limit; Celery's come after it.
        """
        ends = self.timeout_sec + self.kill_grace_sec
        if self.kind == "command":
            return ends + THIRD_LINE_SEC, ends + SECOND_LINE_SEC
        return ends, self.timeout_sec


def queue_name(pool: str, priority: str) -> str:
    """Return the name of the Redis list of a pool and a priority."""
    return f"{pool}.{priority}"


def envelope(message: Message) -> bytes:
    """Return the message as Celery puts it on the wire (protocol 2, JSON)."""
    task_id = str(uuid.uuid4())
    refs = [[str(message.run_id), message.scheduled_for.isoformat()]]
    body = json.dumps([[refs], {}, EMBED]).encode()
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {
                **HEADERS,
                "id": task_id,
                "root_id": task_id,
                "argsrepr": str([refs]),
                "timelimit": list(message.limits),
                "published_at": message.published_at.isoformat(),
            },
            "properties": {
                "correlation_id": task_id,
                "reply_to": "",
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": message.queue},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": task_id,
            },
        }
    ).encode()


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
    messages = [Message(*row) for row in rows]
    if not messages or push(messages):
        return len(messages)
    SQL["mark_unpublished"].run(
        run_id=[message.run_id for message in messages],
        scheduled_for=[message.scheduled_for for message in messages],
        first=min(instants),
        last=max(instants),
    )
    return 0


def push(messages: Sequence[Message]) -> bool:
    """LPUSH the envelopes in one pipeline (never RPUSH, PROTOCOL 12); False when Redis refused."""
    if breaker.is_open:
        return False
    by_queue: dict[str, list[bytes]] = defaultdict(list)
    for message in messages:
        by_queue[message.queue].append(envelope(message))
    epoch = min(message.published_at for message in messages)
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
