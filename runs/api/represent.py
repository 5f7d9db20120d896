"""A run and its attempts, as the API shows them."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.fields import instant_text, optional_instant_text
from runs import selectors
from runs.models import Run, RunAttempt
from runs.states import AttemptOutcome, RunStatus


def run_body(run: Run, job_name: str) -> dict[str, Any]:
    """Return a run as the API shows it."""
    return {
        "id": str(run.run_id),
        "jobId": str(run.job_id),
        "jobName": job_name,
        "scheduledFor": instant_text(run.scheduled_for),
        "logicalDate": instant_text(run.logical_date),
        "status": run.status,
        "reason": run.reason,
        "trigger": run.trigger,
        "attempt": run.attempt,
        "maxAttempts": run.attempt_limit,
        "workerId": run.worker_id or None,
        "createdAt": instant_text(run.created_at),
        "availableAt": instant_text(run.available_at),
        "startedAt": optional_instant_text(run.started_at),
        "finishedAt": optional_instant_text(run.finished_at),
        "exitCode": run.exit_code,
        "error": run.error,
        "outputRef": run.output_ref or None,
        "jobVersion": run.job_version,
    }


def run_detail(run: Run) -> dict[str, Any]:
    """Return a run with what a list leaves out: its progress, its output, a trigger's payload."""
    return {
        **run_body(run, run.job.name),
        "progress": _progress(run),
        "payload": run.payload,
        "output": run.output,
    }


def _progress(run: Run) -> dict[str, int] | None:
    """Return how far a Python task said it was, at most a heartbeat ago; null when it never did."""
    if run.progress_done is None or run.progress_total is None:
        return None
    return {"done": run.progress_done, "total": run.progress_total}


def last_runs(job_ids: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, dict[str, Any]]:
    """Return the newest run of each job that has one; jobs.hooks asks for it."""
    newest: Sequence[Any] = selectors.newest_runs(job_ids)
    return {run.job_id: run_body(run, run.job_name) for run in newest}


def attempt_bodies(run: Run) -> list[dict[str, Any]]:
    """Return the run's attempts, oldest first; the present one stands in the run's row."""
    archived = selectors.attempts_of(run)
    bodies = [_archived_body(attempt) for attempt in archived]
    if run.claim_id is not None and run.attempt not in {attempt.attempt for attempt in archived}:
        bodies.append(_present_body(run))
    return bodies


def _archived_body(attempt: RunAttempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "reason": attempt.reason,
        "exitCode": attempt.exit_code,
        "error": attempt.error,
        "workerId": attempt.worker_id or None,
        "startedAt": optional_instant_text(attempt.started_at),
        "finishedAt": optional_instant_text(attempt.finished_at),
        "outputRef": attempt.output_ref or None,
    }


def _present_body(run: Run) -> dict[str, Any]:
    return {
        "attempt": run.attempt,
        "outcome": _outcome(run),
        "reason": run.reason,
        "exitCode": run.exit_code,
        "error": run.error,
        "workerId": run.worker_id or None,
        "startedAt": optional_instant_text(run.started_at),
        "finishedAt": optional_instant_text(run.finished_at),
        "outputRef": run.output_ref or None,
    }


def _outcome(run: Run) -> str | None:
    """Return how the present attempt ended; null while it runs."""
    if run.status in {RunStatus.SUCCEEDED, RunStatus.CANCELLED}:
        return run.status
    if run.status != RunStatus.DEAD:
        return None
    told = {AttemptOutcome.TIMEOUT, AttemptOutcome.WORKER_LOST, AttemptOutcome.CRASHED}
    return run.reason if run.reason in told else AttemptOutcome.FAILED.value
