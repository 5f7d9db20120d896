"""Sweeps: reaping, replay, partitions, housekeeping. Each reaches its state with no signal sent."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.models import F
from pytest_django import Settings

from chronoproject.clock import db_now
from jobs.models import IdempotencyKey
from runs import floor, lifecycle, partitions, publisher
from runs.leases import NamedLease
from runs.maintenance import Maintenance
from runs.models import Alert, Lease, Run, RunAttempt, Worker
from runs.records import RunRef
from runs.sweeps import Sweep, Sweeper, housekeeping, registry, replay
from runs.sweeps.partitions import drop_old, make_ahead, watch_default
from runs.sweeps.reaper import Reaper
from tests.integration import support

pytestmark = pytest.mark.django_db


class Clock:
    """A monotonic clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def broker(valkey: redis.Redis) -> Iterator[redis.Redis]:
    publisher.client.cache_clear()
    publisher.breaker = publisher.Breaker()
    yield valkey
    publisher.client.cache_clear()


def overdue_run() -> RunRef:
    ref = support.queued(support.job())
    support.claim([ref], lease_sec=0)
    return ref


def test_the_reaper_waits_a_third_of_a_lease_by_its_own_clock(settings: Settings) -> None:
    settings.CHRONO_LEASE_SEC = 30
    clock = Clock()
    reaper, ref = Reaper(clock), overdue_run()
    assert reaper.run_once() == 0
    clock.now = 9.9
    assert reaper.run_once() == 0
    clock.now = 10.0
    assert reaper.run_once() == 1
    assert (support.row(ref).status, support.row(ref).reason) == ("retrying", "worker_lost")
    assert RunAttempt.objects.get().outcome == "worker_lost"


def test_a_lease_that_moved_starts_the_wait_anew() -> None:
    clock = Clock()
    reaper, ref = Reaper(clock), overdue_run()
    reaper.run_once()
    support.set_columns(ref, "lease_until = lease_until + interval '1 millisecond'")
    clock.now = 10.0
    assert reaper.run_once() == 0
    clock.now = 20.0
    assert reaper.run_once() == 1


def test_a_lease_that_has_not_run_out_is_not_looked_at() -> None:
    clock = Clock()
    reaper, ref = Reaper(clock), support.queued(support.job())
    support.claim([ref], lease_sec=30)
    reaper.run_once()
    clock.now = 1000.0
    assert reaper.run_once() == 0
    assert support.row(ref).status == "running"


@pytest.mark.django_db(transaction=True)
def test_a_broken_connection_makes_the_reaper_forget_what_it_saw() -> None:
    clock = Clock()
    reaper = Reaper(clock)
    overdue_run()
    reaper.run_once()
    connection.close()
    clock.now = 10.0
    assert reaper.run_once() == 0
    clock.now = 20.0
    assert reaper.run_once() == 1


@pytest.mark.django_db(transaction=True)
def test_a_flushed_broker_gets_every_queued_run_back(broker: redis.Redis) -> None:
    refs = [support.queued(support.job()) for _ in range(3)]
    assert replay.replay_lost() == 0
    broker.flushdb()
    assert replay.replay_lost() == 3
    assert broker.llen("default.normal") == 3
    assert replay.replay_lost() == 0
    assert len(support.claim(refs)) == 3


@pytest.mark.django_db(transaction=True)
def test_a_run_that_the_queue_has_passed_by_is_published_again(broker: redis.Redis) -> None:
    broker.set(publisher.EPOCH_KEY, (db_now() - timedelta(hours=1)).isoformat())
    lost = support.queued(support.job())
    broker.delete("default.normal")
    support.queued(support.job())
    support.set_columns(lost, "published_at = published_at - interval '29 seconds'")
    assert replay.replay_lost() == 0
    support.set_columns(lost, "published_at = published_at - interval '2 seconds'")
    replayed_before = support.row(lost).published_at
    assert replay.replay_lost() == 1
    replayed = support.row(lost).published_at
    assert replayed is not None
    assert replayed_before is not None
    assert replayed > replayed_before
    assert broker.llen("default.normal") == 2


