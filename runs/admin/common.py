"""What the pages of this app share: links, labels, and look-ups made once for a page."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Model, Prefetch
from django.db.models.functions import Left, Right
from django.urls import reverse

from chronoproject.adminkit.display import EMPTY
from jobs.models import Job, Team
from runs.models import Run, RunQuerySet
from runs.states import AttemptOutcome, MisfireRule, RunStatus

STATUS_LABELS: Mapping[str, str] = {
    RunStatus.SUCCEEDED: "success",
    RunStatus.DEAD: "danger",
    RunStatus.RUNNING: "info",
    RunStatus.QUEUED: "primary",
    RunStatus.RETRYING: "warning",
    RunStatus.WAITING: "default",
    RunStatus.SKIPPED: "default",
    RunStatus.CANCELLED: "default",
}
OUTCOME_LABELS: Mapping[str, str] = {
    AttemptOutcome.SUCCEEDED: "success",
    AttemptOutcome.FAILED: "danger",
    AttemptOutcome.TIMEOUT: "danger",
    AttemptOutcome.WORKER_LOST: "warning",
    AttemptOutcome.CRASHED: "warning",
    AttemptOutcome.DRAINED: "default",
    AttemptOutcome.CANCELLED: "default",
}
RULE_LABELS: Mapping[str, str] = {
    MisfireRule.COALESCED: "info",
    MisfireRule.SKIPPED: "warning",
    MisfireRule.CAPPED: "danger",
    MisfireRule.PAUSED: "default",
    MisfireRule.EXCLUDED: "default",
    MisfireRule.DST_GAP: "default",
}
# Two look-ups by key for a page: a join could tempt the planner into scanning all of jobs.
JOB_AND_TEAM: tuple["Prefetch[Any]", ...] = (
    Prefetch("job", Job.objects.only("job_id", "name", "timezone", "deleted_at")),
    Prefetch("owner", Team.objects.only("team_id", "slug")),
)


# Lists read the two ends of an error, not the kilobytes between them.
ERROR_ENDS: Mapping[str, Any] = {
    "error_head": Left("error", 200),
    "error_tail": Right("error", 400),
}


def error_of(row: Model) -> str:
    """Return the ends of an error that a list has read."""
    head, tail = str(vars(row)["error_head"]), str(vars(row)["error_tail"])
    return head if len(head) < 200 else f"{head}\n{tail}"


def progress_text(run: Run) -> str:
    """Return how far a Python task says it is."""
    if run.progress_done is None:
        return EMPTY
    of_total = f" of {run.progress_total}" if run.progress_total else ""
    return f"{run.progress_done}{of_total}"


def run_url(run_id: uuid.UUID) -> str:
    """Return the address of a run's page."""
    return reverse("admin:runs_run_change", args=[run_id])


def runs_url(**query: object) -> str:
    """Return the address of the list of runs, narrowed."""
    terms = "&".join(f"{name}={value}" for name, value in query.items())
    return f"{reverse('admin:runs_run_changelist')}?{terms}"


def job_url(job_id: uuid.UUID) -> str:
    """Return the address of a job's page."""
    return reverse("admin:jobs_job_change", args=[job_id])


def run_query(run_id: uuid.UUID) -> RunQuerySet | None:
    """Return the query of one run in its partition; None for an id that names no time."""
    try:
        return Run.objects.all().by_id(run_id)
    except OverflowError:
        return None


def runs_of(run_ids: Iterable[uuid.UUID], ticks: Iterable[Any]) -> dict[uuid.UUID, Run]:
    """Return the runs by id with their jobs; `ticks` are their scheduled_for, which prune."""
    found = Run.objects.filter(run_id__in=set(run_ids), scheduled_for__in=set(ticks))
    rows = found.only("run_id", "job_id", "scheduled_for", "status", "attempt", "attempt_limit")
    return {row.run_id: row for row in rows.prefetch_related(JOB_AND_TEAM[0])}
