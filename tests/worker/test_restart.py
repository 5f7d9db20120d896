"""A worker that takes no messages though it could, or too much memory, drains and restarts."""

from collections.abc import Iterator

import pytest
import redis

from runs import publisher
from runs.consumer_probe import DEAF_AFTER_SEC, ConsumerProbe
from runs.worker_process import EXIT_RESTART
from tests.worker.workers import until, worker

QUEUE = "probed.normal"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("redis_url")
def test_a_worker_that_takes_no_messages_any_more_restarts() -> None:
    with worker(program=("-m", "tests.worker.deaf_worker"), CHRONO_DRAIN_SEC="5") as deaf:
        until(deaf.runs("true"), "succeeded")
        left = deaf.runs("true")
        assert deaf.process.wait(30) == EXIT_RESTART, deaf.log()
        assert "no message taken for 1.5 s" in deaf.log()
    with worker(deaf.pool):
        assert until(left, "succeeded").attempt == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("redis_url")
def test_a_worker_whose_main_process_grows_drains_and_restarts() -> None:
    with worker(CHRONO_WORKER_MAX_MB="20") as grown:
        run = grown.runs("sleep 1")
        assert grown.process.wait(30) == EXIT_RESTART, grown.log()
        assert "MB of memory: this worker drains and restarts" in grown.log()
    with worker(grown.pool):
        assert until(run, "succeeded").lost_count == 0


class Watched:
    """A probe, its clock, and whether a pool child is free."""

    def __init__(self) -> None:
        self.now, self.is_free = 0.0, True
        self.probe = ConsumerProbe([QUEUE], lambda: self.is_free, lambda: self.now)

    def after(self, seconds: float) -> bool:
        self.now += seconds
        return self.probe.look()


@pytest.fixture
def watched(valkey: redis.Redis) -> Iterator[Watched]:
    valkey.lpush(QUEUE, "a message")
    yield Watched()
    valkey.delete(QUEUE)


def test_a_message_that_lies_there_too_long_tells(watched: Watched) -> None:
    assert [watched.after(0), watched.after(DEAF_AFTER_SEC - 1), watched.after(1)] == [
        *(False, False, True)
    ]


def test_a_message_that_is_taken_begins_the_wait_anew(watched: Watched) -> None:
    watched.after(0)
    watched.probe.on_received()
    assert not watched.after(DEAF_AFTER_SEC)
    assert not watched.after(1)
    assert watched.after(DEAF_AFTER_SEC)


def test_who_is_busy_or_has_nothing_to_take_is_not_deaf(
    watched: Watched, valkey: redis.Redis
) -> None:
    watched.after(0)
    watched.is_free = False
    assert not watched.after(DEAF_AFTER_SEC)
    watched.is_free = True
    watched.after(0)
    valkey.delete(QUEUE)
    assert not watched.after(DEAF_AFTER_SEC)


def test_redis_being_away_is_not_deafness(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.after(0)
    with monkeypatch.context() as patch:
        nobody = redis.Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=1)
        patch.setattr(publisher, "client", lambda: nobody)
        assert not watched.after(DEAF_AFTER_SEC)
    publisher.breaker._open_until = 0.0
    assert not watched.after(1)
    assert watched.after(DEAF_AFTER_SEC)
