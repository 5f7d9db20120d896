"""Ranges of ticks that have no run of their own, and the rule that says why."""

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import ReadOnlyKeysetAdmin, read_at
from chronoproject.adminkit.display import EMPTY, column, instant, link
from chronoproject.adminkit.filters import (
    AutocompleteSelectFilter,
    ChoicesDropdownFilter,
    TeamFilter,
    TimeWindowFilter,
)
from jobs.models import Job
from runs.admin.common import JOB_AND_TEAM, RULE_LABELS, job_url, run_url
from runs.admin.run_filters import JOBS_BY_PREFIX, uuid_of
from runs.ids import run_id_of
from runs.models import Misfire


class RecordedFilter(TimeWindowFilter):
    """Ranges by the time at which they were recorded."""

    column = "created_at"
    default = "all"


@admin.register(Misfire)
class MisfireAdmin(ReadOnlyKeysetAdmin[Misfire]):
    """Misfires, newest first."""

    list_display = ("why", "job_name", "team", "tick_count", "first", "last", "into", "recorded")
    list_display_links = None
    list_filter = (
        ("rule", ChoicesDropdownFilter),
        ("job", AutocompleteSelectFilter),
        ("owner", TeamFilter),
        RecordedFilter,
    )
    search_fields = ("job_id",)
    search_help_text = "Job id, or how a job's name begins"
    keyset = ("-misfire_id",)
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Misfire]:
        """Add the time of reading, and jobs and teams by look-ups of their own."""
        return super().get_queryset(request).annotate(read_at=Now()).prefetch_related(*JOB_AND_TEAM)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Misfire], search_term: str
    ) -> tuple[QuerySet[Misfire], bool]:
        """Find by a job's id or by the beginning of its name."""
        term = search_term.strip()
        job_id = uuid_of(term)
        if job_id:
            return queryset.filter(job_id=job_id), False
        jobs = Job.objects.filter(name__startswith=term).order_by("name")
        ids = list(jobs.values_list("job_id", flat=True)[:JOBS_BY_PREFIX])
        return (queryset.filter(job_id__in=ids) if term else queryset), False

    @column("rule", label=RULE_LABELS)
    def why(self, misfire: Misfire) -> str:
        """Return the rule."""
        return misfire.rule

    @column("job")
    def job_name(self, misfire: Misfire) -> SafeString:
        """Link to the job."""
        return link(job_url(misfire.job_id), misfire.job.name)

    @column("team")
    def team(self, misfire: Misfire) -> str:
        """Return the owner."""
        return str(misfire.owner)

    @column("first tick")
    def first(self, misfire: Misfire) -> SafeString | str:
        """Return the first tick on the job's clock."""
        return instant(misfire.first_tick, zone=misfire.job.timezone)

    @column("last tick")
    def last(self, misfire: Misfire) -> SafeString | str:
        """Return the last tick on the job's clock."""
        return instant(misfire.last_tick, zone=misfire.job.timezone)

    @column("into the run of")
    def into(self, misfire: Misfire) -> SafeString | str:
        """Link to the run that stands for them."""
        if misfire.into_scheduled_for is None:
            return EMPTY
        run_id = run_id_of(misfire.job_id, misfire.into_scheduled_for)
        zone = misfire.job.timezone
        return link(run_url(run_id), instant(misfire.into_scheduled_for, zone=zone), str(run_id))

    @column("recorded")
    def recorded(self, misfire: Misfire) -> SafeString | str:
        """Return when it was recorded."""
        return instant(misfire.created_at, read_at(misfire))
