"""Rows that the tests of runs stand on, written straight into the tables."""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from chronoproject.clock import db_now
from jobs.models import Job, JobNext, JobVersion, Team
from runs import lifecycle
from runs.models import Run
from runs.records import ClaimedRun, Held, NewRun, Result, RunRef

SECOND = timedelta(seconds=1)
DUE_STATE = ("next_run_at", "retry_at", "quarantine_reason")


def team(slug: str = "data") -> Team:
    """Return the team of that slug."""
    return Team.objects.get_or_create(slug=slug, defaults={"name": slug})[0]


def job(**values: Any) -> Job:  # noqa: ANN401 - any column of jobs and job_next
    """Return a saved task job with version 1."""
    due = {column: values.pop(column) for column in DUE_STATE if column in values}
    name = values.pop("name", f"job-{uuid.uuid4().hex[:8]}")
    defaults: dict[str, Any] = {
        "owner": team(),
        "kind": "task",
        "payload": {"type": "task", "task": "chrono.noop", "args": [], "kwargs": {}},
    }
    made = Job(name=name, **{**defaults, **values})
    made.save()
    JobNext.objects.create(job=made, **due)
    add_version(made)
    return made


def add_version(made: Job) -> None:
    """Write the job's current version as its services would."""
    definition = {
        "name": made.name,
        "kind": made.kind,
        "payload": made.payload,
        "env": made.env,
        "timeoutSec": made.timeout_sec,
        "killGraceSec": made.kill_grace_sec,
        "retries": made.max_retries,
    }
    JobVersion.objects.create(
        job=made,
        version=made.version,
        definition=definition,
        change="create",
        changed_by="test",
        valid_from=db_now() - timedelta(days=1),
        tzdata_version="test",
    )


def this_second() -> datetime:
    """Return the database's present second."""
    return db_now().replace(microsecond=0)


def new_run(made: Job, at: datetime | None = None, **values: Any) -> NewRun:  # noqa: ANN401
    """Return a queued run of the job, to be recorded."""
    instant = at or this_second()
    defaults: dict[str, Any] = {
        "job_id": made.job_id,
        "owner_id": made.owner_id,
        "scheduled_for": instant,
        "logical_date": instant,
        "trigger": "schedule",
        "job_version": made.version,
        "pool": made.pool,
        "priority": made.priority,
        "attempt_limit": 1 + made.max_retries,
    }
    return NewRun(**{**defaults, **values})


def queued(made: Job, at: datetime | None = None, **values: Any) -> RunRef:  # noqa: ANN401
    """Record one queued run."""
    (ref,) = lifecycle.record_ticks([new_run(made, at, **values)])
    return ref


def held_runs(made: Job, count: int) -> list[NewRun]:
    """Return runs of a limited job, as the dispatcher makes them: held until admitted."""
    start = this_second() - count * SECOND
    return [
        new_run(
            made,
            start + place * SECOND,
            status="waiting",
            reason="concurrency",
            limit_key=f"job:{made.job_id}",
        )
        for place in range(count)
    ]


def claim(refs: Sequence[RunRef], worker_id: str = "w1", lease_sec: float = 30) -> list[ClaimedRun]:
    """Claim the runs under a new claim id."""
    return lifecycle.claim(refs, worker_id=worker_id, claim_id=uuid.uuid4(), lease_sec=lease_sec)


def held_by(claimed: ClaimedRun) -> Held:
    """Return the attempt of a claim."""
    return Held(claimed.run_id, claimed.scheduled_for, claimed.attempt, claimed.claim_id)


def result(claimed: ClaimedRun, status: str = "succeeded", **values: Any) -> Result:  # noqa: ANN401
    """Return a result of a claimed run."""
    outcome = "failed" if status in {"retrying", "dead"} else status
    return Result(
        run_id=claimed.run_id,
        scheduled_for=claimed.scheduled_for,
        attempt=claimed.attempt,
        claim_id=claimed.claim_id,
        limit_key=claimed.limit_key,
        **{"outcome": outcome, "status": status, **values},
    )


def row(ref: RunRef) -> Run:
    """Return the run's row."""
    return Run.objects.get(run_id=ref.run_id, scheduled_for=ref.scheduled_for)


def statuses(made: Job) -> list[tuple[str, str]]:
    """Return (status, reason) of the job's runs, oldest tick first."""
    rows = Run.objects.filter(job=made).order_by("scheduled_for")
    return list(rows.values_list("status", "reason"))


def set_columns(ref: RunRef, assignments: str) -> None:
    """Change a row behind lifecycle's back, to stage what a test needs."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE runs SET {assignments} WHERE run_id = %s",  # noqa: S608 - test literals
            [ref.run_id],
        )