@pytest.mark.django_db(transaction=True)
def test_in_an_empty_queue_five_seconds_are_enough(broker: redis.Redis) -> None:
    lost = support.queued(support.job())
    broker.set(publisher.EPOCH_KEY, (db_now() - timedelta(hours=1)).isoformat())
    broker.delete("default.normal")
    assert replay.replay_lost() == 0
    support.set_columns(lost, "published_at = published_at - interval '6 seconds'")
    assert replay.replay_lost() == 1


@pytest.mark.django_db(transaction=True)
def test_what_could_not_be_pushed_goes_out_when_redis_is_back(
    broker: redis.Redis, settings: Settings
) -> None:
    url = settings.REDIS_URL
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    publisher.client.cache_clear()
    ref = support.queued(support.job())
    assert replay.replay_lost() == 0
    settings.REDIS_URL = url
    publisher.client.cache_clear()
    publisher.breaker = publisher.Breaker()
    assert replay.replay_lost() == 1
    assert support.row(ref).published_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_long_queue_is_not_fed(broker: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "FULL_LENGTH", 1)
    support.queued(support.job())
    support.set_columns(support.queued(support.job()), "published_at = NULL")
    assert replay.replay_lost() == 0


def test_partitions_are_made_ahead_and_only_once() -> None:
    today = db_now().date()
    partitions.drop([today + timedelta(days=14)])
    assert make_ahead() == 2
    assert make_ahead() == 0
    assert today + timedelta(days=14) in partitions.existing_days("run_attempts")


def test_days_past_retention_are_dropped_and_unfinished_ones_told(
    settings: Settings,
) -> None:
    settings.CHRONO_RETENTION_DAYS = 30
    today = support.this_second()
    done_day, busy_day = (today - timedelta(days=days) for days in (40, 41))
    partitions.ensure([done_day.date(), busy_day.date()])
    job = support.job()
    done, busy = support.queued(job, done_day), support.queued(job, busy_day)
    lifecycle.cancel([done])
    assert drop_old() == 2
    days = partitions.existing_days()
    assert done_day.date() not in days
    assert busy_day.date() in days
    assert support.row(busy).status == "queued"
    assert Alert.objects.get(kind="partition_kept").dedupe_key.endswith(str(busy_day.date()))


def test_the_default_partition_catches_what_no_day_holds_and_is_told() -> None:
    assert watch_default() == 0
    ref = support.queued(support.job(), support.this_second() + timedelta(days=400))
    assert support.row(ref).status == "queued"
    assert watch_default() == 1
    assert watch_default() == 0
    assert Alert.objects.get().kind == "partition_default"


def test_the_floor_follows_the_oldest_unfinished_run() -> None:
    old = support.this_second() - timedelta(days=5)
    partitions.ensure([old.date()])
    ref = support.queued(support.job(), old)
    assert floor.read() == old.replace(hour=0, minute=0, second=0)
    assert floor.raise_up() == old.replace(hour=0, minute=0, second=0)
    lifecycle.cancel([ref])
    yesterday = db_now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    assert floor.raise_up() == yesterday
    lifecycle.rerun([ref])
    assert floor.read() == old.replace(hour=0, minute=0, second=0)


def test_a_lease_is_held_by_one_until_it_is_released_or_runs_out() -> None:
    first, second = (NamedLease("sweeps", holder, 60) for holder in ("a", "b"))
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    assert not first.acquire()
    assert Lease.objects.get().term == 2
    with connection.cursor() as cursor:
        cursor.execute("UPDATE leases SET lease_until = clock_timestamp() - interval '1 second'")
    assert first.acquire()
    assert Lease.objects.get().term == 3


def test_maintenance_sweeps_only_while_it_holds_the_lease() -> None:
    first, second = Maintenance("a"), Maintenance("b")
    assert "partitions" in first.run_once()
    assert second.run_once() == {}
    assert first.run_once() == {}


def test_a_sweep_that_fails_stops_no_other() -> None:
    def failing() -> int:
        raise DatabaseError("this one is broken")

    try:
        registry.sweeps["test"] = [Sweep("broken", 1, failing), Sweep("well", 1, lambda: 7)]
        assert Sweeper("test").run_once() == {"well": 7}
    finally:
        del registry.sweeps["test"]


