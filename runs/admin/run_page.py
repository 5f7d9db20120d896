"""A run's page: every fact, its attempts with their logs, and what belongs to it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import ReadOnlyKeysetAdmin, read_at
from chronoproject.adminkit.display import EMPTY, clock, elapsed, instant, link, pretty
from jobs.models import JobVersion
from runs.admin import logs
from runs.admin.common import (
    OUTCOME_LABELS,
    STATUS_LABELS,
    job_url,
    progress_text,
    run_query,
    runs_url,
)
from runs.admin.extension import panels
from runs.admin.run_filters import uuid_of
from runs.models import Misfire, Run, RunAttempt
from runs.states import LIVE, RunStatus

MISFIRES_SHOWN = 20
AGAIN = ("rerun", "Run again", "replay")
Fact = tuple[str, SafeString | str]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as the page shows it."""

    number: int
    outcome: str
    label: str
    reason: str
    exit_code: int | None
    error: str
    worker_id: str
    started_at: SafeString | str
    took: str
    log_url: str
    is_current: bool


class RunPage(ReadOnlyKeysetAdmin[Run]):
    """The change page of a run, which nobody can change."""

    change_form_template = "admin/runs/run/change_form.html"
    fieldsets = ((None, {"fields": ()}),)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Run | None:
        """Read the run from its one partition."""
        run_id = uuid_of(object_id)
        found = None if run_id is None else run_query(run_id)
        if found is None:
            return None
        return found.annotate(read_at=Now()).prefetch_related("job", "owner").first()

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Run | None = None,
    ) -> HttpResponse:
        """Show the facts in place of a form."""
        if obj is not None:
            context.update(page_context(request, obj))
        return super().render_change_form(request, context, add, change, form_url, obj)


