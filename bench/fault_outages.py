"""The database's clock is stepped, the broker is away: two of bench.faults."""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import fleet, harness
from bench.peers import environment
from bench.witness import account, is_single, witness
from chronoproject import linux
from chronoproject.embedded import EmbeddedPostgres
from tests.worker.proxy import behind, proxy

LEASE_SEC = 6
STEP_SEC = 90
BETWEEN_STEPS_SEC = 45  # longer than dispatch is held after a step
LOAD_EVERY_SEC, LOAD = 0.5, 5
NAPS_SEC = (0.02, 0.02, 0.02, 0.02, 40)  # the long ones span a step each
DONE_WITHIN_SEC = 300

BROKER_AWAY_SEC = 60
LIMIT_SEC, GRACE_SEC = 12, 1
FIRES_WITHIN_SEC = 2


class SteppedPostgres(EmbeddedPostgres):
    """PostgreSQL whose clock is ahead by as many seconds as a file says (libfaketime)."""

    folder: Path

    def launch(self) -> linux.Launch:
        """Preload the library."""
        launch = super().launch()
        faked = {
            "LD_PRELOAD": str(self.folder / "libfaketime.so.1"),
            "FAKETIME_TIMESTAMP_FILE": str(self.folder / "offset"),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        return replace(launch, env={**launch.env, **faked})


@contextmanager
def stepped_clock() -> Iterator[type[SteppedPostgres]]:
    """Make the library and the offset readable to the server's account."""
    environment.ensure()
    (library,) = environment.VENV.glob("lib/python*/site-packages/libfaketime/**/libfaketime.so.1")
    with tempfile.TemporaryDirectory(prefix="chrono-clock-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(library, folder)
        step_to(folder, 0)
        SteppedPostgres.folder = folder
        yield SteppedPostgres


def step_to(folder: Path, seconds: int) -> None:
    """Set the database's clock so many seconds ahead of the machine's, in one piece."""
    fresh = folder / "offset.new"
    fresh.write_text(f"{seconds:+d}\n")
    fresh.chmod(0o644)
    fresh.replace(folder / "offset")


def ahead_sec() -> float:
    """Return how far the database's clock is ahead of the machine's."""
    ((seconds,),) = harness.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
    return float(seconds) - time.time()


def clock(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Step the database's clock ahead and back, amid short commands and some that span a step."""
    times, queued, seen_ahead = options.times or 4, 0, []
    with ExitStack() as stack:
        server = stack.enter_context(stepped_clock())
        home = stack.enter_context(
            harness.servers(postgres=server, CHRONO_LEASE_SEC=str(LEASE_SEC))
        )
        seen = stack.enter_context(witness())
        running = stack.enter_context(fleet.fleet(home))
        running.dispatcher()
        for number in range(2):
            running.worker(f"bench-{number}", concurrency=2 * LOAD)
        running.wait_ready()
        jobs = [
            fleet.make_job(name=f"nap-{n}", command=seen.command(f"sleep {nap}"))
            for n, nap in enumerate(NAPS_SEC)
        ]
        for number in range(times):
            queued += len(fleet.queue_runs(jobs[-1:], 4))
            time.sleep(2)
            step_to(server.folder, STEP_SEC if number % 2 == 0 else 0)
            end = time.monotonic() + BETWEEN_STEPS_SEC
            while time.monotonic() < end:
                queued += len(fleet.queue_runs(jobs[:-1], LOAD))
                time.sleep(LOAD_EVERY_SEC)
            seen_ahead.append(round(ahead_sec()))
        fleet.wait_until(lambda: not fleet.unfinished(), DONE_WITHIN_SEC)
        lived = all(one.process.poll() is None for one in running.workers.values())
        found = account(seen, queued)
    figures = {"lease_sec": LEASE_SEC, "ahead_sec_after_each_step": seen_ahead, **found}
    was_stepped = seen_ahead == [STEP_SEC if n % 2 == 0 else 0 for n in range(times)]
    return {**figures, "workers_lived": lived}, is_single(found) and lived and was_stepped


def broker(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Take the broker away for a minute while limits fire; then the worker goes on."""
    limits = {"timeoutSec": LIMIT_SEC, "killGraceSec": GRACE_SEC}
    shapes: dict[str, dict[str, Any]] = {
        "command": {"command": "sleep 90"},
        "ignores SIGTERM": {"command": "trap '' TERM; sleep 90 & wait; sleep 90"},
        "task": {"payload": {"type": "task", "task": "chrono.sleep", "args": [90], "kwargs": {}}},
    }
    with ExitStack() as stack:
        home = stack.enter_context(harness.servers())
        between = stack.enter_context(proxy(os.environ["REDIS_URL"]))
        running = stack.enter_context(fleet.fleet(home))
        away = behind(os.environ["REDIS_URL"], between)
        running.worker("bench", concurrency=len(shapes), REDIS_URL=away)
        running.wait_ready()
        jobs = [fleet.make_job(name=name, **shape, **limits) for name, shape in shapes.items()]
        fleet.queue_runs(jobs, len(jobs))
        fleet.wait_until(lambda: executing() == len(jobs), 30)
        between.cut()
        time.sleep(BROKER_AWAY_SEC)
        fired = dict(
            harness.execute(
                "SELECT j.name, extract(epoch FROM r.finished_at - r.started_at)::float8"
                " FROM runs r JOIN jobs j USING (job_id) WHERE r.reason = 'timeout'"
            )
        )
        between.heal()
        fleet.queue_runs([fleet.make_job(name="after", command="true")], 1)
        resumed = fleet.wait_until(lambda: not fleet.unfinished(), DONE_WITHIN_SEC)
    figures = {
        "broker_away_sec": BROKER_AWAY_SEC,
        "limit_sec": LIMIT_SEC,
        "grace_sec": GRACE_SEC,
        "fired_after_sec": {name: round(seconds, 2) for name, seconds in fired.items()},
        "next_run_done_after_sec": round(resumed, 1),
    }
    is_kept = fired.keys() == shapes.keys() and all(
        abs(seconds - LIMIT_SEC) <= FIRES_WITHIN_SEC for seconds in fired.values()
    )
    return figures, is_kept


def executing() -> int:
    """Return how many runs are running."""
    return int(harness.execute("SELECT count(*) FROM runs WHERE status = 'running'")[0][0])
