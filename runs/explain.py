"""Why a run stands where it stands, in a sentence: the simplest correct form."""

from typing import Any

from django.conf import settings

from chronoproject.clock import db_now
from jobs.fields import optional_instant_text
from runs.floor import SQL
from runs.hooks import run_hooks
from runs.models import Run
from runs.states import TERMINAL, RunStatus

REASONS = {
    "": "",
    "dependency": "it waits for runs of the jobs it depends on",
    "concurrency": "as many runs of the job, or of its concurrency key, are active as it allows",
    "exit_code": "its command ended with an exit code other than 0",
    "timeout": "an attempt took longer than timeoutSec",
    "worker_lost": "its worker stopped renewing the lease",
    "crashed": "its process died",
    "http_status": "its call was answered with a status that expectStatus does not name",
    "connection": "its call got no whole answer",
    "address_refused": "its call goes to an address that jobs may not call",
    "exception": "its task raised an exception",
    "output": "its output cannot be kept",
    "definition": "its definition cannot be executed",
    "internal": "the worker failed on it",
    "upstream_failed": "a run that it depends on did not succeed",
    "rule_not_met": "the runs that it depends on have ended, and its trigger rule asks for others",
    "no_upstream_tick": "a job that it depends on never had a tick to wait for",
    "dependency_timeout": "its upstream runs took longer than dependencyTimeoutSec",
    "misfire": "its tick was found too late",
    "job_deleted": "its job was deleted",
    "user": "it was cancelled on request",
}
SUPERSEDED = "a newer run of the job took its place, by concurrencyPolicy cancel_running"
# Attempts lost so are followed by others without using a retry; the last one ends the run.
LOST = frozenset({"worker_lost", "crashed"})
# Reasons that say little without the attempt's own error.
TOLD_BY_ERROR = frozenset(
    {
        "http_status",
        "connection",
        "address_refused",
        "exception",
        "output",
        "definition",
        "internal",
    }
)
MAX_ERROR_SHOWN = 500


def explain(run: Run) -> dict[str, Any]:
    """Return status, reason and a sentence; `hasStarted` tells whether there was an attempt yet."""
    return {
        "runId": str(run.run_id),
        "status": run.status,
        "reason": run.reason,
        "hasStarted": run.attempt > 0,
        "availableAt": optional_instant_text(run.available_at),
        "summary": _summary(run),
    }


def _summary(run: Run) -> str:
    status = RunStatus(run.status)
    why = _why(run)
    if status == RunStatus.WAITING:
        return f"Not started: {why or 'it is held back'}."
    if status == RunStatus.QUEUED:
        return _queued(run)
    if status == RunStatus.RUNNING:
        return f"Attempt {run.attempt} runs on worker {run.worker_id}.{_asked(run)}"
    if status == RunStatus.RETRYING:
        due = optional_instant_text(run.available_at)
        told = f" ({why})" if why else ""
        return f"Attempt {run.attempt} did not succeed{told}; the next is due at {due}."
    if status in TERMINAL and run.attempt == 0:
        return f"Never started; {status.value}{f': {why}' if why else ''}."
    return f"Ended {status.value} after attempt {run.attempt}{f': {why}' if why else ''}."


def _asked(run: Run) -> str:
    if not run.cancel_requested_at:
        return ""
    return f" A cancel was asked for{f': {SUPERSEDED}' if run.reason == 'concurrency' else ''}."


def _why(run: Run) -> str:
    if (run.status, run.reason) == (RunStatus.CANCELLED, "concurrency"):
        return SUPERSEDED
    obstacles = "; ".join(run_hooks.obstacles(run)) if run_hooks.obstacles else ""
    if obstacles and run.status == RunStatus.SKIPPED:
        return obstacles
    why = REASONS.get(run.reason, run.reason.replace("_", " "))
    if run.reason in LOST and run.status == RunStatus.DEAD:
        return f"{why}, more often than is tried again"
    if obstacles:
        return f"{why}: {obstacles}"
    if run.reason in TOLD_BY_ERROR and run.error:
        return f"{why}: {' '.join(run.error.split())[:MAX_ERROR_SHOWN].rstrip('.')}"
    return why


def _queued(run: Run) -> str:
    queue = f"{run.pool}.{run.priority}"
    if run.published_at is None:
        return f"Not started: queued for {queue}, and about to be published."
    if not SQL["pool_has_worker"].rows(pool=run.pool, seen_sec=settings.CHRONO_LEASE_SEC):
        return f"Not started: queued in {queue}, but no live worker serves the pool {run.pool}."
    waited = (db_now() - run.published_at).total_seconds()
    return f"Not started: queued in {queue} for {waited:.0f} s, waiting for a free worker."
