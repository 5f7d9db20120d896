"""Edits of edges at the same moment: no two of them close a cycle between them."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from jobs.errors import FieldErrors
from jobs.models import Job
from jobs.services import job_create, job_patch
from tests.integration import support

pytestmark = pytest.mark.django_db(transaction=True)


def in_threads(*acts: Callable[[], None]) -> None:
    """Let the acts begin at once, each on a connection of its own."""
    gate = threading.Barrier(len(acts))

    def run(act: Callable[[], None]) -> None:
        try:
            gate.wait(10)
            act()
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_of_edits_that_would_close_a_cycle_together_one_is_refused() -> None:
    team = support.team()
    refused: list[str] = []

    def depend(job: Job, upstream: Job) -> Callable[[], None]:
        def act() -> None:
            try:
                body = {"dependsOn": [str(upstream.job_id)]}
                job_patch(job.job_id, team, body, actor="test")
            except FieldErrors as error:
                refused.append(error.errors[0].message)

        return act

    for trial in range(10):
        a, b, c = (
            job_create(team, {"name": f"{name}{trial}", "command": "true"}, actor="test")
            for name in "abc"
        )
        in_threads(depend(a, b), depend(b, c), depend(c, a))
        kept = Job.objects.filter(job_id__in=[a.job_id, b.job_id, c.job_id], has_upstreams=True)
        assert kept.count() == 2
        assert len(refused) == trial + 1
    assert all(message.startswith("closes a cycle: ") for message in refused)
