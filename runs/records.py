"""The values that lifecycle takes and returns."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from runs.ids import micros_of, run_id_of, run_id_text

Progress = tuple[int, int]  # (done, total), as a Python task tells it


@dataclass(frozen=True, slots=True, order=True)
class RunRef:
    """A run by its database key."""

    run_id: uuid.UUID
    scheduled_for: datetime


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be born; queued, unless it waits for upstreams or at a limit."""

    job_id: uuid.UUID
    owner_id: int
    scheduled_for: datetime
    logical_date: datetime
    trigger: str
    job_version: int
    pool: str
    priority: str
    attempt_limit: int
    status: str = "queued"
    reason: str = ""
    limit_key: str | None = None
    payload: dict[str, Any] | None = None
    with_downstream: bool = False  # a triggered run takes its downstream along

    @property
    def run_id(self) -> uuid.UUID:
        """Return the id, which follows from the job and the instant."""
        return run_id_of(self.job_id, self.scheduled_for)

    @property
    def ref(self) -> RunRef:
        """Return the run's key."""
        return RunRef(self.run_id, self.scheduled_for)


@dataclass(frozen=True, slots=True)
class QueuedTicks:
    """One tick of many jobs that agree in all but these three; it waits for nothing.

    job_ids are spelt as PostgreSQL spells them; limits are Celery's (hard, soft) in seconds.
    """

    job_ids: Sequence[str]
    owners: Sequence[int]
    versions: Sequence[int]
    tick: datetime
    pool: str
    priority: str
    attempt_limit: int
    limits: tuple[int, int]

    def run_ids(self) -> list[str]:
        """Return the ids of the runs."""
        micros = micros_of(self.tick)
        return [run_id_text(bytes.fromhex(job.replace("-", "")), micros) for job in self.job_ids]


@dataclass(frozen=True, slots=True)
class NewMisfire:
    """A range of ticks without a run of their own; rule is a MisfireRule."""

    job_id: uuid.UUID
    owner_id: int
    first_tick: datetime
    last_tick: datetime
    tick_count: int
    rule: str
    job_version: int
    into_scheduled_for: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run this worker may execute; (attempt, claim_id) fences every later write."""

    run_id: uuid.UUID
    scheduled_for: datetime
    logical_date: datetime
    job_id: uuid.UUID
    trigger: str
    attempt: int
    attempt_limit: int
    lost_count: int
    claim_id: uuid.UUID
    limit_key: str | None
    definition: dict[str, Any]
    override: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Held:
    """An attempt that a worker executes."""

    run_id: uuid.UUID
    scheduled_for: datetime
    attempt: int
    claim_id: uuid.UUID
    progress: Progress | None = field(default=None, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class Expired(Held):
    """An attempt whose lease the reaper saw run out, unchanged."""

    lease_until: datetime


@dataclass(frozen=True, slots=True)
class Renewed:
    """A renewed lease, and whether the run is to be cancelled."""

    run_id: uuid.UUID
    attempt: int
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended and what the run becomes: succeeded, retrying, dead or cancelled."""

    run_id: uuid.UUID
    scheduled_for: datetime
    attempt: int
    claim_id: uuid.UUID
    outcome: str
    status: Literal["succeeded", "retrying", "dead", "cancelled"]
    reason: str = ""
    retry_in_sec: float | None = None
    exit_code: int | None = None
    error: str = ""
    output_ref: str = ""
    output: Any = None
    limit_key: str | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A run after a transition."""

    run_id: uuid.UUID
    scheduled_for: datetime
    job_id: uuid.UUID
    owner: int
    logical_date: datetime
    trigger: str
    status: str
    reason: str
    attempt: int

    @property
    def ref(self) -> RunRef:
        """Return the run's key."""
        return RunRef(self.run_id, self.scheduled_for)


def progress_arrays(rows: Sequence[Held | Result]) -> dict[str, list[int | None]]:
    """Return how far attempts say they are as one array a column, for unnest."""
    told = [row.progress for row in rows]
    return {
        "progress_done": [None if one is None else one[0] for one in told],
        "progress_total": [None if one is None else one[1] for one in told],
    }
