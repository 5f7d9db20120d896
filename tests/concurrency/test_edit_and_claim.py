"""An edit beside a claim: a tick is dispatched by the version it is of, and by no other.

The dispatcher advances job_next and holds the jobs row shared; an edit holds it alone, then reads
and writes job_next.
"""

import threading
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from datetime import date, datetime, timedelta

import pytest
from django.db import connection, transaction

from chronoproject.clock import db_now
from jobs import services
from jobs.models import Job, JobNext, JobVersion
from runs import publisher
from runs.batch import Batch, dispatch, due_to
from runs.floor import SQL
from runs.models import Misfire, Run
from runs.verify import Problem, Wanted, verify
from tests.factories import make_job, set_next, this_second

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_SEC = 20
RIVALRY_SEC = 3
HALF_SECOND = timedelta(milliseconds=500)
MINUTE = timedelta(minutes=1)
EVEN, ODD = "*/2 * * * * *", "1-59/2 * * * * *"


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    for push in ("publish", "send"):
        monkeypatch.setattr(publisher, push, lambda found: len(found))


@contextmanager
def beside(*acts: Callable[[], object]) -> Iterator[None]:
    """Let the acts go on beside the block, each on a connection of its own; none may fail."""
    failures: list[BaseException] = []

    def run(act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(WAIT_SEC)
    assert failures == []


def wait_for(event: threading.Event) -> None:
    assert event.wait(WAIT_SEC)


def wait_for_waiter() -> None:
    """Return once a session of this database waits for a lock."""
    deadline = time.monotonic() + WAIT_SEC
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute(
                "SELECT EXISTS (SELECT FROM pg_locks w JOIN pg_locks o USING (pid)"
                " JOIN pg_database d ON d.oid = o.database"
                " WHERE NOT w.granted AND d.datname = current_database())"
            )
            if cursor.fetchone() == (True,):
                return
            time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")


def dispatched(now: datetime, meanwhile: Callable[[], object] = lambda: None) -> Batch:
    """Dispatch what is due; do something between the decisions and their record."""

    def days(_: Set[date]) -> None:
        meanwhile()

    return dispatch(now, None, days)


def due_job(schedule: str, due: datetime) -> Job:
    """Return a job that has owed its ticks since `due`, and its version as long."""
    job = make_job(schedule=schedule)
    JobVersion.objects.filter(job=job).update(valid_from=due - MINUTE)
    Job.objects.filter(pk=job.pk).update(created_at=due - MINUTE, updated_at=due - MINUTE)
    set_next(job, next_run_at=due)
    return job


def patch(job: Job, **changes: object) -> Job:
    return services.job_patch(job.job_id, job.owner, changes, actor="test")


def recorded(job: Job) -> list[tuple[datetime, int]]:
    rows = Run.objects.filter(job=job).order_by("scheduled_for")
    return list(rows.values_list("scheduled_for", "job_version"))


def test_an_edit_that_comes_after_the_claim_waits_and_finds_the_tick_dispatched() -> None:
    minute = this_second().replace(second=0)
    job = due_job("* * * * *", minute - 3 * MINUTE)
    is_claimed = threading.Event()

    def edit() -> None:
        wait_for(is_claimed)
        patch(job, schedule="0 0 1 1 *")

    def until_the_edit_waits() -> None:
        is_claimed.set()
        wait_for_waiter()

    at = minute + HALF_SECOND
    with beside(edit), transaction.atomic():
        assert dispatched(at, until_the_edit_waits).recorded == 1
        assert recorded(job) == [(minute, 1)]
        advanced_at = db_now()
    found = Job.objects.select_related("next").get()
    assert found.version == 2
    assert found.updated_at > advanced_at
    assert found.next.next_run_at is not None
    assert (found.next.next_run_at.month, found.next.next_run_at.day) == (1, 1)
    # what the dispatcher has settled, the edit does not settle again
    before_edit = [(tick, version) for tick, version in recorded(job) if tick <= at]
    assert before_edit == [(minute, 1)]
    ranges = Misfire.objects.filter(first_tick__lte=at).values_list("first_tick", "last_tick")
    assert list(ranges) == [(minute - 3 * MINUTE, minute - MINUTE)]


def test_a_claim_that_comes_after_the_edit_passes_the_job_by_and_keeps_none_of_its_rows() -> None:
    """Or else the edit, about to write the due state, would wait for the whole batch."""
    minute = this_second().replace(second=0)
    job, neighbour = (due_job("* * * * *", minute) for _ in range(2))
    is_locked, has_claimed, is_written = (threading.Event() for _ in range(3))
    claimed: list[str] = []

    def claim() -> None:
        wait_for(is_locked)
        with transaction.atomic():
            rows = SQL["claim_due"].dicts(**due_to(None, db_now()), limit=10, job_id=None)
            claimed.extend(job_id for row in rows for job_id in row["job_ids"])
            has_claimed.set()
            wait_for(is_written)

    with beside(claim), transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=job.pk)
        is_locked.set()
        wait_for(has_claimed)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '2s'")
        edited = patch(job, schedule="0 0 1 1 *")
        is_written.set()
    assert claimed == [str(neighbour.job_id)]
    assert [version for _, version in recorded(job)] == [1]  # settled
    assert dispatched(db_now()).jobs == 1
    assert JobNext.objects.get(job=job).next_run_at == edited.next.next_run_at


