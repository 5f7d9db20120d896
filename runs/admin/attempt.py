"""Attempts that ended and were followed by another; the last one stands in the run's row."""

from typing import cast

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import ReadOnlyKeysetAdmin, read_at
from chronoproject.adminkit.display import EMPTY, clipped, column, elapsed, instant, link, why
from chronoproject.adminkit.filters import ALL, ChoicesDropdownFilter, TimeWindowFilter
from runs.admin.common import ERROR_ENDS, OUTCOME_LABELS, error_of, job_url, run_url, runs_of
from runs.admin.run_filters import ReasonFilter, WorkerFilter, uuid_of
from runs.ids import millisecond_of
from runs.models import Run, RunAttempt


@admin.register(RunAttempt)
class RunAttemptAdmin(ReadOnlyKeysetAdmin[RunAttempt]):
    """Attempts by tick, newest first; a row leads to its run's page, which has it whole."""

    list_display = (
        "ended",
        "run",
        "job",
        "number",
        "took",
        "why",
        "exit_code",
        "worker",
        "finished",
    )
    list_display_links = None
    list_filter = (
        ("outcome", ChoicesDropdownFilter),
        TimeWindowFilter,
        ReasonFilter,
        WorkerFilter,
    )
    search_fields = ("run_id",)
    search_help_text = "Run id"
    keyset = ("-run_id", "-attempt", "-scheduled_for")
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[RunAttempt]:
        """Leave the errors where they are but for their heads."""
        rows = super().get_queryset(request)
        return rows.annotate(read_at=Now(), **ERROR_ENDS).defer("error")

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> RunAttempt | None:
        """Find none: no index leads to a claim_id, and the run's page shows the attempt."""
        return None

    def default_window(self, request: HttpRequest) -> str:
        """Show a day, but everything of one run."""
        return ALL if uuid_of(request.GET.get("q", "")) else "24h"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[RunAttempt], search_term: str
    ) -> tuple[QuerySet[RunAttempt], bool]:
        """Find by the run's id, which names the partition."""
        run_id = uuid_of(search_term)
        if run_id is None:
            return queryset.none() if search_term.strip() else queryset, False
        return queryset.filter(run_id=run_id, scheduled_for__gte=millisecond_of(run_id)), False

    def prepare_rows(self, rows: list[RunAttempt]) -> None:
        """Look up the runs and their jobs once for the page."""
        found = runs_of((row.run_id for row in rows), (row.scheduled_for for row in rows))
        for row in rows:
            vars(row)["run_row"] = found.get(row.run_id)

    @column("outcome", label=OUTCOME_LABELS)
    def ended(self, row: RunAttempt) -> str:
        """Return how it ended."""
        return row.outcome

    @column("run of")
    def run(self, row: RunAttempt) -> SafeString:
        """Link to the run."""
        run = _run_of(row)
        zone = run.job.timezone if run else "UTC"
        return link(run_url(row.run_id), instant(row.scheduled_for, zone=zone), str(row.run_id))

    @column("job")
    def job(self, row: RunAttempt) -> SafeString | str:
        """Link to the job."""
        run = _run_of(row)
        return link(job_url(run.job_id), run.job.name) if run else EMPTY

    @column("attempt")
    def number(self, row: RunAttempt) -> int:
        """Return its number."""
        return row.attempt

    @column("took")
    def took(self, row: RunAttempt) -> str:
        """Return how long it took."""
        return elapsed(row.started_at, row.finished_at)

    @column("why")
    def why(self, row: RunAttempt) -> SafeString | str:
        """Return the reason and the head of the error."""
        return why(row.reason, error_of(row))

    @column("worker")
    def worker(self, row: RunAttempt) -> SafeString | str:
        """Return who executed it."""
        return clipped(row.worker_id)

    @column("ended at")
    def finished(self, row: RunAttempt) -> SafeString | str:
        """Return when it ended."""
        return instant(row.finished_at, read_at(row))


def _run_of(row: RunAttempt) -> Run | None:
    return cast("Run | None", vars(row).get("run_row"))
