"""An idle dispatcher is woken by a tick that comes before it would look again."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from pytest_django import Settings

from chronoproject import bell
from chronoproject.bell import Bell
from chronoproject.clock import db_now
from chronoproject.process import Stop
from jobs import services
from jobs.fields import instant_text
from runs.dispatcher import Dispatcher
from runs.models import Run
from runs.sweeps import DISPATCHER, registry
from tests.integration import support

pytestmark = pytest.mark.django_db(transaction=True)
LONG_SEC = 60.0


def in_a_thread(work: object) -> threading.Thread:
    def working() -> None:
        try:
            work()  # type: ignore[operator]
        finally:
            connection.close()

    thread = threading.Thread(target=working)
    thread.start()
    return thread


@pytest.fixture
def idle_dispatcher(settings: Settings) -> Iterator[None]:
    """A dispatcher that would look again in a minute, and sweeps nothing meanwhile."""
    settings.CHRONO_POLL_SEC = LONG_SEC
    stop, replica = Stop(), Dispatcher("d1")
    later = time.monotonic() + 10 * LONG_SEC
    replica.sweeper.next_at = {sweep.name: later for sweep in registry.sweeps[DISPATCHER]}
    thread = in_a_thread(lambda: replica.run_forever(stop))
    give_up_at = time.monotonic() + LONG_SEC / 2
    while not is_listening():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    yield
    stop.set()
    thread.join()


def is_listening() -> bool:
    """Say whether the dispatcher has come to its first wait."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'idle' AND query = %s)",
            [f"LISTEN {bell.CHANNEL}"],
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.usefixtures("idle_dispatcher")
def test_a_job_due_in_a_moment_runs_on_time() -> None:
    due = db_now() + timedelta(seconds=1.5)
    body = {"name": "soon", "command": "true", "schedule": {"runAt": instant_text(due)}}
    services.job_create(support.team(), body, actor="test")
    give_up_at = time.monotonic() + LONG_SEC / 2
    while not Run.objects.exists():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    run = Run.objects.get()
    assert run.created_at - run.scheduled_for < timedelta(seconds=5)


def test_a_ring_that_came_while_the_connection_was_busy_is_heard() -> None:
    ear = Bell()
    ear.wait(Stop(), 0)  # listens
    thread = in_a_thread(bell.ring)
    thread.join()
    db_now()  # its answer brings the ring along
    began = time.monotonic()
    ear.wait(Stop(), LONG_SEC)
    assert time.monotonic() - began < LONG_SEC / 2


def test_a_stop_ends_the_wait_and_a_new_connection_listens_anew() -> None:
    stop, ear = Stop(), Bell()
    ear.wait(stop, 0)
    connection.close()
    threading.Timer(0.05, bell_from_elsewhere).start()
    began = time.monotonic()
    ear.wait(stop, LONG_SEC)
    stop.set()
    ear.wait(stop, LONG_SEC)
    assert time.monotonic() - began < LONG_SEC / 2


def test_a_connection_that_is_lost_in_the_wait_is_the_kind_of_fault_that_is_waited_out() -> None:
    ear = Bell()
    ear.wait(Stop(), 0)
    own = connection.connection.info.backend_pid
    threading.Timer(0.05, terminate, [own]).start()

    def wait() -> None:
        for _ in range(2):  # the first wait may only have read the server's last words
            ear.wait(Stop(), LONG_SEC)

    with pytest.raises(OperationalError):  # Django's, which cycle_until catches
        wait()
    connection.close()
    ear.wait(Stop(), 0)


def terminate(pid: int) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    finally:
        connection.close()


def bell_from_elsewhere() -> None:
    try:
        bell.ring()
    finally:
        connection.close()


def test_only_a_near_tick_rings() -> None:
    assert bell.is_near(1.0)
    assert bell.is_near(-5.0)
    assert not bell.is_near(60.0)
