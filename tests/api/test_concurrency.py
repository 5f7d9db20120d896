"""What happens when several clients ask for the same thing at once, each on its own connection."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from chronoproject.clock import db_now
from jobs import services as job_services
from jobs.models import IdempotencyKey, Job, JobVersion
from runs import services
from runs.models import Run
from tests.factories import job_definition, make_client, make_job, make_team

pytestmark = pytest.mark.django_db(transaction=True)
CLIENTS = 6


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make the calls at the same moment, each in a thread with its own connection."""
    barrier = threading.Barrier(len(calls))

    def call(one: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the call returns
        try:
            barrier.wait(timeout=20)
            return one()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


def test_one_of_several_creates_with_the_same_key_makes_the_job() -> None:
    body, key = job_definition(schedule="* * * * *"), {"Idempotency-Key": "once"}
    clients = [make_client() for _ in range(CLIENTS)]

    answers = at_once(
        [partial(c.post, "/v1/jobs", body, format="json", headers=key) for c in clients]
    )

    assert {answer.status_code for answer in answers} <= {201, 409}
    created = [answer for answer in answers if answer.status_code == 201]
    assert created
    assert {answer.json()["id"] for answer in created} == {str(Job.objects.get().job_id)}
    assert JobVersion.objects.count() == 1
    assert IdempotencyKey.objects.get().status_code == 201
    late = clients[0].post("/v1/jobs", body, format="json", headers=key)
    assert late.content == created[0].content


def test_one_of_several_creates_with_the_same_name_makes_the_job() -> None:
    clients = [make_client() for _ in range(CLIENTS)]
    body = job_definition(name="n")
    answers = at_once([partial(c.post, "/v1/jobs", body, format="json") for c in clients])
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * (CLIENTS - 1)
    assert (Job.objects.count(), JobVersion.objects.count()) == (1, 1)


def test_one_of_several_edits_of_the_same_version_is_made() -> None:
    path = f"/v1/jobs/{make_job().job_id}"
    clients = [make_client() for _ in range(CLIENTS)]
    match = {"If-Match": '"1"'}
    answers = at_once(
        [
            partial(c.patch, path, {"retries": n}, format="json", headers=match)
            for n, c in enumerate(clients, 1)
        ]
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * (CLIENTS - 1)
    assert list(JobVersion.objects.order_by("version").values_list("version", flat=True)) == [1, 2]


def test_edits_at_once_make_a_chain_of_versions_without_gap_or_overlap() -> None:
    job = make_job(schedule="* * * * * *")
    clients = [make_client() for _ in range(CLIENTS)]
    path = f"/v1/jobs/{job.job_id}"
    at_once(
        [partial(c.patch, path, {"retries": n}, format="json") for n, c in enumerate(clients, 1)]
    )
    spans = list(JobVersion.objects.order_by("version").values_list("valid_from", "valid_to"))
    assert len(spans) == CLIENTS + 1
    assert [until for _, until in spans[:-1]] == [since for since, _ in spans[1:]]
    assert spans[-1][1] is None
    assert all(until and since < until for since, until in spans[:-1])


def test_triggers_at_once_make_a_run_each() -> None:
    job = make_job()
    clients = [make_client() for _ in range(CLIENTS)]
    answers = at_once([partial(c.post, f"/v1/jobs/{job.job_id}/trigger") for c in clients])
    assert {answer.status_code for answer in answers} == {202}
    assert Run.objects.count() == CLIENTS
    assert all(run.scheduled_for.microsecond for run in Run.objects.all())


def test_a_trigger_beside_a_delete_leaves_no_run_behind() -> None:
    team = make_team()
    for _ in range(5):
        job = make_job(team)
        triggering, deleting = make_client(team), make_client(team)
        path = f"/v1/jobs/{job.job_id}"
        answers = at_once(
            [partial(triggering.post, f"{path}/trigger"), partial(deleting.delete, path)]
        )
        assert answers[0].status_code in {202, 404}
        assert answers[1].status_code == 204
    assert set(Run.objects.values_list("status", flat=True)) <= {"cancelled"}


def test_cancels_at_once_are_made_once() -> None:
    run = services.run_trigger(make_job(), actor="test")
    clients = [make_client() for _ in range(CLIENTS)]
    answers = at_once([partial(c.post, f"/v1/runs/{run.run_id}/cancel") for c in clients])
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * (CLIENTS - 1)


def test_jobs_that_would_close_a_cycle_at_once_do_not() -> None:
    first, second = make_job(), make_job()
    clients = [make_client(), make_client()]
    edges = [(first.job_id, second.job_id), (second.job_id, first.job_id)]
    answers = at_once(
        [
            partial(c.patch, f"/v1/jobs/{down}", {"dependsOn": [str(up)]}, format="json")
            for c, (down, up) in zip(clients, edges, strict=True)
        ]
    )
    assert sorted(answer.status_code for answer in answers) == [200, 422]


def has_waiter() -> bool:
    """Tell whether a session waits for a lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        row = cursor.fetchone()
    return bool(row and row[0])


def test_an_edit_waits_for_the_dispatchers_lock_and_settles_after_it() -> None:
    job = make_job(schedule="* * * * * *")
    is_locked = threading.Event()

    def dispatch() -> datetime:
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=job.pk)
            is_locked.set()
            deadline = time.monotonic() + 10
            while not has_waiter() and time.monotonic() < deadline:
                time.sleep(0.01)
            return db_now()

    def edit() -> Job:
        is_locked.wait(timeout=10)
        return job_services.job_patch(job.job_id, job.owner, {"retries": 1}, actor="test")

    unlocked_at, edited = at_once([dispatch, edit])

    assert edited.updated_at > unlocked_at, "the edit's instant is taken after the lock"
    assert edited.next.next_run_at > edited.updated_at
    recorded = Run.objects.filter(job=job).values_list("scheduled_for", flat=True)
    assert all(tick <= edited.updated_at for tick in recorded)
