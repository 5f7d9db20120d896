"""Real workers: `manage.py worker` against the private PostgreSQL and Valkey."""

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runs.executors import proctree
from runs.models import Run, RunAttempt, Worker
from runs.records import RunRef
from tests.factories import make_job, make_run, read_run
from tests.worker.harness import ROOT, eventually

STOP_WITHIN_SEC = 40
FAST = {
    "CHRONO_LEASE_SEC": "6",
    "CHRONO_DRAIN_SEC": "20",
    "CHRONO_TASK_MODULES": "runs.builtin_tasks,tests.worker.sample_tasks",
    "CHRONO_WORKER_EVENTS": "0",
}


class RunningWorker:
    """A worker process and what it wrote."""

    def __init__(
        self, program: Sequence[str], pool: str, concurrency: int, extra: Mapping[str, str]
    ) -> None:
        self.name = f"worker-of-{pool}"
        self.pool = pool
        self.log_path = Path(tempfile.mkstemp(prefix="chrono-worker-", suffix=".log")[1])
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, *program, "worker", "--name", self.name),
                    *("--pools", pool, "--concurrency", str(concurrency)),
                ],
                cwd=ROOT,
                env={**os.environ, **FAST, **extra},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        eventually(self.is_ready, within_sec=60)

    def is_ready(self) -> bool:
        """Say whether its heartbeat has begun."""
        assert self.process.poll() is None, self.log()
        return Worker.objects.filter(name=self.name, pid=self.process.pid).exists()

    def runs(self, text: str | list[str], **fields: Any) -> Run:  # noqa: ANN401 - fields of a job
        """Return a run of a new command job in this worker's pool."""
        return make_run(make_job(command=text, **{"pool": self.pool, **fields}))

    def calls(self, name: str, *args: Any, **fields: Any) -> Run:  # noqa: ANN401 - fields of a job
        """Return a run of a new task job in this worker's pool."""
        payload = {"type": "task", "task": name, "args": list(args), "kwargs": {}}
        return make_run(make_job(payload=payload, **{"pool": self.pool, **fields}))

    @property
    def worker_id(self) -> str:
        return Worker.objects.get(name=self.name, pid=self.process.pid).worker_id

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def pool_children(self) -> list[int]:
        """Return the pids of Celery's pool children, shims left out."""
        own = [one for one in proctree.descendants(self.process.pid) if not is_shim(one.pid)]
        return [one.pid for one in own if one.parent == self.process.pid]

    def child_of(self, run: Run) -> int:
        """Return the pool child that executes the run, by the command's shim."""
        (found,) = with_run_id(run)[:1]
        process = proctree.look(found)
        while process is not None and not is_shim(process.pid):
            process = proctree.look(process.parent)
        assert process is not None
        words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        return int(words[-6])  # … slot, child's pid, its start, uid, gid, isolated, an empty rest

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal the main process and wait for its end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(STOP_WITHIN_SEC)


def worker_command(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", "worker", *arguments]


def is_shim(pid: int) -> bool:
    try:
        return b"shim.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def with_run_id(run: Run) -> list[int]:
    """Return the living processes of a run, by their environment."""
    words = (f"CHRONO_RUN_ID={run.run_id}".encode(),)
    return [process.pid for process in proctree.carrying(words)]


@contextmanager
def worker(
    pool: str = "",
    *,
    concurrency: int = 2,
    program: Sequence[str] = ("manage.py",),
    **extra: str,
) -> Iterator[RunningWorker]:
    """Run a worker with a pool of its own; nothing of it is left, whatever the test did."""
    running = RunningWorker(program, pool or f"p{uuid.uuid4().hex[:6]}", concurrency, extra)
    try:
        yield running
    except BaseException:
        sys.stderr.write(running.log())
        raise
    finally:
        shims = [one.pid for one in proctree.descendants(running.process.pid) if is_shim(one.pid)]
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGQUIT)
            try:
                running.process.wait(10)
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()
        eventually(lambda: not any(is_shim(pid) for pid in shims))
        running.log_path.unlink()


def current(run: Run) -> Run:
    """Return the run's row as it is now."""
    return read_run(RunRef(run.run_id, run.scheduled_for))


def until(run: Run, *statuses: str, within_sec: float = 30) -> Run:
    """Wait until the run has one of these statuses."""
    eventually(lambda: current(run).status in statuses, within_sec=within_sec)
    return current(run)


def attempts(run: Run) -> list[tuple[int, str, str]]:
    """Return (attempt, outcome, reason) of the run's archived attempts."""
    rows = RunAttempt.objects.filter(run_id=run.run_id).order_by("attempt")
    return list(rows.values_list("attempt", "outcome", "reason"))