@pytest.mark.django_db(transaction=True)
def test_a_lost_connection_ends_the_cycle_and_is_told_by_who_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def cut_off() -> int:
        connection.ensure_connection()
        connection.connection.close()
        return int(floor.SQL["purge_figures"].run())

    try:
        registry.sweeps["test"] = [Sweep("cut off", 1, cut_off), Sweep("well", 1, lambda: 7)]
        with pytest.raises((OperationalError, InterfaceError)):
            Sweeper("test").run_once()
    finally:
        del registry.sweeps["test"]
        connection.close()
    assert caplog.records == []


def test_overdue_jobs_are_told_once_a_tick() -> None:
    job = support.job(schedule="* * * * *", next_run_at=db_now() - timedelta(minutes=2))
    support.job(schedule="* * * * *", next_run_at=db_now() - timedelta(seconds=30))
    assert housekeeping.watch_overdue_jobs() == 1
    assert housekeeping.watch_overdue_jobs() == 0
    assert Alert.objects.get().job_id == job.job_id


def worker(worker_id: str, *pools: str, ago: int = 1, **values: Any) -> Worker:  # noqa: ANN401
    same = {"name": "w", "hostname": "h", "pid": 1, "concurrency": 1, "version": "1"}
    seen = db_now() - timedelta(seconds=ago)
    fields = {**same, "pools": list(pools), "last_seen_at": seen, "started_at": seen, **values}
    return Worker.objects.create(worker_id=worker_id, **fields)


def waits(pool: str, seconds: int) -> None:
    ref = support.queued(support.job(pool=pool))
    Run.objects.filter(run_id=ref.run_id).update(available_at=db_now() - timedelta(seconds=seconds))


def test_a_pool_that_no_worker_serves_is_told_once() -> None:
    worker("alive", "default")
    for pool, seconds in (("defualt", 90), ("defualt", 61), ("default", 90), ("new", 50)):
        waits(pool, seconds)
    assert housekeeping.watch_pools() == 1
    assert housekeeping.watch_pools() == 0
    alert = Alert.objects.get()
    assert (alert.kind, alert.owner_id, alert.job_id) == ("pool_unserved", None, None)
    assert alert.message.startswith("no worker serves the pool defualt; 2 runs wait in it")
    waits("defualt", 70)
    Run.objects.filter(pool="defualt").update(available_at=F("available_at") + timedelta(seconds=2))
    assert housekeeping.watch_pools() == 0  # another run is the oldest, of the same trouble


@pytest.mark.parametrize("left", [{"ago": 600}, {"state": "stopped"}, {"state": "draining"}])
def test_a_pool_whose_last_worker_has_left_is_told_each_time(left: dict[str, Any]) -> None:
    waits("etl", 90)
    assert housekeeping.watch_pools() == 1
    worker("first", "etl", "other", **left)
    assert housekeeping.watch_pools() == 1
    Worker.objects.update(last_seen_at=db_now() - timedelta(seconds=300))
    assert housekeeping.watch_pools() == 0
    worker("second", "etl")
    assert housekeeping.watch_pools() == 0


def test_old_idempotency_keys_and_silent_workers_go() -> None:
    owner = support.team()
    old, young = (db_now() - timedelta(hours=hours) for hours in (25, 23))
    for key, at in (("old", old), ("young", young)):
        IdempotencyKey.objects.create(owner=owner, key=key, request_hash="x", created_at=at)
    assert housekeeping.purge_idempotency_keys() == 1
    assert IdempotencyKey.objects.get().key == "young"
    values = {"name": "w", "hostname": "h", "pid": 1, "pools": ["default"], "concurrency": 1}
    for worker_id, ago in (("silent", 120), ("alive", 1)):
        seen = db_now() - timedelta(seconds=ago)
        Worker.objects.create(worker_id=worker_id, version="1", last_seen_at=seen, **values)
    assert housekeeping.watch_workers() == 1
    assert Worker.objects.get(worker_id="silent").state == "lost"
    assert Worker.objects.get(worker_id="alive").state == "running"
