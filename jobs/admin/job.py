"""The list of jobs; job_write.py holds what an operator does to them."""

import uuid
from datetime import timedelta

from django import forms
from django.contrib import admin
from django.db import models
from django.db.models import Prefetch, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import read_at
from chronoproject.adminkit.display import clipped, column, instant, link
from chronoproject.adminkit.filters import ChoicesDropdownFilter, TeamFilter
from jobs.admin.extension import extension
from jobs.admin.job_filters import PoolFilter, StateFilter, TagFilter
from jobs.admin.job_form import InstantInput, JobForm
from jobs.admin.job_page import FIELDSETS
from jobs.admin.job_write import JobWriting
from jobs.admin.words import (
    STATE_LABELS,
    payload_in_words,
    schedule_as_written,
    schedule_in_words,
    state_of,
)
from jobs.models import Job, Team

# By then some dispatcher should have seen a tick that is due.
OVERDUE = timedelta(seconds=60)


@admin.register(Job)
class JobAdmin(JobWriting):
    """Jobs by team and name; a definition is written by jobs.services alone."""

    form = JobForm
    formfield_overrides = {
        models.DateTimeField: {"form_class": forms.DateTimeField, "widget": InstantInput}
    }
    fieldsets = FIELDSETS  # type: ignore[assignment]  # _FieldOpts is not importable at run time
    list_display = (
        "job_name",
        "team",
        "state",
        "when",
        "next_run",
        "last_run",
        "what",
        "queue",
    )
    list_display_links = None
    list_filter = (
        StateFilter,
        ("owner", TeamFilter),
        ("kind", ChoicesDropdownFilter),
        ("priority", ChoicesDropdownFilter),
        PoolFilter,
        TagFilter,
    )
    search_fields = ("name",)
    search_help_text = "Part of a job's name, or a job id"
    keyset = ("owner_id", "name", "job_id")
    sortable_by = ("job_name", "next_run")
    autocomplete_fields = ("owner",)
    actions = extension.actions
    change_form_template = "admin/jobs/job/change_form.html"
    warn_unsaved_form = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Add the time of reading, the due state, and the team by a look-up of its own."""
        teams = Prefetch("owner", Team.objects.only("team_id", "slug"))
        jobs = super().get_queryset(request).annotate(read_at=Now())
        return jobs.select_related("next").prefetch_related(teams)

    def prepare_rows(self, rows: list[Job]) -> None:
        """Look up how the last runs went, in one query for the page."""
        last_runs = extension.last_runs(rows) if extension.last_runs and rows else {}
        for job in rows:
            vars(job)["last_run_cell"] = last_runs.get(job.job_id, "")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Job], search_term: str
    ) -> tuple[QuerySet[Job], bool]:
        """Find by id or by a part of the name."""
        term = search_term.strip()
        if not term:
            return queryset, False
        try:
            return queryset.filter(job_id=uuid.UUID(term)), False
        except ValueError:
            return queryset.filter(name__icontains=term), False

    # --- columns --------------------------------------------------------------------------

    @column("name", ordering="name")
    def job_name(self, job: Job) -> SafeString:
        """Link to the job's page."""
        return link(reverse("admin:jobs_job_change", args=[job.job_id]), job.name)

    @column("team")
    def team(self, job: Job) -> str:
        """Return the owner."""
        return str(job.owner)

    @column("state", label=STATE_LABELS)
    def state(self, job: Job) -> str:
        """Return where the job stands."""
        return state_of(job)

    @column("schedule")
    def when(self, job: Job) -> SafeString | str:
        """Return the schedule in words; as it was written, on hovering."""
        title = schedule_as_written(job)
        return format_html(
            '<span class="ch-clip" title="{}">{}</span>', title, schedule_in_words(job)
        )

    @column("next run", ordering="next__next_run_at")
    def next_run(self, job: Job) -> SafeString | str:
        """Return the next tick on the job's own clock, and whether it is overdue."""
        tick = job.next.next_run_at if job.enabled else None
        shown = instant(tick, read_at(job), job.timezone)
        if tick is None or tick > read_at(job) - OVERDUE:
            return shown
        return format_html('{} <span class="ch-late">overdue</span>', shown)

    @column("last run")
    def last_run(self, job: Job) -> str:
        """Return how the last run went."""
        return str(vars(job).get("last_run_cell")) or "-"

    @column("runs")
    def what(self, job: Job) -> SafeString | str:
        """Return what is executed."""
        return clipped(f"{job.kind}: {payload_in_words(job)}")

    @column("pool")
    def queue(self, job: Job) -> str:
        """Return the pool, and the priority where it is not the usual one."""
        return job.pool if job.priority == "normal" else f"{job.pool} · {job.priority}"
