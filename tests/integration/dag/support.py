"""Jobs with edges, their ticks and how these end, for the tests of dag."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.test import TestCase

from dag import services
from jobs.hooks import Edge
from jobs.models import Job, Team
from runs import lifecycle
from runs.models import Run
from runs.records import RunRef
from tests.integration.support import claim, job, new_run, result, statuses, this_second

__all__ = [
    "after",
    "claim",
    "end",
    "job",
    "look",
    "result",
    "status",
    "statuses",
    "this_second",
    "tick",
]


def after(job_: Job, *upstreams: Job | Edge) -> Job:
    """Give the job these upstreams, by tick where only a job is named."""
    edges = [up if isinstance(up, Edge) else Edge(up.job_id) for up in upstreams]
    with transaction.atomic():
        Team.objects.select_for_update().get(team_id=job_.owner_id)
        services.edges.set_edges(job_, edges)
    return job_


def day(job_: Job, offset: int = 0) -> Edge:
    """Return a day edge to the job."""
    return Edge(job_.job_id, "day", offset)


@contextmanager
def committed() -> Iterator[None]:
    """Run what is due after the commit, inside a test's transaction too."""
    if connection.in_atomic_block:
        with TestCase.captureOnCommitCallbacks(execute=True):
            yield
    else:
        yield


def tick(at: datetime, *jobs: Job, **values: Any) -> list[RunRef]:  # noqa: ANN401 - NewRun's fields
    """Record a tick of each job, in one transaction, as the dispatcher does."""
    news = [
        new_run(one, at, **({"status": "waiting", "reason": "dependency"} | values))
        if one.has_upstreams
        else new_run(one, at, **values)
        for one in jobs
    ]
    with committed():
        return lifecycle.record_ticks(news)


def end(job_: Job, at: datetime, how: str = "succeeded") -> None:
    """Let a worker execute the job's queued run and end it so; "cancelled" by a person."""
    ref = ref_of(job_, at)
    with committed():
        if how == "cancelled":
            lifecycle.cancel([ref])
            return
        (claimed,) = claim([ref])
        lifecycle.finish([result(claimed, how)])


def end_all(job_: Job, instants: Sequence[datetime]) -> None:
    """Let a worker execute the job's queued runs, and report their success at once."""
    with committed():
        claimed = claim(sorted(ref_of(job_, at) for at in instants))
        lifecycle.finish([result(one) for one in claimed])


def ref_of(job_: Job, at: datetime) -> RunRef:
    """Return the key of the job's run at the instant."""
    run = Run.objects.get(job=job_, scheduled_for=at)
    return RunRef(run.run_id, run.scheduled_for)


def status(job_: Job, at: datetime) -> tuple[str, str]:
    """Return (status, reason) of the job's run at the instant."""
    run = Run.objects.get(job=job_, scheduled_for=at)
    return run.status, run.reason


def look(sweep: Callable[[], int]) -> int:
    """Run a sweep, and what is due after its commit."""
    with committed():
        return sweep()
