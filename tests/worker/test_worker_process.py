"""The worker as it runs in production: Celery, PostgreSQL, Valkey, real kills."""

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django.fixtures import Settings

from runs import lifecycle, log_stream, publisher
from runs.models import Run, Worker
from runs.records import RunRef
from runs.sweeps.reaper import Reaper
from runs.sweeps.replay import replay_lost
from tests import servers
from tests.worker import sample_tasks  # noqa: F401 - registers tasks
from tests.worker.harness import ROOT, eventually, kill, marked
from tests.worker.proxy import Proxy, behind, proxy
from tests.worker.workers import (
    FAST,
    RunningWorker,
    attempts,
    current,
    until,
    with_run_id,
    worker,
    worker_command,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]
DONE = ("succeeded", "dead", "cancelled")
_numbers = itertools.count(1)


def marker() -> str:
    return f"3800.{os.getpid()}{next(_numbers):04d}"


def log_of(run: Run) -> str:
    return log_stream.read(run.output_ref).decode()


def test_each_kind_is_executed_and_its_log_kept(shared_worker: RunningWorker) -> None:
    runs = [
        shared_worker.runs("echo out; echo err >&2"),
        shared_worker.calls("chrono.echo", "hi"),
        shared_worker.runs("exit 3"),
        shared_worker.runs(["true"]),
        shared_worker.calls("chrono.fail"),
    ]
    said, echoed, failed, silent, raised = (until(run, *DONE) for run in runs)
    assert (said.status, said.exit_code, said.attempt) == ("succeeded", 0, 1)
    assert log_of(said) == "out\nerr\n"
    assert said.claim_id is not None
    assert said.output_ref == log_stream.log_prefix(
        said.scheduled_for, said.run_id, 1, said.claim_id
    )
    assert echoed.output == {"text": "hi", "runId": str(echoed.run_id)}
    assert log_of(echoed).startswith("hi\nINFO chrono.run: run ")
    assert (failed.status, failed.reason, failed.exit_code) == ("dead", "exit_code", 3)
    assert (silent.status, silent.output_ref) == ("succeeded", "")
    assert (raised.status, raised.reason) == ("dead", "exception")
    assert raised.error == "RuntimeError: this task always fails"


def test_a_failed_attempt_is_archived_and_waits_for_the_next(shared_worker: RunningWorker) -> None:
    again = {"retries": 1, "backoff": {"baseSec": 300, "jitter": 0}}
    run = until(shared_worker.runs("echo no; exit 1", **again), "retrying")
    assert attempts(run) == [(1, "failed", "exit_code")]
    assert run.started_at is not None
    assert 295 < (run.available_at - run.started_at).total_seconds() < 330


def test_a_cancel_reaches_a_running_attempt_within_two_seconds_and_grace(
    shared_worker: RunningWorker,
) -> None:
    mark = marker()
    runs = [
        shared_worker.runs(f"trap '' TERM; sleep {mark} & sleep {mark}", killGraceSec=1),
        shared_worker.calls("chrono.sleep", 60),
    ]
    for run in runs:
        until(run, "running")
    eventually(lambda: marked(mark))
    asked = time.monotonic()
    lifecycle.cancel([RunRef(run.run_id, run.scheduled_for) for run in runs])
    for run in runs:
        ended = until(run, *DONE)
        assert (ended.status, ended.reason) == ("cancelled", "user")
    assert time.monotonic() - asked < 2 + 1 + 2  # and two seconds for a busy machine
    assert marked(mark) == []


def test_a_pool_child_keeps_its_connection(shared_worker: RunningWorker) -> None:
    """Celery's Django fixup would close it around every task: a connect for each run."""
    for _ in range(4):
        until(shared_worker.calls("chrono.noop"), "succeeded")
    before = sessions()
    runs = [shared_worker.calls("chrono.noop") for _ in range(40)]
    for run in runs:
        until(run, "succeeded")
    assert sessions() - before <= 3  # the second child's first one, and the statistics' own


def sessions() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT sessions FROM pg_stat_database WHERE datname = current_database()")
        (count,) = cursor.fetchone()
    return int(count)


