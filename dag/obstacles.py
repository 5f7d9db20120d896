"""Which upstreams keep a run from starting, and how, in words for people."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from dag.selectors import edges_of_run, outcomes_of, runs_of_spans
from dag.trigger_rules import NO_UPSTREAM_TICK, OUTCOMES, UPSTREAM_FAILED, Outcome
from jobs.models import Job
from runs.models import Run
from runs.states import RunStatus

SHOWN = 3
# What upstreams came to where a run stands for this reason, the gravest first.
BEHIND: Mapping[tuple[str, str], Sequence[Outcome]] = {
    (RunStatus.WAITING, "dependency"): (Outcome.PENDING,),
    (RunStatus.SKIPPED, UPSTREAM_FAILED): (Outcome.FAILED, Outcome.SKIPPED, Outcome.ABSENT),
    (RunStatus.SKIPPED, NO_UPSTREAM_TICK): (Outcome.ABSENT,),
}
OF_RUN: Mapping[str, str] = {
    RunStatus.DEAD: "died",
    RunStatus.CANCELLED: "was cancelled",
    RunStatus.SKIPPED: "was skipped",
    RunStatus.WAITING: "waits itself",
    RunStatus.QUEUED: "is queued",
    RunStatus.RUNNING: "is running",
    RunStatus.RETRYING: "is to be tried again",
}
OF_NO_RUN: Mapping[Outcome, str] = {
    Outcome.FAILED: "did not succeed",
    Outcome.SKIPPED: "had no run of the tick that is waited for",
    Outcome.ABSENT: "has no tick to wait for",
    Outcome.PENDING: "has not had its tick yet",
}


def obstacles_of(run: Run) -> list[str]:
    """Return a few of the upstreams that the run waits for, or was skipped for, and how many more.

    None where it stands so for another reason, or where they have changed since.
    """
    behind = BEHIND.get((run.status, run.reason), ())
    edges = edges_of_run(run) if behind else []
    if not edges:
        return []
    outcomes = outcomes_of(run, edges)
    gravest = [
        (edge, next((one for one in behind if outcomes[edge.depends_on_job_id][one]), None))
        for edge in edges
    ]
    found = [(edge, outcome) for edge, outcome in gravest if outcome is not None]
    found.sort(key=lambda one: (behind.index(one[1]), *_rank(one[0].depends_on_job)))
    shown = found[:SHOWN]
    runs = runs_of_spans([edge for edge, _ in shown]) if shown else {}
    told = [_told(edge.depends_on_job, outcome, runs) for edge, outcome in shown]
    return told if len(found) <= SHOWN else [*told, f"and {len(found) - SHOWN} more"]


def _rank(job: Job) -> tuple[bool, bool, str]:
    """Put first what people have to change: deleted jobs, then paused ones."""
    return job.deleted_at is None, job.enabled, job.name


def _told(job: Job, outcome: Outcome, runs: Mapping[uuid.UUID, Sequence[Run]]) -> str:
    run = _run_of(runs.get(job.job_id, ()), outcome)
    if job.deleted_at is not None and (run is None or run.reason == "job_deleted"):
        return f"the job it depends on, '{job.name}', was deleted"
    if run is not None:
        return f"'{job.name}' {OF_RUN[run.status]} (run {run.run_id})"
    if not job.enabled:
        return f"'{job.name}' is paused"
    return f"'{job.name}' {OF_NO_RUN[outcome]}"


def _run_of(runs: Iterable[Run], outcome: Outcome) -> Run | None:
    """Return the newest tick's run of that outcome; of several runs of a tick the newest counts."""
    newest: dict[datetime, Run] = {}
    for run in runs:
        newest.setdefault(run.logical_date, run)
    return next((run for run in newest.values() if OUTCOMES[run.status] == outcome), None)
