"""The filters of the list of runs, each served by an index or by the window of time."""

import uuid
from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from chronoproject.adminkit.filters import DropdownFilter, ExactTextFilter
from jobs.models import Job
from runs.models import Run, RunFloor, RunQuerySet
from runs.states import LIVE, RunStatus

LIVE_CHOICE = "live"
NOT_WELL = "unwell"
JOBS_BY_PREFIX = 200
RUN_ID_VERSION = 8


class StatusFilter(DropdownFilter):
    """One status, or one of the groups a partial index holds."""

    title = "status"
    parameter_name = "status"

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        """Offer the groups first."""
        yield LIVE_CHOICE, "Live (not ended yet)"
        yield NOT_WELL, "Dead, skipped or cancelled"
        yield from RunStatus.choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        """Narrow; live runs lie after the floor, which leaves out the old partitions."""
        value = self.value()
        if not value:
            return queryset
        statuses = statuses_of(value)
        if statuses <= LIVE:
            floor = RunFloor.objects.values_list("floor", flat=True).first()
            if floor is not None:
                queryset = queryset.filter(scheduled_for__gte=floor)
        if len(statuses) == 1:
            return queryset.filter(status=value)
        return queryset.filter(status__in=sorted(statuses))


def statuses_of(choice: str) -> frozenset[str]:
    """Return the statuses behind a choice of the filter."""
    if choice == LIVE_CHOICE:
        return frozenset(LIVE)
    if choice == NOT_WELL:
        return frozenset({RunStatus.DEAD, RunStatus.SKIPPED, RunStatus.CANCELLED})
    return frozenset({choice})


class PoolFilter(ExactTextFilter):
    """Runs of a pool."""

    title = "pool"
    parameter_name = "pool"


class WorkerFilter(ExactTextFilter):
    """Runs that a worker executes or executed last."""

    title = "worker"
    parameter_name = "worker_id"


class ReasonFilter(ExactTextFilter):
    """Runs whose status has this reason."""

    title = "reason"
    parameter_name = "reason"


def uuid_of(term: str) -> uuid.UUID | None:
    """Return the id that was typed, None when it is none."""
    try:
        return uuid.UUID(term.strip())
    except ValueError:
        return None


def matching(queryset: RunQuerySet, term: str) -> QuerySet[Run]:
    """Narrow to a run's id, a job's id, or the jobs whose name starts with the term."""
    found = uuid_of(term)
    if found is None:
        jobs = Job.objects.filter(name__startswith=term.strip()).order_by("name")
        ids = list(jobs.values_list("job_id", flat=True)[:JOBS_BY_PREFIX])
        return queryset.filter(job_id__in=ids)
    if found.version != RUN_ID_VERSION:
        return queryset.filter(job_id=found)
    try:
        return queryset.by_id(found)
    except OverflowError:  # its first bits are no time of ours
        return queryset.none()
