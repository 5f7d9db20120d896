"""What goes on the wire, and what happens when the wire is cut."""

import base64
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from pytest_django import Settings

from chronoproject.celery import app
from runs import publisher
from runs.publisher import Outgoing, time_limits
from tests.integration import support

QUEUE = "default.normal"


@pytest.fixture(autouse=True)
def empty_broker(valkey: redis.Redis) -> Iterator[redis.Redis]:
    publisher.client.cache_clear()
    publisher.breaker = publisher.Breaker()
    yield valkey
    publisher.client.cache_clear()


RUN = "01a2282a-d368-8089-ae54-a35473f94f28"
TICK = "2026-01-01T00:00:00+00:00"
STAMP = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)


def outgoing() -> Outgoing:
    return Outgoing("default", "normal", (70, 60), STAMP, [(RUN, TICK)])


def decoded(raw: bytes) -> dict[str, Any]:
    """Return an envelope with what differs from message to message set to a constant."""
    envelope: dict[str, Any] = json.loads(raw)
    envelope["body"] = json.loads(base64.b64decode(envelope["body"]))
    for name in ("id", "root_id", "origin"):
        envelope["headers"][name] = "*"
    for name in ("correlation_id", "delivery_tag", "reply_to"):
        envelope["properties"][name] = "*"
    return envelope


def test_an_envelope_is_what_celery_itself_would_send(empty_broker: redis.Redis) -> None:
    refs = [[RUN, TICK]]
    app.send_task(
        publisher.TASK_NAME,
        args=[refs],
        queue=QUEUE,
        time_limit=70,
        soft_time_limit=60,
        ignore_result=True,
        headers={"published_at": STAMP.isoformat()},
    )
    assert publisher.push([outgoing()])
    celerys, made = empty_broker.lpop(QUEUE), empty_broker.rpop(QUEUE)
    theirs = decoded(as_bytes(made))
    assert decoded(as_bytes(celerys)) == theirs


def as_bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def test_a_commands_limits_stand_behind_its_shims() -> None:
    assert time_limits("task", 60, 10) == (70, 60)
    assert time_limits("http", 60, 10) == (70, 60)
    assert time_limits("command", 60, 10) == (100, 85)


@pytest.mark.django_db(transaction=True)
def test_runs_are_published_after_the_commit_oldest_last_to_arrive_first_to_leave(
    empty_broker: redis.Redis,
) -> None:
    job = support.job(priority="high", pool="etl")
    refs = [support.queued(job, support.this_second() - ago * support.SECOND) for ago in (1, 0)]
    assert empty_broker.llen("etl.high") == 2
    first = json.loads(base64.b64decode(json.loads(empty_broker.rpop("etl.high"))["body"]))  # type: ignore[arg-type]
    assert first[0] == [[[str(refs[0].run_id), refs[0].scheduled_for.isoformat()]]]


@pytest.mark.django_db(transaction=True)
def test_what_redis_refuses_stays_queued_and_unpublished(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    publisher.client.cache_clear()
    ref = support.queued(support.job())
    run = support.row(ref)
    assert (run.status, run.published_at) == ("queued", None)
    assert publisher.breaker.is_open
    assert publisher.push([outgoing()]) is False


def test_a_message_that_is_not_ours_has_no_stamp() -> None:
    assert publisher.published_at_of(b"not json") is None
    assert publisher.published_at_of(b"[]") is None
    assert publisher.published_at_of(b'{"headers": {"published_at": "x"}}') is None
    assert publisher.published_at_of(outgoing().envelopes()[0]) == STAMP


def test_many_runs_share_messages_with_time_for_all_of_them() -> None:
    runs = [(str(uuid.UUID(int=n)), TICK) for n in range(200)]
    made = [json.loads(raw) for raw in replace(outgoing(), runs=runs).envelopes()]
    named = [json.loads(base64.b64decode(one["body"]))[0][0] for one in made]
    assert [len(refs) for refs in named] == [3] * 66 + [2]
    assert [tuple(ref) for refs in named for ref in refs] == runs
    assert {tuple(one["headers"]["timelimit"]) for one in made} == {(210, 180)}
    sizes = [publisher.runs_a_message(count) for count in (1, 127, 128, 1280, 100_000)]
    assert sizes == [1, 1, 2, 20, 20]


def test_runs_of_many_schedules_share_messages_where_nothing_else_differs(
    empty_broker: redis.Redis,
) -> None:
    groups = [
        replace(outgoing(), runs=[(str(uuid.UUID(int=100 * group + n)), TICK) for n in range(4)])
        for group in range(64)
    ]
    other = replace(outgoing(), limits=(9, 8), runs=[(str(uuid.UUID(int=7)), TICK)])
    assert publisher.push([*groups[:32], other, *groups[32:]])
    made = [json.loads(raw) for raw in empty_broker.lrange(QUEUE, 0, -1)]
    named = [json.loads(base64.b64decode(one["body"]))[0][0] for one in made][::-1]
    assert [len(refs) for refs in named] == [4] * 64 + [1]
    expected = [run for group in [*groups, other] for run in group.runs]
    assert [tuple(ref) for refs in named for ref in refs] == expected
    assert [one["headers"]["timelimit"] for one in made] == [[9, 8]] + [[280, 240]] * 64


def test_every_message_of_a_batch_has_its_own_id() -> None:
    runs = [(str(uuid.UUID(int=n)), TICK) for n in range(3)]
    made = [json.loads(raw) for raw in replace(outgoing(), runs=runs).envelopes()]
    assert len({one["headers"]["id"] for one in made}) == 3
    bodies = [json.loads(base64.b64decode(one["body"]))[0] for one in made]
    assert bodies == [[[[run_id, TICK]]] for run_id, _ in runs]
    assert made[2]["headers"]["argsrepr"] == f"[[['{runs[2][0]}', '{TICK}']]]"
