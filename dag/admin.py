"""What follows what, to look at; edges are edited in the job that depends."""

from typing import Any

from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import ReadOnlyKeysetAdmin
from chronoproject.adminkit.display import column, instant, link
from chronoproject.adminkit.filters import AutocompleteSelectFilter, ChoicesDropdownFilter
from dag.models import Dep, RunDep
from jobs.admin.extension import Panel as JobPanel
from jobs.admin.extension import extension
from jobs.models import Job
from runs.admin.extension import Panel as RunPanel
from runs.admin.extension import panels

TABLE = "admin/chrono/panel_table.html"
SHOWN = 50
NAMES = Job.objects.only("job_id", "name", "trigger_rule", "timezone", "deleted_at")


def job_link(job: Job) -> SafeString:
    """Link to a job's page; say beside the name that the job was deleted."""
    shown = link(reverse("admin:jobs_job_change", args=[job.job_id]), job.name)
    return shown if job.deleted_at is None else format_html("{} (deleted)", shown)


@admin.register(Dep)
class DepAdmin(ReadOnlyKeysetAdmin[Dep]):
    """Edges between jobs."""

    list_display = ("downstream", "upstream", "match", "day_offset", "rule")
    list_display_links = None
    list_filter = (
        ("job", AutocompleteSelectFilter),
        ("depends_on_job", AutocompleteSelectFilter),
        ("match", ChoicesDropdownFilter),
    )
    search_fields = ("job__name",)
    search_help_text = "How the name of either job begins"
    keyset = ("-dep_id",)
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Dep]:
        """Look the jobs up by key, once for the page."""
        both = (Prefetch("job", NAMES), Prefetch("depends_on_job", NAMES))
        return super().get_queryset(request).prefetch_related(*both)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Dep], search_term: str
    ) -> tuple[QuerySet[Dep], bool]:
        """Find by the beginning of either job's name."""
        term = search_term.strip()
        if not term:
            return queryset, False
        jobs = Job.objects.filter(name__startswith=term)
        either = queryset.filter(job__in=jobs) | queryset.filter(depends_on_job__in=jobs)
        return either, False

    @column("job")
    def downstream(self, dep: Dep) -> SafeString:
        """Link to the job that waits."""
        return job_link(dep.job)

    @column("runs after")
    def upstream(self, dep: Dep) -> SafeString:
        """Link to the job that is waited for."""
        return job_link(dep.depends_on_job)

    @column("rule")
    def rule(self, dep: Dep) -> str:
        """Return which outcomes of its upstreams release the job."""
        return dep.job.trigger_rule


def edges_panel(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Return what a job waits for and what waits for it."""
    if not request.user.has_perm("dag.view_dep"):
        return {"headers": [], "rows": []}
    upstream = Dep.objects.filter(job=job).prefetch_related(Prefetch("depends_on_job", NAMES))
    downstream = Dep.objects.filter(depends_on_job=job).prefetch_related(Prefetch("job", NAMES))
    return {
        "headers": ["edge", "job", "match", "day offset"],
        "rows": [
            ["runs after", job_link(dep.depends_on_job), dep.match, str(dep.day_offset)]
            for dep in upstream.order_by("dep_id")[:SHOWN]
        ]
        + [
            ["is followed by", job_link(dep.job), dep.match, str(dep.day_offset)]
            for dep in downstream.order_by("dep_id")[:SHOWN]
        ],
    }


def waits_panel(request: HttpRequest, run: Any) -> dict[str, Any]:  # noqa: ANN401 - a Run
    """Return what a run was born to wait for."""
    deps = RunDep.objects.filter(run_id=run.run_id)
    deps = deps.prefetch_related(Prefetch("depends_on_job", NAMES)).order_by("run_dep_id")
    return {
        "headers": ["waits for", "match", "ticks from", "until", "expected"],
        "rows": [
            [
                job_link(dep.depends_on_job),
                dep.match,
                instant(dep.span_from, zone=run.job.timezone),
                instant(dep.span_until, zone=run.job.timezone),
                "-" if dep.expected is None else str(dep.expected),
            ]
            for dep in deps[:SHOWN]
        ],
    }


extension.panels.append(JobPanel("Edges", TABLE, edges_panel))
panels.append(RunPanel("Upstreams", TABLE, waits_panel))
