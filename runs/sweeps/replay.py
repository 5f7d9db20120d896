"""Replay: queued runs whose message Redis has lost are published again (PROTOCOL 11, 12).

The consuming end of a list holds its oldest message. A row stamped well before that stamp has been
passed by. An epoch key tells at once that Redis lost its memory: it holds the database time since
which Redis remembers, and no message published before it can still be there.
"""

import logging
from datetime import datetime, timedelta

import redis
from django.conf import settings

from chronoproject.clock import db_now
from runs import floor, publisher
from runs.records import RunRef
from runs.sweeps import DISPATCHER, Sweep, register

logger = logging.getLogger(__name__)

BATCH = 5000
FULL_LENGTH = 20_000  # a list this long is fed no more: the backlog must not multiply itself


def replay_lost() -> int:
    """Publish again what was lost; return how many messages went out."""
    queues = floor.SQL["queues_in_use"].rows(floor=floor.read())
    if not queues or publisher.breaker.is_open:
        return 0
    try:
        epoch = epoch_of_broker()
        return sum(_replay_queue(pool, priority, epoch) for pool, priority in queues)
    except redis.RedisError as error:
        publisher.breaker.trip()
        logger.warning("cannot look for lost messages, trying again: %s", error)
        return 0


def epoch_of_broker() -> datetime:
    """Return since when Redis has its present memory, by the database's clock."""
    client = publisher.client()
    client.set(publisher.EPOCH_KEY, db_now().isoformat(), nx=True)
    value = client.get(publisher.EPOCH_KEY)
    if not isinstance(value, bytes):
        raise redis.RedisError("the epoch key vanished while it was read")
    return datetime.fromisoformat(value.decode())


def _replay_queue(pool: str, priority: str, epoch: datetime) -> int:
    client = publisher.client()
    queue = publisher.queue_name(pool, priority)
    if int(client.llen(queue)) >= FULL_LENGTH:
        return 0
    rows = floor.SQL["take_lost_messages"].rows(
        pool=pool,
        priority=priority,
        older_than=max(epoch, _passed_by(client.lindex(queue, -1))),
        floor=floor.read(),
        limit=BATCH,
    )
    return publisher.publish([RunRef(*row) for row in rows]) if rows else 0


def _passed_by(oldest: object) -> datetime:
    """Return the stamp before which no message can be left in the queue."""
    stamp = publisher.published_at_of(oldest) if isinstance(oldest, bytes) else None
    if stamp is None:
        return db_now() - timedelta(seconds=settings.CHRONO_REPLAY_EMPTY_SEC)
    return stamp - timedelta(seconds=settings.CHRONO_REPLAY_LAG_SEC)


register(DISPATCHER, Sweep("replay", 2, replay_lost))
