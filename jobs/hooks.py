"""Where the rooms above jobs hang in what a job's write must also do, inside its transaction."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from jobs.models import Job


@dataclass(frozen=True, slots=True)
class Edge:
    """An upstream of a job, as the API writes it; match is "tick" or "day"."""

    job_id: uuid.UUID
    match: str = "tick"
    day_offset: int = 0


class EdgeStore(Protocol):
    """What dag offers: edges between jobs."""

    def set_edges(self, job: Job, edges: Sequence[Edge]) -> None:
        """Replace the job's upstream edges and set has_upstreams.

        The caller holds the team's row lock. Raises jobs.errors.FieldErrors naming dependsOn for
        an upstream that is unknown or another team's, and for a cycle.
        """

    def edges_of(self, job_ids: Iterable[uuid.UUID]) -> Mapping[uuid.UUID, Sequence[Edge]]:
        """Return the upstream edges of each job that has any."""


@dataclass(slots=True)
class Hooks:
    """Set once by the AppConfig of the room that implements each."""

    # Settle every tick of the version in force in [next_run_at, at] (PROTOCOL 2); before an edit.
    settle: Callable[[Job, datetime], object] | None = None
    # Cancel what a deleted job still has to run; let what is running end.
    cancel_unstarted: Callable[[Job], None] | None = None
    edges: EdgeStore | None = None
    # What is wrong with a Python task's call, as (field below payload, message): its name is not
    # registered, or its arguments do not fit.
    check_task: Callable[[str, Sequence[Any], Mapping[str, Any]], list[tuple[str, str]]] | None = (
        None
    )
    # The newest run of each job that has one, as the API shows a run.
    last_runs: Callable[[Sequence[uuid.UUID]], Mapping[uuid.UUID, dict[str, Any]]] | None = None
    # After a definition was written: limit slots and whatever else follows from it.
    written: list[Callable[[Job], None]] = field(default_factory=list)


hooks = Hooks()
