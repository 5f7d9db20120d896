"""Chrono's own processes for a benchmark, each a child of ours, and runs for them to execute."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from bench import harness

STOP_WITHIN_SEC = 60
READY_WITHIN_SEC = 60


class Process:
    """A `manage.py` process of ours: a worker or a dispatcher."""

    def __init__(self, log: IO[bytes], *words: str, **environment: str) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", *words],
            cwd=harness.ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self.process.pid

    def is_ready(self) -> bool:
        """Say whether a worker's heartbeat has begun."""
        assert self.process.poll() is None, f"the process ended with {self.process.returncode}"
        return bool(harness.execute("SELECT 1 FROM workers WHERE pid = %s", self.pid))

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_WITHIN_SEC)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return -signal.SIGKILL


class Fleet:
    """Dispatcher and workers, all stopped at the end; they write into one log."""

    def __init__(self, home: Path, **environment: str) -> None:
        """Take what every process gets as its environment."""
        self.environment = environment
        self.log = (home / "fleet.log").open("ab")
        self.workers: dict[str, Process] = {}
        self.others: list[Process] = []

    def dispatcher(self) -> None:
        """Start a dispatcher, whose sweeps reap, replay, promote and let in."""
        words = ("dispatcher", "--name", "bench")
        self.others.append(Process(self.log, *words, **self.environment))

    def worker(
        self, name: str, *, concurrency: int, pool: str = "default", **environment: str
    ) -> Process:
        """Start a worker, whose predecessor of that name has ended."""
        words = ("worker", "--name", name, "--pools", pool, "--concurrency", str(concurrency))
        made = Process(self.log, *words, **{**self.environment, **environment})
        self.workers[name] = made
        return made

    def wait_ready(self) -> None:
        """Wait until every worker renews leases."""
        for one in list(self.workers.values()):
            wait_until(one.is_ready, READY_WITHIN_SEC)

    def stop(self) -> None:
        """End all of them."""
        everyone = [*self.workers.values(), *self.others]
        for one in everyone:
            if one.process.poll() is None:
                one.process.terminate()
        for one in everyone:
            one.stop()
        self.log.close()


@contextmanager
def fleet(home: Path, **environment: str) -> Iterator[Fleet]:
    """Run processes for the length of a block."""
    made = Fleet(home, **environment)
    try:
        yield made
    finally:
        made.stop()


def wait_until(look: Callable[[], object], within_sec: float, every_sec: float = 0.05) -> float:
    """Wait until `look` is true; return the seconds. Raises AssertionError."""
    began = time.monotonic()
    while not look():
        assert time.monotonic() - began < within_sec, f"not within {within_sec} s"
        time.sleep(every_sec)
    return time.monotonic() - began


def make_job(**fields: Any) -> Any:  # noqa: ANN401 - a Job, once Django is set up
    """Register a job without a schedule."""
    from jobs.models import Team
    from jobs.services import job_create

    team = Team.objects.get_or_create(slug="bench", defaults={"name": "Bench"})[0]
    return job_create(team, fields, actor="bench")


def queue_runs(jobs: Sequence[Any], count: int) -> list[str]:
    """Record and publish runs of these jobs in turn; return their ids."""
    from chronoproject.clock import db_now
    from runs import lifecycle
    from runs.decisions import new_run
    from runs.settling import as_due

    now = db_now()
    due = [as_due(job) for job in jobs]
    new = [
        new_run(due[n % len(due)], now + timedelta(microseconds=n + 1), priority="normal")
        for n in range(count)
    ]
    return [str(ref.run_id) for ref in lifecycle.record_ticks(new)]


def unfinished() -> int:
    """Return how many runs still have something to do."""
    return int(
        harness.execute(
            "SELECT count(*) FROM runs WHERE status IN ('waiting','queued','running','retrying')"
        )[0][0]
    )
