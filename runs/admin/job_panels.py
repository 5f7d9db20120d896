"""What this app knows of a job: its last runs on the list, its runs and misfires on its page."""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.db.models.functions import Now
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import read_at
from chronoproject.adminkit.display import distance, elapsed, instant, link, why
from chronoproject.sql import load
from jobs.admin.extension import Panel, extension
from jobs.models import Job
from runs.admin.common import RULE_LABELS, STATUS_LABELS, run_url, runs_url
from runs.ids import run_id_of
from runs.models import Misfire, Run

SQL = load(Path(__file__).parent / "sql")
RUNS_SHOWN, MISFIRES_SHOWN = 10, 8


def label(text: str, kind: str) -> SafeString:
    """Return a label as the lists draw it."""
    drawn = render_to_string("unfold/helpers/label.html", {"text": text, "type": kind})
    return SafeString(drawn)


def last_runs(jobs: Sequence[Job]) -> Mapping[uuid.UUID, SafeString]:
    """Return how the last run of each job went, in one query."""
    rows = SQL["last_runs_of_jobs"].dicts(job_id=[job.job_id for job in jobs])
    return {
        row["job_id"]: format_html(
            '<span class="ch-when"><a href="{}" title="{}">{}</a>'
            '<span class="ch-far">{}</span></span>',
            run_url(row["run_id"]),
            row["scheduled_for"].isoformat(),
            label(row["status"], STATUS_LABELS.get(row["status"], "default")),
            distance(row["scheduled_for"], row["read_at"]),
        )
        for row in rows
    }


def runs_panel(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Return the newest runs of a job."""
    if not request.user.has_perm("runs.view_run"):
        return {"headers": [], "rows": []}
    runs = Run.objects.filter(job=job).annotate(read_at=Now()).defer("output", "payload")
    return {
        "headers": ["status", "scheduled for", "trigger", "attempt", "took", "why"],
        "rows": [
            [
                label(run.status, STATUS_LABELS.get(run.status, "default")),
                link(run_url(run.run_id), instant(run.scheduled_for, read_at(run), job.timezone)),
                run.trigger,
                f"{run.attempt} of {run.attempt_limit}",
                elapsed(run.started_at, run.finished_at or read_at(run)),
                why(run.reason, run.error),
            ]
            for run in runs.order_by("-scheduled_for")[:RUNS_SHOWN]
        ],
        "more_url": runs_url(job__job_id__exact=job.job_id),
    }


def misfires_panel(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Return the newest ranges of ticks without a run of their own."""
    if not request.user.has_perm("runs.view_misfire"):
        return {"headers": [], "rows": []}
    misfires = Misfire.objects.filter(job=job).order_by("-first_tick")[:MISFIRES_SHOWN]
    more = f"{reverse('admin:runs_misfire_changelist')}?job__job_id__exact={job.job_id}"
    return {
        "headers": ["rule", "ticks", "first", "last", "into the run of"],
        "rows": [
            [
                label(row.rule, RULE_LABELS.get(row.rule, "default")),
                str(row.tick_count),
                instant(row.first_tick, zone=job.timezone),
                instant(row.last_tick, zone=job.timezone),
                _into(job, row),
            ]
            for row in misfires
        ],
        "more_url": more,
    }


def _into(job: Job, misfire: Misfire) -> SafeString | str:
    if misfire.into_scheduled_for is None:
        return "-"
    run_id = run_id_of(job.job_id, misfire.into_scheduled_for)
    return link(run_url(run_id), instant(misfire.into_scheduled_for, zone=job.timezone))


TABLE = "admin/chrono/panel_table.html"
extension.last_runs = last_runs
extension.panels += [
    Panel("Newest runs", TABLE, runs_panel, before_form=True),
    Panel("Misfires", TABLE, misfires_panel),
]
