"""The ledger is whole at every instant: also while replicas dispatch and people edit."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from chronoproject.clock import db_now
from jobs import services
from jobs.models import Job
from runs import ledger, publisher
from runs.dispatcher import Dispatcher
from runs.models import Misfire, Run
from runs.sweeps import housekeeping
from runs.verify import Problem, Wanted, verify
from tests.integration import support
from tests.integration.ledger.simulation import MINUTE, SECOND, World, spoil

pytestmark = pytest.mark.django_db(transaction=True)

JOBS = 12
CHECKS = 12
GIVE_UP_SEC = 60
SCHEDULES = ("* * * * * *", "*/2 * * * * *", "*/3 * * * * *", None)


@contextmanager
def going_on(step: Callable[[], object], count: int) -> Iterator[None]:
    """Repeat `step` in threads of their own until the block ends; none of them may fail."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not stop.is_set():
                step()
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


def test_every_check_is_clean_while_jobs_are_dispatched_and_edited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for push in ("publish", "send"):
        monkeypatch.setattr(publisher, push, lambda found: len(found))
    team, draw = support.team(), random.Random(5)
    body = {"command": "true", "schedule": "* * * * * *"}
    jobs = [
        services.job_create(team, body | {"name": f"job-{n}"}, actor="test") for n in range(JOBS)
    ]

    def edit() -> None:
        job = draw.choice(jobs)
        if draw.random() < 0.3:
            draw.choice((services.job_pause, services.job_resume))(job, actor="test")
        else:
            changes = {"schedule": draw.choice(SCHEDULES)}
            services.job_patch(job.job_id, team, changes, actor="test")

    def dispatch() -> None:
        Dispatcher(f"d{threading.get_ident()}").dispatch_due()

    started, found = db_now(), list[Problem]()
    give_up_at = time.monotonic() + GIVE_UP_SEC
    with going_on(dispatch, 2), going_on(edit, 1):
        tallies = [verify(started, db_now() + timedelta(hours=1), Wanted(), found.append)]
        # A quick machine does a dozen checks within a second: go on until ticks have come and run.
        while (
            len(tallies) < CHECKS
            or tallies[-1].expected == tallies[0].expected
            or not Run.objects.exists()
        ):
            assert time.monotonic() < give_up_at
            tallies.append(verify(started, db_now() + timedelta(hours=1), Wanted(), found.append))
    assert found == []
    assert tallies[-1].expected > tallies[0].expected
    assert Job.objects.count() == JOBS


def test_a_ledger_is_read_at_one_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others commit between its statements is not in it."""
    now = support.this_second()
    world = World(monkeypatch, now - MINUTE)
    job = world.create("*/20 * * * * *")
    world.run_until(now, SECOND)
    genuine = ledger.read_histories

    def with_a_rival(*args: Any) -> Any:  # noqa: ANN401 - as the genuine one
        found = genuine(*args)
        rival = threading.Thread(target=delete_runs)
        rival.start()
        rival.join()
        return found

    monkeypatch.setattr(ledger, "read_histories", with_a_rival)
    span = ledger.span_of(now - MINUTE, now)
    fates = [entry.fate for entry in ledger.read([job.job_id], span).entries(job.job_id)]
    assert set(fates) == {"run"}
    assert not Run.objects.exists()


def delete_runs() -> None:
    try:
        spoil("DELETE FROM runs")
    finally:
        connection.close()


def test_ranges_are_kept_as_long_as_the_runs_around_them() -> None:
    job = support.job()
    for days in (29, 40):
        tick = support.this_second() - timedelta(days=days)
        Misfire.objects.create(
            job=job,
            owner=job.owner,
            first_tick=tick,
            last_tick=tick,
            tick_count=1,
            rule="skipped",
            job_version=1,
        )
    assert housekeeping.purge_misfires() == 1
    assert Misfire.objects.get().last_tick > db_now() - timedelta(days=30)