def test_a_dead_pool_child_ends_its_attempt_at_once(shared_worker: RunningWorker) -> None:
    mark = marker()
    run = shared_worker.runs(f"setsid sleep {mark} & sleep {mark}")
    eventually(lambda: len(marked(mark)) >= 2)
    kill(shared_worker.child_of(run))
    ended = until(run, "retrying", within_sec=10)
    assert marked(mark) == []
    assert (ended.reason, ended.lost_count, ended.attempt_limit) == ("crashed", 1, 2)
    assert attempts(run) == [(1, "crashed", "crashed")]
    assert until(shared_worker.runs("true"), *DONE).status == "succeeded"


def test_a_task_that_holds_the_gil_keeps_its_lease_and_is_ended_by_its_limit(
    shared_worker: RunningWorker,
) -> None:
    run = shared_worker.calls("sample.hold_gil", timeoutSec=9, killGraceSec=1)
    until(run, "running")
    reaper = Reaper()
    while current(run).status == "running":
        reaper.run_once()
        time.sleep(0.2)
    ended = current(run)
    assert (ended.status, ended.reason) == ("dead", "timeout")
    assert (
        9 < lasted_sec(ended) < 16
    )  # longer than the lease of 6 s: it was renewed while no Python ran


def test_a_task_that_ignores_its_limit_times_out_and_does_not_crash(
    shared_worker: RunningWorker,
) -> None:
    """Celery's hard limit comes at the same moment as the shim's; either means a time-out."""
    run = shared_worker.calls("sample.stubborn", 60, timeoutSec=1, killGraceSec=1)
    ended = until(run, *DONE, "retrying")
    assert (ended.status, ended.reason, ended.lost_count) == ("dead", "timeout", 0)


def lasted_sec(run: Run) -> float:
    assert run.finished_at is not None
    assert run.started_at is not None
    return (run.finished_at - run.started_at).total_seconds()


def test_terminated_connections_cost_no_outcome(shared_worker: RunningWorker) -> None:
    run = shared_worker.runs("echo begun; sleep 1; echo done")
    until(run, "running")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    ended = until(run, *DONE)
    assert (ended.status, ended.attempt) == ("succeeded", 1)
    assert until(shared_worker.runs("true"), *DONE).status == "succeeded"


def test_kill_of_main_leaves_no_process_and_the_run_goes_on_elsewhere(settings: Settings) -> None:
    settings.CHRONO_LEASE_SEC = 6  # as the workers' own; the reaper waits a third of it
    mark = marker()
    with worker() as first:
        run = first.runs(f"(setsid sleep {mark} &); [ $CHRONO_ATTEMPT = 2 ] || sleep {mark}")
        eventually(lambda: len(marked(mark)) >= 2)
        first.process.kill()
        eventually(lambda: not marked(mark), within_sec=5)
        assert with_run_id(run) == []
        reaper = Reaper()
        eventually(lambda: reaper.run_once(), within_sec=30)
    lost = current(run)
    assert (lost.status, lost.lost_count) == ("retrying", 1)
    assert attempts(run) == [(1, "worker_lost", "worker_lost")]
    with worker(first.pool):
        eventually(lambda: lifecycle.promote())
        ended = until(run, *DONE)
    assert (ended.status, ended.attempt) == ("succeeded", 2)


def test_drain_lets_short_runs_end_and_gives_long_ones_back() -> None:
    mark = marker()
    with worker(concurrency=3, CHRONO_DRAIN_SEC="4") as running:
        short = running.runs("sleep 2; echo done")
        long = running.runs(f"trap '' TERM; sleep {mark}")
        task = running.calls("chrono.sleep", 60)
        for run in (short, long, task):
            until(run, "running")
        eventually(lambda: marked(mark))
        running.process.send_signal(signal.SIGTERM)
        late = running.runs("true")
        assert running.process.wait(30) == 0, running.log()
        assert marked(mark) == []
        assert current(short).status == "succeeded"
        for run in (long, task):
            given_back = current(run)
            assert (given_back.status, given_back.lost_count) == ("queued", 0), running.log()
            assert given_back.attempt_limit == 2
            assert attempts(run) == [(1, "drained", "drain")]
        assert current(late).status == "queued"
        assert Worker.objects.get(name=running.name).state == "stopped"


