"""A job's schedule and payload in words."""

from typing import Any

from chronoproject.adminkit.display import clock, span
from jobs.choices import JobKind
from jobs.cron import InvalidSchedule, describe
from jobs.models import Job

STATE_LABELS = {
    "enabled": "success",
    "disabled": "warning",
    "quarantined": "danger",
    "deleted": "default",
}


def schedule_in_words(job: Job) -> str:
    """Return when the job runs."""
    if job.schedule:
        try:
            return describe(job.schedule, str(job.job_id))
        except InvalidSchedule:
            return job.schedule
    if job.run_at:
        return f"Once, at {clock(job.run_at, job.timezone)}"
    if job.every_sec:
        return f"Every {span(job.every_sec)}"
    return "After its upstreams" if job.has_upstreams else "When triggered"


def schedule_as_written(job: Job) -> str:
    """Return the schedule as its owner wrote it, with the zone."""
    if job.schedule:
        return f"{job.schedule}  ({job.timezone})"
    return job.timezone


def payload_in_words(job: Job) -> str:
    """Return what the job executes, in a line."""
    payload: dict[str, Any] = job.payload if isinstance(job.payload, dict) else {}
    if job.kind == JobKind.COMMAND:
        command = payload.get("command", "")
        return command if isinstance(command, str) else " ".join(map(str, command))
    if job.kind == JobKind.HTTP:
        return f"{payload.get('method', 'GET')} {payload.get('url', '')}"
    return str(payload.get("task", ""))


def state_of(job: Job) -> str:
    """Return where the job stands, in a word."""
    if job.deleted_at:
        return "deleted"
    if job.next.retry_at:
        return "quarantined"
    return "enabled" if job.enabled else "disabled"
