"""Rows that tests stand on, made as the product makes them where that is cheap enough."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from rest_framework.test import APIClient

from chronoproject.clock import db_now
from jobs.auth import token_create
from jobs.choices import TokenRole
from jobs.models import Job, JobNext, Team
from jobs.services import job_create
from runs import lifecycle
from runs.decisions import new_run
from runs.models import Run
from runs.records import ClaimedRun, Result, RunRef
from runs.settling import as_due

SECOND = timedelta(seconds=1)


def make_team(slug: str = "data") -> Team:
    """Return the team of that slug."""
    return Team.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]


def make_token(team: Team | None = None, *, role: TokenRole = TokenRole.EDITOR) -> str:
    """Return the text of a new token of the team."""
    return token_create(team or make_team(), "a token", role=role)[1]


def make_client(team: Team | None = None, *, role: TokenRole = TokenRole.EDITOR) -> APIClient:
    """Return a client that calls the API with a new token of the team."""
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(team, role=role)}")
    return client


def job_definition(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of a job
    """Return a valid definition with these fields: a command, unless a payload is given."""
    defaults = {"name": f"job-{uuid.uuid4().hex[:8]}"}
    if "payload" not in fields:
        defaults["command"] = "true"
    return {**defaults, **fields}


def make_job(team: Team | None = None, **fields: Any) -> Job:  # noqa: ANN401 - any field of a job
    """Return a job that the service made of a definition in the API's names."""
    return job_create(team or make_team(), job_definition(**fields), actor="test")


def set_next(job: Job, **columns: Any) -> None:  # noqa: ANN401 - any column of job_next
    """Change the job's due state behind everyone's back."""
    assert JobNext.objects.filter(job=job).update(**columns) == 1


def this_second() -> datetime:
    """Return the database's present second."""
    return db_now().replace(microsecond=0)


def make_run(job: Job, tick: datetime | None = None) -> Run:
    """Return a recorded run of the job at the tick, or at the present second."""
    run = new_run(as_due(job), tick or this_second(), priority=job.priority)
    lifecycle.record_ticks([run])
    return read_run(run.ref)


def claim_run(run: Run, *, worker_id: str = "worker-1") -> ClaimedRun:
    """Return the claim of a queued run by a worker."""
    (claimed,) = lifecycle.claim(
        [RunRef(run.run_id, run.scheduled_for)],
        worker_id=worker_id,
        claim_id=uuid.uuid4(),
        lease_sec=30,
    )
    return claimed


def finish_run(claimed: ClaimedRun, status: str = "succeeded", **values: Any) -> Run:  # noqa: ANN401
    """Return the run after the claimed attempt ended so."""
    outcome = "failed" if status in {"retrying", "dead"} else status
    result = Result(
        run_id=claimed.run_id,
        scheduled_for=claimed.scheduled_for,
        attempt=claimed.attempt,
        claim_id=claimed.claim_id,
        limit_key=claimed.limit_key,
        **{"outcome": outcome, "status": status, **values},
    )
    lifecycle.finish([result])
    return read_run(RunRef(claimed.run_id, claimed.scheduled_for))


def read_run(ref: RunRef) -> Run:
    """Return the run's row as it is now."""
    return Run.objects.get(run_id=ref.run_id, scheduled_for=ref.scheduled_for)
