"""The list of runs and what an operator does to runs."""

import uuid
from typing import Any, cast

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import ReadOnlyKeysetAdmin, read_at
from chronoproject.adminkit.display import clipped, column, elapsed, instant, link, why
from chronoproject.adminkit.filters import (
    ALL,
    AutocompleteSelectFilter,
    ChoicesDropdownFilter,
    TeamFilter,
    TimeWindowFilter,
)
from runs.admin.common import ERROR_ENDS, JOB_AND_TEAM, STATUS_LABELS, error_of, job_url
from runs.admin.run_actions import RunActions
from runs.admin.run_filters import (
    PoolFilter,
    ReasonFilter,
    StatusFilter,
    WorkerFilter,
    matching,
    statuses_of,
    uuid_of,
)
from runs.admin.run_page import RunPage
from runs.models import Run, RunQuerySet
from runs.states import LIVE

JOB_PARAMETER, TEAM_PARAMETER = "job__job_id__exact", "owner__team_id__exact"
HEAVY = ("error", "output", "payload")


@admin.register(Run)
class RunAdmin(RunActions, RunPage, ReadOnlyKeysetAdmin[Run]):
    """Runs, newest tick first."""

    list_display = (
        "state",
        "tick",
        "job_name",
        "team",
        "attempts",
        "took",
        "why",
        "trigger",
        "worker",
        "queue",
    )
    list_display_links = ("state", "tick")
    list_filter = (
        StatusFilter,
        TimeWindowFilter,
        ("job", AutocompleteSelectFilter),
        ("owner", TeamFilter),
        ("trigger", ChoicesDropdownFilter),
        ReasonFilter,
        PoolFilter,
        ("priority", ChoicesDropdownFilter),
        WorkerFilter,
    )
    search_fields = ("run_id",)
    search_help_text = "Run id, job id, or how a job's name begins"
    list_before_template = "admin/runs/run/list_before.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        """Leave the heavy columns where they are but for the head of the error."""
        rows = super().get_queryset(request).annotate(read_at=Now(), **ERROR_ENDS)
        return rows.defer(*HEAVY).prefetch_related(*JOB_AND_TEAM)

    def get_keyset(self, request: HttpRequest) -> tuple[str, ...]:
        """Read a job's or a team's runs by its index, all others by the primary key.

        A run_id begins with the milliseconds of its tick, so either order is that of time.
        """
        if request.GET.get(JOB_PARAMETER) or request.GET.get(TEAM_PARAMETER):
            return ("-scheduled_for", "run_id")
        return ("-run_id",)

    def default_window(self, request: HttpRequest) -> str:
        """Show a day, but everything of one job, of one id, and of what has not ended."""
        status = request.GET.get("status", "")
        live = bool(status) and statuses_of(status) <= LIVE
        named = request.GET.get(JOB_PARAMETER) or uuid_of(request.GET.get("q", ""))
        return ALL if live or named else "24h"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Run], search_term: str
    ) -> tuple[QuerySet[Run], bool]:
        """Find by id or by the beginning of a job's name."""
        if not search_term.strip():
            return queryset, False
        return matching(cast("RunQuerySet", queryset), search_term), False

    @column("status", label=STATUS_LABELS)
    def state(self, run: Run) -> str:
        """Return the status."""
        return run.status

    @column("scheduled for")
    def tick(self, run: Run) -> SafeString | str:
        """Return the tick on the job's own clock."""
        return instant(run.scheduled_for, read_at(run), run.job.timezone)

    @column("job")
    def job_name(self, run: Run) -> SafeString:
        """Link to the job."""
        return link(job_url(run.job_id), run.job.name)

    @column("team")
    def team(self, run: Run) -> str:
        """Return the owner."""
        return str(run.owner)

    @column("attempt")
    def attempts(self, run: Run) -> str:
        """Return the latest attempt and the most there may be."""
        lost = f", {run.lost_count} lost" if run.lost_count else ""
        return f"{run.attempt} of {run.attempt_limit}{lost}"

    @column("took")
    def took(self, run: Run) -> str:
        """Return how long the current attempt took, or has taken so far."""
        return elapsed(run.started_at, run.finished_at or read_at(run))

    @column("why")
    def why(self, run: Run) -> SafeString | str:
        """Return the reason and the head of the error."""
        return why(run.reason, error_of(run))

    @column("worker")
    def worker(self, run: Run) -> SafeString | str:
        """Return who executes it or executed it last."""
        return clipped(run.worker_id)

    @column("pool")
    def queue(self, run: Run) -> str:
        """Return the pool, and the priority where it is not the usual one."""
        return run.pool if run.priority == "normal" else f"{run.pool} · {run.priority}"


def selected_ids(texts: list[str]) -> list[uuid.UUID]:
    """Return the ids among what a form sent."""
    return [found for text in texts if (found := uuid_of(text))]


def admin_of(site: admin.AdminSite = admin.site) -> Any:  # noqa: ANN401 - Django's registry
    """Return the page registered for runs."""
    return site.get_model_admin(Run)
