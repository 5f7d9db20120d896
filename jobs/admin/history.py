"""What was in force when, who changed what, and what is paused: to look at."""

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import ChronoAdmin, ReadOnlyKeysetAdmin, ReadOnlyMixin, read_at
from chronoproject.adminkit.display import clipped, column, instant, json_block, link, pretty
from chronoproject.adminkit.filters import (
    AutocompleteSelectFilter,
    ChoicesDropdownFilter,
    ExactTextFilter,
    TeamFilter,
    TimeWindowFilter,
)
from jobs.choices import Change
from jobs.models import AuditEntry, Job, JobVersion, Pause

CHANGE_LABELS: Mapping[str, str] = {
    Change.CREATE: "success",
    Change.UPDATE: "info",
    Change.PAUSE: "warning",
    Change.RESUME: "success",
    Change.DELETE: "danger",
    Change.SYSTEM: "default",
}
JOB_NAME = Prefetch("job", Job.objects.only("job_id", "name"))


class ValidFromFilter(TimeWindowFilter):
    """Versions by the time from which they were in force."""

    column = "valid_from"
    default = "all"


class ActionFilter(ExactTextFilter):
    """Entries of one kind of act."""

    title = "action"
    parameter_name = "action"


class ActorFilter(ExactTextFilter):
    """Entries of one actor."""

    title = "actor"
    parameter_name = "actor"


class AtFilter(TimeWindowFilter):
    """Entries by their time."""

    column = "at"
    default = "all"