def test_an_edit_committed_after_the_claims_snapshot_is_seen_whole() -> None:
    """Both rows are looked at again, as they are once they are locked."""
    minute = this_second().replace(second=0)
    gone, changed, neighbour = (due_job("* * * * *", minute) for _ in range(3))
    gate = "(SELECT pg_advisory_xact_lock_shared(1) IS NOT NULL) AND j.enabled"
    held = SQL["claim_due"].text.replace("j.enabled", gate, 1)
    claimed: dict[str, tuple[int, str]] = {}

    def claim() -> None:
        params = {**due_to(None, minute + 60 * MINUTE), "limit": 10, "job_id": None}
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(held, params)
            for job_ids, _, versions, schedule, *_ in cursor.fetchall():
                claimed.update((job_id, (versions[0], schedule)) for job_id in job_ids)

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(1)")
        with beside(claim):
            wait_for_waiter()
            patch(gone, schedule="0 0 1 1 *")
            patch(changed, schedule="*/5 * * * * *")
            cursor.execute("SELECT pg_advisory_unlock(1)")
    assert claimed == {
        str(neighbour.job_id): (1, "* * * * *"),
        str(changed.job_id): (2, "*/5 * * * * *"),
    }


def test_rivals_dispatch_each_version_s_ticks_by_that_version() -> None:
    """Edits go from even seconds to odd ones and back, as fast as they can, beside dispatchers."""
    began = db_now()
    jobs = [make_job(schedule=EVEN) for _ in range(3)]
    end = time.monotonic() + RIVALRY_SEC

    def dispatcher() -> None:
        while time.monotonic() < end:
            dispatched(db_now())

    def editor() -> None:
        schedules = [ODD, EVEN]
        while time.monotonic() < end:
            for job in jobs:
                patch(job, schedule=schedules[0])
            schedules.reverse()

    with beside(dispatcher, dispatcher, editor):
        pass
    problems: list[Problem] = []
    tally = verify(began, db_now(), Wanted(), problems.append)
    assert problems == []
    assert tally.expected > 0
    versions = {(one.job_id, one.version): one for one in JobVersion.objects.all()}
    assert len(versions) > 2 * len(jobs)
    for run in Run.objects.all():
        version = versions[run.job_id, run.job_version]
        is_even = version.definition["schedule"] == EVEN
        assert (run.scheduled_for.second % 2 == 0) is is_even
        assert version.valid_from < run.scheduled_for
        assert version.valid_to is None or run.scheduled_for <= version.valid_to
