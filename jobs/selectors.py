"""Reads of jobs for the API and the admin: a team's own, never counted, one query a page."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q, QuerySet

from jobs.errors import job_not_found
from jobs.hooks import Edge, hooks
from jobs.models import Job, JobVersion, Team
from jobs.schedule import Schedule


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a list of jobs is narrowed to."""

    name: str | None = None
    enabled: bool | None = None
    tags: Sequence[str] = field(default=())


def schedule_of(job: Job) -> Schedule:
    """Return the job's schedule as a value."""
    return Schedule(
        timezone=job.timezone,
        cron=job.schedule,
        run_at=job.run_at,
        every_sec=job.every_sec,
        anchor=job.anchor,
        starts_at=job.starts_at,
        ends_at=job.ends_at,
        dst_policy=job.dst_policy,  # type: ignore[arg-type]  # the column holds DstPolicy's words
        hash_id=str(job.job_id),
    )


def job_get(team: Team, job_id: uuid.UUID, *, with_deleted: bool = False) -> Job:
    """Return the team's job; NotFound for another team's, and for a deleted one unless asked."""
    jobs = Job.objects.select_related("next").filter(job_id=job_id, owner=team)
    job = (jobs if with_deleted else jobs.filter(deleted_at__isnull=True)).first()
    if job is None:
        raise job_not_found()
    return job


def jobs_page(
    team: Team,
    wanted: JobFilter,
    *,
    after: tuple[datetime, uuid.UUID] | None,
    limit: int,
) -> list[Job]:
    """Return up to `limit` jobs, newest first, that come after the position (created_at, id)."""
    jobs: QuerySet[Job] = Job.objects.select_related("next").filter(
        owner=team, deleted_at__isnull=True
    )
    if wanted.name is not None:
        jobs = jobs.filter(name=wanted.name)
    if wanted.enabled is not None:
        jobs = jobs.filter(enabled=wanted.enabled)
    if wanted.tags:
        jobs = jobs.filter(tags__contains=list(wanted.tags))
    if after is not None:
        created_at, job_id = after
        # the first condition alone lets the index start at the position
        jobs = jobs.filter(created_at__lte=created_at).filter(
            Q(created_at__lt=created_at) | Q(job_id__gt=job_id)
        )
    return list(jobs.order_by("-created_at", "job_id")[:limit])


def edges_of(jobs: Iterable[Job]) -> Mapping[uuid.UUID, Sequence[Edge]]:
    """Return the upstream edges of those jobs that have any, in one query."""
    downstream = [job.job_id for job in jobs if job.has_upstreams]
    if not downstream or hooks.edges is None:
        return {}
    return hooks.edges.edges_of(downstream)


def versions_page(job: Job, *, below: int | None, limit: int) -> list[JobVersion]:
    """Return up to `limit` versions of a job, newest first, that come before version `below`."""
    versions = JobVersion.objects.filter(job=job)
    if below is not None:
        versions = versions.filter(version__lt=below)
    return list(versions.order_by("-version")[:limit])
