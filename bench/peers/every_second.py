"""django-celery-beat's lateness with a task each second: due until started in a stock worker.

Runs in the peers' environment: `python -m bench.peers.every_second <seconds>` with REDIS_URL and
PEER_HOME, an empty folder, set. An interval has no grid: its next send is due a second after the
last, so lateness counts from there and what it adds up to is told as drift. A crontab each minute
runs beside it, late against the whole minute.
"""

import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from django.core.management import call_command

from bench.peers.beat_app import HOME

CELERY = [sys.executable, "-m", "celery", "-A", "bench.peers.beat_app"]
WORKER = [*CELERY, "worker", "--concurrency", "2", "--loglevel", "WARNING"]
BEAT = [*CELERY, "beat", "--loglevel", "WARNING", "--pidfile="]
BEAT += ["--scheduler", "django_celery_beat.schedulers:DatabaseScheduler"]
START_SEC = 30


def make_entries() -> None:
    """Make the tables and both entries."""
    from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

    call_command("migrate", verbosity=0)
    second = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.SECONDS)
    minute = CrontabSchedule.objects.create()
    entry = {"task": "peers.stamp", "queue": "celery"}
    PeriodicTask.objects.create(name="second", interval=second, args='["second"]', **entry)
    PeriodicTask.objects.create(name="minute", crontab=minute, args='["minute"]', **entry)


def stamps(kind: str) -> list[tuple[float, float]]:
    """Return (sent, started) of each task so far."""
    path = Path(HOME, f"{kind}.jsonl")
    return [tuple(json.loads(line)) for line in path.open()] if path.exists() else []


def observe(seconds: int) -> None:
    """Run a worker and beat until that many tasks have started after the first few."""
    processes = [subprocess.Popen(command, stdout=sys.stderr) for command in (WORKER, BEAT)]
    try:
        give_up = time.monotonic() + START_SEC + seconds * 1.2
        while len(stamps("second")) < seconds + 5:
            assert time.monotonic() < give_up, "beat or its worker sends nothing"
            assert all(one.poll() is None for one in processes), "beat or its worker has ended"
            time.sleep(1)
    finally:
        for one in reversed(processes):
            one.terminate()
        for one in processes:
            one.wait(30)


def main() -> None:
    """Measure."""
    seconds = int(sys.argv[1])
    make_entries()
    observe(seconds)
    found = stamps("second")[4 : seconds + 5]  # the first ones wait for the worker's start
    late = [start - (sent + 1) for (sent, _), (_, start) in pairwise(found)]
    drift = found[-1][0] - found[0][0] - (len(found) - 1)
    minutes = [start % 60 for _, start in stamps("minute")]
    print(json.dumps({"late_sec": late, "drift_sec": drift, "minute_late_sec": minutes}))


if __name__ == "__main__":
    main()
