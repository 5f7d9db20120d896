"""What executors share: the work, its outcome, and the log it writes to."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from runs import slots

Kind = Literal["command", "http", "task"]
OutcomeResult = Literal["succeeded", "failed", "timeout", "cancelled", "lost"]

KIND_NUMBERS: dict[str, int] = {
    "command": slots.KIND_COMMAND,
    "http": slots.KIND_HTTP,
    "task": slots.KIND_TASK,
}


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt of a run, ready to execute."""

    run_id: uuid.UUID
    job_id: uuid.UUID
    scheduled_for: datetime
    logical_date: datetime
    attempt: int
    claim_id: uuid.UUID
    kind: Kind
    payload: dict[str, Any]
    env: dict[str, str] = field(default_factory=dict)
    timeout_sec: float = 3600
    kill_grace_sec: float = 10
    # What the upstreams' runs came to, by name; None for a job that has no upstreams.
    inputs: Mapping[str, Any] | None = None

    def identity(self) -> dict[str, str]:
        """Return the variables that tell a run's processes who they are."""
        return {
            "CHRONO_RUN_ID": str(self.run_id),
            "CHRONO_JOB_ID": str(self.job_id),
            "CHRONO_SCHEDULED_FOR": iso(self.scheduled_for),
            "CHRONO_ATTEMPT": str(self.attempt),
            "CHRONO_LOGICAL_DATE": iso(self.logical_date),
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended.

    `lost` means that the worker ended it before it had an outcome of its own; `reason` then says
    whether its lease ran out (fenced), the reaper took it (lost), or the worker drains (drain).
    """

    result: OutcomeResult
    reason: str = ""
    exit_code: int | None = None
    error: str = ""
    output: Any = None
    http_status: int | None = None
    retry_after_sec: float | None = None


class Log(Protocol):
    """Where an attempt's output goes."""

    def write(self, data: bytes) -> None:
        """Append output."""

    def flush_due_in(self) -> float | None:
        """Return the seconds until kept output must be stored; None when there is none."""

    def flush(self) -> None:
        """Store what is kept."""


class Executor(Protocol):
    """Executes one kind of work."""

    def execute(self, work: Work, log: Log) -> Outcome:
        """Execute to the end, whatever the end is; raises nothing that the work itself caused."""


ENDINGS: dict[int, tuple[OutcomeResult, str]] = {
    slots.CAUSE_TIMEOUT: ("timeout", "timeout"),
    slots.CAUSE_CANCEL: ("cancelled", "user"),
    slots.CAUSE_FENCED: ("lost", "fenced"),
    slots.CAUSE_LOST: ("lost", "lost"),
    slots.CAUSE_DRAIN: ("lost", "drain"),
}


def ended_outcome(cause: int, work: Work, exit_code: int | None = None) -> Outcome:
    """Return the outcome of an attempt that was ended from outside."""
    result, reason = ENDINGS[cause]
    errors = {
        "timeout": f"timed out after {work.timeout_sec:g} s",
        "user": "cancelled",
        "fenced": "the lease could not be renewed in time",
        "lost": "the run was taken over",
        "drain": "the worker shut down",
    }
    return Outcome(result, reason=reason, exit_code=exit_code, error=errors[reason])


def iso(instant: datetime) -> str:
    """Return an instant as ISO 8601 in UTC with Z."""
    return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")


def note(log: Log, text: str) -> None:
    """Write a line of Chrono's own into an attempt's log."""
    log.write(f"[chrono] {text}\n".encode())