@admin.register(JobVersion)
class JobVersionAdmin(ReadOnlyKeysetAdmin[JobVersion]):
    """The versions of every job's definition, newest first."""

    list_display = ("number", "job_name", "kind", "changed_by", "since", "until")
    list_display_links = ("number",)
    list_filter = (
        ("job", AutocompleteSelectFilter),
        ("change", ChoicesDropdownFilter),
        ValidFromFilter,
    )
    search_fields = ("job_id", "changed_by")
    search_help_text = "A job id, or who changed it"
    keyset = ("-job_version_id",)
    readonly_fields = ("differences", "whole")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("job_name", "number"),
                    ("kind", "changed_by"),
                    ("since", "until"),
                    "tzdata_version",
                )
            },
        ),
        ("What changed", {"fields": ("differences",)}),
        ("The definition", {"fields": ("whole",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[JobVersion]:
        """Add the time of reading, and the jobs by a look-up of its own."""
        return super().get_queryset(request).annotate(read_at=Now()).prefetch_related(JOB_NAME)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[JobVersion], search_term: str
    ) -> tuple[QuerySet[JobVersion], bool]:
        """Find by a job's id or by who changed it."""
        term = search_term.strip()
        if len(term) == 36:
            return queryset.filter(job_id=term), False
        return queryset.filter(changed_by__istartswith=term), False

    @column("version")
    def number(self, version: JobVersion) -> str:
        """Return the number."""
        return f"v{version.version}"

    @column("job")
    def job_name(self, version: JobVersion) -> SafeString:
        """Link to the job."""
        return link(reverse("admin:jobs_job_change", args=[version.job_id]), version.job.name)

    @column("change", label=CHANGE_LABELS)
    def kind(self, version: JobVersion) -> str:
        """Return why the version came to be."""
        return version.change

    @column("in force from")
    def since(self, version: JobVersion) -> SafeString | str:
        """Return the first instant."""
        return instant(version.valid_from, read_at(version))

    @column("until")
    def until(self, version: JobVersion) -> SafeString | str:
        """Return the instant after the last."""
        return instant(version.valid_to, read_at(version)) if version.valid_to else "now"

    @column("what changed")
    def differences(self, version: JobVersion) -> SafeString | str:
        """Return each field that is not what it was in the version before."""
        before = JobVersion.objects.filter(job_id=version.job_id, version=version.version - 1)
        old = before.values_list("definition", flat=True).first()
        if old is None:
            return "This is the first version."
        return differences(old, version.definition)

    @column("definition")
    def whole(self, version: JobVersion) -> SafeString | str:
        """Return all of it."""
        return json_block(version.definition)


def differences(old: dict[str, Any], new: dict[str, Any]) -> SafeString | str:
    """Return the fields that differ, with what they were and what they became."""
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    if not changed:
        return "Nothing in the definition."
    rows = format_html_join(
        "",
        "<tr><th>{}</th><td><pre>{}</pre></td><td><pre>{}</pre></td></tr>",
        ((name, pretty(old.get(name)), pretty(new.get(name))) for name in changed),
    )
    return format_html(
        '<table class="ch-diff"><tr><th></th><th>before</th><th>after</th></tr>{}</table>', rows
    )


@admin.register(Pause)
class PauseAdmin(ReadOnlyMixin, ChronoAdmin[Pause]):
    """Pauses of a team or of everything."""

    list_display = ("paused", "state", "reason", "created_by", "created", "ended")
    list_select_related = ("owner",)
    search_fields = ("reason", "created_by")
    ordering = ("-pause_id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Pause]:
        """Add the time of reading."""
        return super().get_queryset(request).annotate(read_at=Now())

    @column("what")
    def paused(self, pause: Pause) -> str:
        """Return what stands still."""
        return f"team {pause.owner}" if pause.owner else "everything"

    @column("state", label={"in force": "warning", "ended": "default"})
    def state(self, pause: Pause) -> str:
        """Return whether it holds."""
        return "ended" if pause.ended_at else "in force"

    @column("since")
    def created(self, pause: Pause) -> SafeString | str:
        """Return when it began."""
        return instant(pause.created_at, read_at(pause))

    @column("until")
    def ended(self, pause: Pause) -> SafeString | str:
        """Return when it ended."""
        return instant(pause.ended_at, read_at(pause))


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyKeysetAdmin[AuditEntry]):
    """Who did what to what, newest first."""

    list_display = ("when", "actor", "action", "object", "team", "more")
    list_display_links = ("when",)
    list_filter = (AtFilter, ActionFilter, ActorFilter, ("owner", TeamFilter))
    search_fields = ("object_id",)
    search_help_text = "The id of what it was done to"
    keyset = ("-audit_id",)
    fields = ("when", "actor", "action", "object", "team", "whole")
    readonly_fields = ("whole",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        """Add the time of reading, and the team by a look-up of its own."""
        return super().get_queryset(request).annotate(read_at=Now()).prefetch_related("owner")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEntry], search_term: str
    ) -> tuple[QuerySet[AuditEntry], bool]:
        """Find by the object's id, through its index."""
        term = search_term.strip()
        known = ("job", "run", "token", "team")
        found = queryset.filter(object_type__in=known, object_id=term) if term else queryset
        return found, False

    @column("when")
    def when(self, entry: AuditEntry) -> SafeString | str:
        """Return the instant."""
        return instant(entry.at, read_at(entry))

    @column("object")
    def object(self, entry: AuditEntry) -> SafeString | str:
        """Link to what it was done to."""
        text = f"{entry.object_type} {entry.object_id}"
        pages = {"job": "admin:jobs_job_change", "run": "admin:runs_run_change"}
        page = pages.get(entry.object_type)
        return link(reverse(page, args=[entry.object_id]), text) if page else text

    @column("team")
    def team(self, entry: AuditEntry) -> str:
        """Return whose it is."""
        return str(entry.owner or "-")

    @column("detail")
    def more(self, entry: AuditEntry) -> SafeString | str:
        """Return the detail in a line."""
        return clipped(str(entry.detail)) if entry.detail else "-"

    @column("detail")
    def whole(self, entry: AuditEntry) -> SafeString | str:
        """Return all of the detail."""
        return json_block(entry.detail)
