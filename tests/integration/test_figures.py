"""What dispatchers and queues tell of themselves, and the guard against starvation."""

from datetime import timedelta

import pytest
import redis
from django.db import connection
from django.test import Client
from pytest_django import Settings

from chronoproject.clock import db_now
from runs import figures, publisher
from runs.dispatcher import Dispatcher
from runs.models import Figure, Run, Worker
from runs.sweeps import promote
from tests.integration import support
from tests.integration.admin_support import body

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def own_breaker(valkey: redis.Redis) -> None:
    publisher.client.cache_clear()
    publisher.breaker = publisher.Breaker()


def told(kind: str, name: str) -> dict[str, object]:
    found: dict[str, object] = Figure.objects.get(kind=kind, name=name).figures
    return found


def test_a_dispatcher_tells_its_batches() -> None:
    due = db_now().replace(microsecond=0) - timedelta(seconds=2)
    schedule = f"{due.second} {due.minute} * * * *"
    for _ in range(3):
        support.job(schedule=schedule, next_run_at=due)
    Dispatcher("d1").dispatch_due()
    found = told("dispatcher", "d1")
    assert found["totals"] == {"batches": 1, "jobs": 3, "ticks": 3, "quarantined": 0}
    assert found["shards"] == [0]
    last = found["last"]
    assert isinstance(last, dict)
    assert (last["jobs"], last["ticks"]) == (3, 3)
    assert 2 < last["lag_sec"] < 60
    stages = [last[f"{stage}_sec"] for stage in ("claim", "decide", "record", "publish")]
    assert all(stage >= 0 for stage in stages)
    assert sum(stages) < last["lag_sec"]
    assert found["median"] == found["greatest"] == last


def test_a_dispatcher_without_work_tells_that() -> None:
    Dispatcher("d1").dispatch_due()
    found = told("dispatcher", "d1")
    assert found["totals"] == {"batches": 0, "jobs": 0, "ticks": 0, "quarantined": 0}
    assert found["last"] is None


def test_queues_tell_depth_and_age_until_they_are_empty() -> None:
    for ago in (0, 30):
        ref = support.queued(support.job(pool="etl"))
        Run.objects.filter(run_id=ref.run_id).update(available_at=db_now() - timedelta(seconds=ago))
    support.queued(support.job(priority="high"))
    assert figures.measure_queues() == 2
    found = told("queue", "etl.normal")
    assert (found["runs"], found["messages"]) == (2, 2)
    assert isinstance(found["oldest_age_sec"], float)
    assert 30 <= found["oldest_age_sec"] < 60
    assert told("queue", "default.high")["runs"] == 1
    Run.objects.filter(pool="etl").update(status="cancelled", finished_at=db_now())
    assert figures.measure_queues() == 2
    empty = {"runs": 0, "oldest_age_sec": 0.0, "messages": 2, "has_worker": False}
    assert told("queue", "etl.normal") == empty  # messages of runs that are cancelled: hints
    assert figures.measure_queues() == 1


def test_queues_of_a_pool_that_no_worker_serves_are_marked(admin_client: Client) -> None:
    support.queued(support.job(pool="defualt"))
    support.queued(support.job())
    Worker.objects.create(
        worker_id="w-1",
        name="w",
        hostname="h",
        pid=1,
        pools=["default"],
        concurrency=1,
        version="1",
    )
    figures.measure_queues()
    assert told("queue", "default.normal")["has_worker"] is True
    assert told("queue", "defualt.normal")["has_worker"] is False
    page = body(admin_client.get("/admin/runs/figure/"))
    assert page.count("no worker serves this pool") == 1
    Run.objects.update(status="cancelled", finished_at=db_now())
    figures.measure_queues()
    assert "no worker serves" not in body(admin_client.get("/admin/runs/figure/"))


def test_depth_is_unknown_while_redis_is_away(settings: Settings) -> None:
    support.queued(support.job())
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    publisher.client.cache_clear()
    figures.measure_queues()
    found = told("queue", "default.normal")
    assert (found["runs"], found["messages"]) == (1, None)
    publisher.client.cache_clear()


def test_figures_that_nobody_renews_are_forgotten() -> None:
    figures.write({("dispatcher", "gone"): {}, ("dispatcher", "here"): {}})
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE figures SET written_at = now() - interval '2 hours' WHERE name = 'gone'"
        )
    figures.measure_queues()
    assert list(Figure.objects.values_list("name", flat=True)) == ["here"]


def test_a_few_low_runs_that_waited_long_are_let_into_the_normal_queue(
    valkey: redis.Redis, settings: Settings
) -> None:
    settings.CHRONO_PRIORITY_AGE_SEC = 600
    job = support.job(priority="low")
    at = support.this_second()
    refs = [support.queued(job, at - n * support.SECOND) for n in range(15)]
    for n, ref in enumerate(refs):
        age = timedelta(seconds=599 if n < 3 else 700 + n)
        Run.objects.filter(run_id=ref.run_id).update(available_at=db_now() - age)
    valkey.flushall()
    assert promote.promote_aged() == promote.AGED_AT_ONCE == 10
    promoted = set(Run.objects.filter(priority="normal").values_list("run_id", flat=True))
    assert promoted == {ref.run_id for ref in refs[5:]}  # the oldest ten of the twelve
    assert valkey.llen("default.normal") == 10
    assert promote.promote_aged() == 2
    assert promote.promote_aged() == 0
    assert Run.objects.filter(priority="low").count() == 3
