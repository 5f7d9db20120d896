"""One peer's burst: so many hourly entries due at once, until all their messages are in Redis.

Runs in the peers' environment: `python -m bench.peers.burst <peer> <count> <redis url>`. Each peer
runs its own loop in this very process, as Chrono's dispatcher does in the same comparison.
"""

import json
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import redis
from celery import Celery
from celery.beat import PersistentScheduler
from celery.schedules import crontab

HOURLY = "0 * * * *"
OVERDUE = timedelta(hours=2)


def noop() -> None:
    """What rq's entries call."""


def celery_app(url: str) -> Celery:
    """Return an app with a task that does nothing and keeps no result."""
    app = Celery("peers", broker=url, set_as_current=True)
    app.conf.update(task_ignore_result=True, redbeat_redis_url=url)
    app.task(name="peers.noop")(noop)
    app.finalize()
    return app


def beat(count: int, url: str) -> tuple[float, str]:
    """Return the seconds of celery beat with its default scheduler, and its queue."""
    app = celery_app(url)
    last = app.now() - OVERDUE
    app.conf.beat_schedule = {
        f"entry-{n}": {"task": "peers.noop", "schedule": crontab(minute=0), "last_run_at": last}
        for n in range(count)
    }
    with tempfile.TemporaryDirectory() as folder:
        scheduler = PersistentScheduler(app=app, schedule_filename=f"{folder}/schedule")
        start = time.perf_counter()
        while scheduler.tick() == 0:  # as celery.beat.Service does: one entry a tick
            if scheduler.should_sync():
                scheduler._do_sync()
        seconds = time.perf_counter() - start
        scheduler.close()
    return seconds, "celery"


def redbeat(count: int, url: str) -> tuple[float, str]:
    """Return the seconds of redbeat, which keeps its entries in Redis, and its queue."""
    from redbeat import RedBeatScheduler, RedBeatSchedulerEntry
    from redbeat.schedulers import acquire_distributed_beat_lock

    app = celery_app(url)
    last = app.now() - OVERDUE
    for n in range(count):
        entry = RedBeatSchedulerEntry(f"entry-{n}", "peers.noop", crontab(minute=0), app=app)
        entry.save()
        entry.reschedule(last_run_at=last)
    scheduler = RedBeatScheduler(app=app)
    acquire_distributed_beat_lock(SimpleNamespace(scheduler=scheduler))
    start = time.perf_counter()
    scheduler.tick()
    seconds = time.perf_counter() - start
    scheduler.close()
    return seconds, "celery"


def rq(count: int, url: str) -> tuple[float, str]:
    """Return the seconds of rq's cron scheduler, and its queue."""
    from rq.cron import CronScheduler

    from bench.peers import burst  # rq takes no function of __main__

    scheduler = CronScheduler(redis.Redis.from_url(url), logging_level="WARNING")
    for n in range(count):
        scheduler.register(burst.noop, "default", cron=HOURLY, name=f"entry-{n}")
    for job in scheduler.get_jobs():
        job.next_enqueue_time = datetime.now(UTC) - OVERDUE  # noqa: TID251
    scheduler.register_birth()
    start = time.perf_counter()
    scheduler.enqueue_jobs()
    seconds = time.perf_counter() - start
    scheduler.register_death()
    return seconds, "rq:queue:default"


def main() -> None:
    """Measure one peer; void unless every entry was sent once."""
    name, count, url = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    server = redis.Redis.from_url(url)
    server.flushdb()
    seconds, queue = {"beat": beat, "redbeat": redbeat, "rq": rq}[name](count, url)
    sent = server.llen(queue)
    assert sent == count, f"{name} sent {sent} of {count}"
    server.flushdb()
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
