"""One peer's throughput: `python -m bench.peers.throughput <peer> <count>`, in its environment.

The queue is filled before the worker starts, and time counts from the first execution to the last:
the peer's best case. REDIS, DB and PEER_HOME, an empty folder, are set; both servers' are empty.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench import cpu

PROCESSES = 4
AT_ONCE = 10  # Procrastinate has one process
GIVE_UP_SEC = 300
DONE = Path(os.environ["PEER_HOME"], "done")
CELERY = [sys.executable, "-m", "celery", "-A", "bench.peers.throughput_app", "worker"]
CELERY += ["--concurrency", str(PROCESSES), "--loglevel", "WARNING"]
PROCRASTINATE = [sys.executable, "-m", "procrastinate", "--log-level", "warning"]
PROCRASTINATE += ["--app", "bench.peers.procrastinate_app.app", "worker", "-c", str(AT_ONCE)]


def fill_celery(peer: str, count: int) -> None:
    """Send the tasks."""
    from django.core.management import call_command

    from bench.peers.throughput_app import app, noop, true

    if peer == "celery-results":
        call_command("migrate", verbosity=0)
    task = true if peer == "celery-command" else noop
    with app.producer_pool.acquire() as producer:
        for _ in range(count):
            task.apply_async(producer=producer)


def fill_procrastinate(count: int) -> None:
    """Make its tables and defer the tasks."""
    from procrastinate import SyncPsycopgConnector

    from bench.peers.procrastinate_app import app

    with (
        app.replace_connector(SyncPsycopgConnector(conninfo=os.environ["DB"])) as sync,
        sync.open(),
    ):
        sync.schema_manager.apply_schema()
        sync.tasks["noop"].batch_defer(*({} for _ in range(count)))


def executed() -> int:
    """Return how many tasks have been executed."""
    return DONE.stat().st_size


def measure(command: list[str], count: int) -> dict[str, float]:
    """Run the worker until all is done."""
    worker = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
    try:
        give_up = time.monotonic() + GIVE_UP_SEC
        while (first := executed()) == 0:
            assert worker.poll() is None, "the worker has ended"
            time.sleep(0.001)
        began, before = time.perf_counter(), cpu.spent_sec(cpu.tree(worker.pid))
        while executed() < count:
            assert worker.poll() is None, "the worker has ended"
            assert time.monotonic() < give_up, f"{executed()} of {count} done"
            time.sleep(0.005)
        seconds = time.perf_counter() - began
        spent = cpu.spent_sec(cpu.tree(worker.pid)) - before
    finally:
        worker.terminate()
        worker.wait(60)
    return {"per_sec": (count - first) / seconds, "worker_cpu_sec_per_1000": spent / count * 1000}


def main() -> None:
    """Measure one peer."""
    peer, count = sys.argv[1], int(sys.argv[2])
    DONE.touch()
    if peer == "procrastinate":
        fill_procrastinate(count)
        print(json.dumps(measure(PROCRASTINATE, count)))
    else:
        fill_celery(peer, count)
        print(json.dumps(measure(CELERY, count)))


if __name__ == "__main__":
    main()