def test_a_broker_without_memory_costs_neither_the_worker_nor_a_run(
    shared_worker: RunningWorker, valkey: redis.Redis
) -> None:
    """It refuses writes; with kombu's unacked sets, a worker lost the message and its life."""
    before = [shared_worker.runs("sleep 0.3") for _ in range(6)]
    valkey.config_set("maxmemory", "1")
    try:
        for run in before:
            until(run, "succeeded")
        refused = shared_worker.runs("true")
        assert valkey.llen(f"{shared_worker.pool}.normal") == 0
        assert current(refused).status == "queued"
    finally:
        valkey.config_set("maxmemory", "0")
    publisher.breaker._open_until = 0.0
    eventually(replay_lost)
    assert until(refused, "succeeded").attempt == 1


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A worker that a test may cut off from its servers."""

    worker: RunningWorker
    database: Proxy
    broker: Proxy


@pytest.fixture(scope="module")
def partitioned(
    django_db_setup: None, django_db_blocker: pytest.FixtureRequest
) -> Iterator[Partitioned]:
    given = servers.addresses
    with (
        django_db_blocker.unblock(),  # type: ignore[attr-defined]
        proxy(given.database_url) as database,
        proxy(given.redis_url) as broker,
        worker(
            DATABASE_URL=behind(given.database_url, database),
            REDIS_URL=behind(given.redis_url, broker),
        ) as running,
    ):
        yield Partitioned(running, database, broker)


def test_an_outcome_is_kept_while_the_database_is_away(partitioned: Partitioned) -> None:
    run = partitioned.worker.runs("sleep 1.5; echo done")
    until(run, "running")
    partitioned.database.cut()
    time.sleep(2.5)  # the outage; the command ends within it, and its lease lasts
    partitioned.database.heal()
    ended = until(run, *DONE)
    assert (ended.status, ended.attempt, attempts(run)) == ("succeeded", 1, [])
    assert until(partitioned.worker.runs("true"), *DONE).status == "succeeded"


def test_limits_hold_while_the_broker_is_away(partitioned: Partitioned) -> None:
    mark = marker()
    text = f"trap '' TERM; sleep {mark}"
    run = partitioned.worker.runs(text, timeoutSec=4, killGraceSec=1)
    eventually(lambda: marked(mark))
    partitioned.broker.cut()
    ended = until(run, *DONE)
    assert (ended.status, ended.reason) == ("dead", "timeout")
    assert 5 <= lasted_sec(ended) < 8
    partitioned.broker.heal()
    later = partitioned.worker.runs("true")
    assert until(later, *DONE, within_sec=60).status == "succeeded"


def test_a_worker_cut_off_from_the_database_kills_before_the_lease_ends(
    partitioned: Partitioned,
) -> None:
    mark = marker()
    running = partitioned.worker
    command = running.runs(f"trap '' TERM; sleep {mark}", killGraceSec=60)
    task = running.calls("sample.stubborn", 60, killGraceSec=60)
    for run in (command, task):
        until(run, "running")
    eventually(lambda: marked(mark))
    children = set(running.pool_children())
    partitioned.database.cut()
    lease_ends = [current(run).lease_until for run in (command, task)]
    eventually(lambda: not marked(mark) and children - set(running.pool_children()))
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp() < ALL(%s)", [lease_ends])
        assert cursor.fetchone() == (True,)
    partitioned.database.heal()
    for run in (command, task):
        ended = until(run, "retrying")
        assert (ended.reason, ended.lost_count) == ("worker_lost", 1)


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({"DATABASE_URL": "postgresql://nobody:secret@127.0.0.1:9/none"}, "database"),
        ({"REDIS_URL": "redis://:secret@127.0.0.1:9/0"}, "broker"),
    ],
)
def test_a_worker_without_its_servers_says_so_in_a_line(
    environment: dict[str, str], word: str
) -> None:
    ended = subprocess.run(
        worker_command(),
        cwd=ROOT,
        env={**os.environ, **FAST, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode != 0
    assert word in ended.stderr
    assert "secret" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"pool": "threads"}, "prefork"),
        ({"concurrency": 0}, "concurrency"),
        ({"pools": " , "}, "pool"),
        ({}, "CHRONO_STORAGE_URL"),
    ],
)
def test_a_worker_that_cannot_work_refuses(
    options: dict[str, Any], word: str, settings: Settings
) -> None:
    settings.CHRONO_STORAGE_URL = "ftp://somewhere/"
    with pytest.raises(CommandError, match=word):
        call_command("worker", **options)