def page_context(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Return what the template shows."""
    attempts = attempts_of(run)
    return {
        "run": run,
        "title": f"{run.job.name} · {clock(run.scheduled_for, run.job.timezone)}",
        "status_label": STATUS_LABELS.get(run.status, "default"),
        "is_live": run.status in LIVE,
        "facts": facts_of(run),
        "attempts": attempts,
        "tail": logs.tail(run, attempts[0].number) if attempts else None,
        "misfires": misfires_of(run),
        "definition": definition_of(run),
        "payload": None if run.payload is None else pretty(run.payload),
        "output": None if run.output is None else pretty(run.output),
        "buttons": buttons_of(request, run),
        "status_url": reverse("admin:runs_run_status", args=[run.run_id]),
        "panels": [
            {"title": panel.title, "template": panel.template} | dict(panel.context(request, run))
            for panel in panels
        ],
    }


def buttons_of(request: HttpRequest, run: Run) -> list[dict[str, str]]:
    """Return what this user may do to the run; each posts."""
    if not request.user.has_perm("runs.change_run"):
        return []
    verb, title, icon = ("cancel", "Cancel", "cancel") if run.status in LIVE else AGAIN
    url = reverse(f"admin:runs_run_{verb}", args=[run.run_id])
    return [{"url": url, "title": title, "icon": icon}]


def facts_of(run: Run) -> list[list[Fact]]:
    """Return the facts in groups: which run, when, and where it stands."""
    now, zone = read_at(run), run.job.timezone

    def at(value: datetime | None) -> SafeString | str:
        return instant(value, now, zone)

    which: list[Fact] = [
        ("Job", link(job_url(run.job_id), run.job.name)),
        ("Team", str(run.owner)),
        ("Run id", str(run.run_id)),
        ("Trigger", run.trigger),
        ("Job version", _version_link(run)),
        ("Pool and priority", f"{run.pool} · {run.priority}"),
        ("Other runs of the job", link(runs_url(job__job_id__exact=run.job_id), "all of them")),
    ]
    when: list[Fact] = [
        ("Scheduled for", at(run.scheduled_for)),
        ("Logical date", at(run.logical_date)),
        ("Created", at(run.created_at)),
        ("Published", at(run.published_at)),
        ("Available", at(run.available_at)),
        ("Started", at(run.started_at)),
        ("Finished", at(run.finished_at)),
        ("Took", elapsed(run.started_at, run.finished_at or now)),
    ]
    lost = f", {run.lost_count} lost with their worker" if run.lost_count else ""
    standing: list[Fact] = [
        ("Reason", run.reason or EMPTY),
        ("Attempt", f"{run.attempt} of {run.attempt_limit}{lost}"),
        ("Progress", format_html('<span id="ch-progress">{}</span>', progress_text(run))),
        ("Exit code", EMPTY if run.exit_code is None else str(run.exit_code)),
        ("Worker", _worker_link(run.worker_id)),
        ("Lease until", at(run.lease_until)),
        ("Cancel asked for", at(run.cancel_requested_at)),
        ("Limit", run.limit_key or EMPTY),
        ("Log at", run.output_ref or EMPTY),
    ]
    return [which, when, standing]


def _worker_link(worker_id: str) -> SafeString | str:
    if not worker_id:
        return EMPTY
    return link(f"{reverse('admin:runs_worker_changelist')}?q={worker_id}", worker_id)


def _version_link(run: Run) -> SafeString | str:
    found = JobVersion.objects.filter(job_id=run.job_id, version=run.job_version)
    key = found.values_list("pk", flat=True).first()
    text = f"v{run.job_version}"
    return link(reverse("admin:jobs_jobversion_change", args=[key]), text) if key else text


def definition_of(run: Run) -> str | None:
    """Return the definition that the run was made from."""
    found = JobVersion.objects.filter(job_id=run.job_id, version=run.job_version)
    definition = found.values_list("definition", flat=True).first()
    return None if definition is None else pretty(definition)


def attempts_of(run: Run) -> list[Attempt]:
    """Return the attempts, newest first; the run's own row holds the current one."""
    past = RunAttempt.objects.filter(run_id=run.run_id, scheduled_for=run.scheduled_for)
    shown = [_past(run, row) for row in past.order_by("-attempt")]
    if run.attempt and (not shown or shown[0].number < run.attempt):
        shown.insert(0, _current(run))
    return shown


def _current(run: Run) -> Attempt:
    kinds = {RunStatus.DEAD: "failed"}
    outcome = kinds.get(RunStatus(run.status), run.status)
    return Attempt(
        number=run.attempt,
        outcome=outcome,
        label=STATUS_LABELS.get(run.status, "default"),
        reason=run.reason,
        exit_code=run.exit_code,
        error=run.error,
        worker_id=run.worker_id,
        started_at=instant(run.started_at, read_at(run), run.job.timezone),
        took=elapsed(run.started_at, run.finished_at or read_at(run)),
        log_url=logs.url(run, run.attempt),
        is_current=True,
    )


def _past(run: Run, row: RunAttempt) -> Attempt:
    return Attempt(
        number=row.attempt,
        outcome=row.outcome,
        label=OUTCOME_LABELS.get(row.outcome, "default"),
        reason=row.reason,
        exit_code=row.exit_code,
        error=row.error,
        worker_id=row.worker_id,
        started_at=instant(row.started_at, read_at(run), run.job.timezone),
        took=elapsed(row.started_at, row.finished_at),
        log_url=logs.url(run, row.attempt),
        is_current=False,
    )


def misfires_of(run: Run) -> list[dict[str, Any]]:
    """Return the ranges of ticks that were coalesced into this run."""
    ranges = Misfire.objects.filter(
        job_id=run.job_id, first_tick__lte=run.scheduled_for, into_scheduled_for=run.scheduled_for
    )
    zone = run.job.timezone
    return [
        {
            "count": row.tick_count,
            "first": instant(row.first_tick, zone=zone),
            "last": instant(row.last_tick, zone=zone),
            "rule": row.rule,
        }
        for row in ranges.order_by("-first_tick")[:MISFIRES_SHOWN]
    ]
