"""A job and a version of one, as the API shows them."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.definition import api_form, definition_of
from jobs.fields import instant_text, optional_instant_text
from jobs.hooks import Edge, hooks
from jobs.models import Job, JobVersion, Team
from jobs.selectors import edges_of


def job_bodies(team: Team, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Return jobs of the team as the API shows them; two more queries however many they are."""
    edges = edges_of(jobs)
    last_runs: Mapping[uuid.UUID, dict[str, Any]] = {}
    if hooks.last_runs is not None and jobs:
        last_runs = hooks.last_runs([job.job_id for job in jobs])
    return [
        job_body(team, job, edges.get(job.job_id, ()), last_runs.get(job.job_id)) for job in jobs
    ]


def job_body(
    team: Team, job: Job, edges: Sequence[Edge], last_run: dict[str, Any] | None
) -> dict[str, Any]:
    """Return a job as the API shows it."""
    return {
        "id": str(job.job_id),
        "owner": team.slug,
        **api_form(definition_of(job, edges)),
        "pauseReason": job.pause_reason,
        "nextRunAt": optional_instant_text(job.next.next_run_at),
        "lastRun": last_run,
        "version": job.version,
        "createdAt": instant_text(job.created_at),
        "updatedAt": instant_text(job.updated_at),
    }


def version_body(version: JobVersion) -> dict[str, Any]:
    """Return a version of a job as the API shows it."""
    return {
        "version": version.version,
        "change": version.change,
        "changedBy": version.changed_by,
        "validFrom": instant_text(version.valid_from),
        "validTo": optional_instant_text(version.valid_to),
        "tzdataVersion": version.tzdata_version,
        "definition": api_form(version.definition),
    }


def etag(job: Job) -> str:
    """Return the strong validator of a job: its version."""
    return f'"{job.version}"'
