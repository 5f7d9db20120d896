"""A DAG to measure, and a stand-in for the worker: it claims and finishes, and executes nothing."""

import json
import time
import uuid
from base64 import b64decode
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from bench import harness

Ref = tuple[uuid.UUID, datetime]
QUEUES = ("default.high", "default.normal", "default.low")
SECOND = timedelta(seconds=1)


# --- jobs and their ticks -------------------------------------------------------------------


def make(count: int) -> list[Any]:
    """Return that many new jobs, the first of them scheduled."""
    from jobs.models import Job, JobNext

    old = set(Job.objects.values_list("job_id", flat=True))
    harness.make_jobs(count, ["0 0 1 1 *"], team=f"dag-{uuid.uuid4().hex[:8]}")
    jobs = list(Job.objects.exclude(job_id__in=old).order_by("job_id"))
    driven = [job.job_id for job in jobs[1:]]
    Job.objects.filter(job_id__in=driven).update(schedule=None)
    JobNext.objects.filter(job_id__in=driven).update(next_run_at=None)
    return jobs


def connect(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Write edges (downstream, upstream), all by tick."""
    from dag.models import Dep
    from jobs.models import Job

    Dep.objects.bulk_create(Dep(job=below, depends_on_job=above) for below, above in pairs)
    Job.objects.filter(job_id__in={below.job_id for below, _ in pairs}).update(has_upstreams=True)
    harness.execute("VACUUM (ANALYZE) deps")


def tick(at: datetime, *jobs: Any) -> float:  # noqa: ANN401 - Jobs
    """Record a tick of the jobs with all that is born with it; return the milliseconds."""
    from runs import lifecycle
    from runs.records import NewRun

    start = time.perf_counter()
    lifecycle.record_ticks(
        [
            NewRun(
                job.job_id, job.owner_id, at, at, "schedule", job.version, job.pool,
                job.priority, 1 + job.max_retries,
            )
            for job in jobs
        ]
    )  # fmt: skip
    return (time.perf_counter() - start) * 1000


def now() -> datetime:
    """Return the database's present second."""
    ((second,),) = harness.execute("SELECT date_trunc('second', clock_timestamp())")
    return second  # type: ignore[no-any-return]


# --- the stand-in for a worker --------------------------------------------------------------


def take(limit: int = 100) -> list[Ref]:
    """Return the runs of the messages that wait, at most `limit`; wait a second for the first."""
    from runs import publisher

    client = publisher.client()
    first = client.brpop(list(QUEUES), timeout=1)
    if first is None:
        return []
    raw: list[Any] = [first[1]]
    for queue in QUEUES:
        found: Any = client.rpop(queue, limit - len(raw)) if len(raw) < limit else None
        raw += found or []
    return named(raw)


def named(messages: Sequence[bytes]) -> list[Ref]:
    """Return the runs that the messages name, in their order."""
    bodies = [json.loads(b64decode(json.loads(one)["body"])) for one in messages]
    return [
        (uuid.UUID(run_id), datetime.fromisoformat(at))
        for body in bodies
        for run_id, at in body[0][0]
    ]


def claim(refs: Sequence[Ref]) -> list[Any]:
    """Claim runs; return what is ours."""
    from runs import lifecycle
    from runs.records import RunRef

    found = sorted(RunRef(*ref) for ref in refs)
    return lifecycle.claim(found, worker_id="bench", claim_id=uuid.uuid4(), lease_sec=600)


def finish(claimed: Any, status: str = "succeeded") -> float:  # noqa: ANN401 - a ClaimedRun
    """Finish a claimed run; return the milliseconds."""
    from runs import lifecycle
    from runs.records import Result

    start = time.perf_counter()
    outcome = "succeeded" if status == "succeeded" else "failed"
    moved = lifecycle.finish(
        [
            Result(
                claimed.run_id, claimed.scheduled_for, claimed.attempt, claimed.claim_id, outcome,
                status,  # type: ignore[arg-type]
            )
        ]
    )  # fmt: skip
    assert moved
    return (time.perf_counter() - start) * 1000


def work_off(expected: int) -> list[float]:
    """Claim and finish whatever is published until so many are done; return each finish's ms."""
    spent: list[float] = []
    while len(spent) < expected:
        refs = take()
        assert refs, f"nothing is published after {len(spent)} of {expected}"
        spent += [finish(one) for one in claim(refs)]
    return spent


def statements(action: Callable[[], object]) -> int:
    """Return how many statements the action sends, savepoints included."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        action()
    return len(captured)
