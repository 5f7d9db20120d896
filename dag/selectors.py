"""Reads of edges and of what runs wait for: a team's own, for the API and the admin."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F

from chronoproject.clock import db_now
from dag.models import Dep, EdgeMatch, RunDep
from dag.resolver import AT_ONCE, WORDS
from dag.statements import SQL
from dag.trigger_rules import Outcome
from jobs.models import Job
from runs.models import Run

MAX_NODES = 2000
MAX_LEVELS = 50  # how far a run's neighbours of other cadences are followed
RUNS_SHOWN = 100
ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Upstream:
    """An edge of a run: what it waits for, what that came to, and the newest runs of it."""

    edge: RunDep
    job: Job
    outcomes: Counter[Outcome]
    runs: Sequence[Run]


@dataclass(frozen=True, slots=True)
class Dag:
    """A job with all above and below it, and the run of each that belongs to a logical date."""

    logical_date: datetime | None
    jobs: Sequence[Job]
    edges: Sequence[Dep]
    runs: Mapping[uuid.UUID, Run]
    is_complete: bool


# --- what one run waits for -----------------------------------------------------------------


def edges_of_run(run: Run) -> list[RunDep]:
    """Return the edges that the run was born with, with their upstreams, by name."""
    edges = RunDep.objects.filter(run_id=run.run_id).select_related("depends_on_job")
    return sorted(edges, key=lambda edge: edge.depends_on_job.name)


def upstreams_of(run: Run) -> list[Upstream]:
    """Return what the run was born to wait for, edge by edge."""
    edges = edges_of_run(run)
    if not edges:
        return []
    found, runs = outcomes_of(run, edges), runs_of_spans(edges)
    return [
        Upstream(
            edge, edge.depends_on_job, found[edge.depends_on_job_id], runs[edge.depends_on_job_id]
        )
        for edge in edges
    ]


def outcomes_of(run: Run, edges: Sequence[RunDep]) -> Mapping[uuid.UUID, Counter[Outcome]]:
    """Return how many ticks of each upstream came to what; all the run's edges are given."""
    first, last = _bounds(edges)
    found: dict[uuid.UUID, Counter[Outcome]] = defaultdict(Counter)
    rows = SQL["read_outcomes"].rows(run_id=[run.run_id], member_id=[], first=first, last=last)
    for _, status, _, count, job_id in rows:
        found[job_id][WORDS[status]] += count
    return found


def _bounds(edges: Sequence[RunDep]) -> tuple[datetime, datetime]:
    first = min(edge.span_from for edge in edges)
    return first, max(db_now(), *(edge.span_until for edge in edges))


def runs_of_spans(edges: Sequence[RunDep]) -> Mapping[uuid.UUID, list[Run]]:
    """Return of each upstream the newest runs whose logical date the edge looks at."""
    first, last = _bounds(edges)
    spans = {edge.depends_on_job_id: edge for edge in edges}
    found: dict[uuid.UUID, list[Run]] = defaultdict(list)
    runs = Run.objects.filter(
        job__in=spans,
        scheduled_for__gte=first - ONE_DAY,
        scheduled_for__lte=last,
        logical_date__gte=first,
        logical_date__lte=max(edge.span_until for edge in edges),
    )
    for run in runs.defer("output", "payload").order_by("-logical_date", "-created_at"):
        edge = spans[run.job_id]
        if is_looked_at(edge, run.logical_date) and len(found[run.job_id]) < RUNS_SHOWN:
            found[run.job_id].append(run)
    return found


def is_looked_at(edge: RunDep, logical_date: datetime) -> bool:
    """Say whether the edge looks at that logical date of its upstream."""
    if edge.match == EdgeMatch.TICK:
        return logical_date == edge.span_from
    return edge.span_from <= logical_date < edge.span_until


def runs_below(run: Run) -> list[Run]:
    """Return the runs that waited for this one, directly or behind others."""
    rows = SQL["all_followers"].rows(
        job_id=[run.job_id], logical_date=[run.logical_date], limit=AT_ONCE
    )
    return _read(rows)


# --- a whole DAG ----------------------------------------------------------------------------


def dag_of(job: Job, logical_date: datetime | None) -> Dag:
    """Return the job with all above and below it; without a date, as of its newest run."""
    job_ids = [row[0] for row in SQL["jobs_around"].rows(job_id=job.job_id, limit=MAX_NODES + 1)]
    is_complete = len(job_ids) <= MAX_NODES
    job_ids = sorted({*job_ids[:MAX_NODES], job.job_id})
    edges = Dep.objects.filter(job__in=job_ids, depends_on_job__in=job_ids)
    date = logical_date or _newest_date(job)
    return Dag(
        logical_date=date,
        jobs=list(Job.objects.filter(job_id__in=job_ids).order_by("name")),
        edges=list(edges.order_by("dep_id")),
        runs={} if date is None else _runs_around(job.job_id, job_ids, date),
        is_complete=is_complete,
    )


def _newest_date(job: Job) -> datetime | None:
    newest = Run.objects.filter(job=job).order_by("-scheduled_for")
    return newest.values_list("logical_date", flat=True).first()


def _runs_around(
    job_id: uuid.UUID, job_ids: Collection[uuid.UUID], date: datetime
) -> dict[uuid.UUID, Run]:
    """Return each job's run of the date; where cadences differ, the one that edges lead to."""
    found = _newest_by_job(_runs_at(job_ids, date))
    frontier = [found[job_id]] if job_id in found else []
    for _ in range(MAX_LEVELS):
        missing = set(job_ids) - set(found)
        if not frontier or not missing:
            break
        fresh = _newest_by_job([*_leaders(frontier, missing), *_followers(frontier, missing)])
        found |= fresh
        frontier = list(fresh.values())
    return found


def _runs_at(job_ids: Iterable[uuid.UUID], date: datetime) -> list[Run]:
    runs = Run.objects.filter(job__in=job_ids).defer("output", "payload")
    ticks = runs.filter(scheduled_for=date, logical_date=date)
    named = runs.filter(scheduled_for__gte=date - ONE_DAY, logical_date=date)
    return [*ticks, *named.exclude(scheduled_for=F("logical_date"))]


def _leaders(runs: Sequence[Run], missing: Collection[uuid.UUID]) -> list[Run]:
    """Return the newest runs of what these waited for."""
    edges = RunDep.objects.filter(
        run_id__in=[run.run_id for run in runs], depends_on_job__in=missing
    )
    spans = [(edge.depends_on_job_id, edge.span_from, edge.span_until) for edge in edges]
    if not spans:
        return []
    job_ids, starts, ends = zip(*spans, strict=True)
    return _read(
        SQL["newest_of_spans"].rows(
            job_id=list(job_ids),
            span_from=list(starts),
            span_until=list(ends),
            first=min(starts),
            last=max(ends),
        )
    )


def _followers(runs: Sequence[Run], missing: Collection[uuid.UUID]) -> list[Run]:
    """Return the runs that waited for these."""
    rows = SQL["direct_followers"].rows(
        job_id=[run.job_id for run in runs],
        logical_date=[run.logical_date for run in runs],
        limit=MAX_NODES,
    )
    return [run for run in _read(rows) if run.job_id in missing]


def _read(keys: Sequence[tuple[Any, ...]]) -> list[Run]:
    """Return the runs of these (run_id, scheduled_for)."""
    instants = [scheduled_for for _, scheduled_for in keys]
    if not instants:
        return []
    runs = Run.objects.filter(
        run_id__in=[run_id for run_id, _ in keys],
        scheduled_for__gte=min(instants),
        scheduled_for__lte=max(instants),
    )
    return list(runs.defer("output", "payload"))


def _newest_by_job(runs: Iterable[Run]) -> dict[uuid.UUID, Run]:
    found: dict[uuid.UUID, Run] = {}
    for run in sorted(runs, key=lambda run: (run.logical_date, run.created_at)):
        found[run.job_id] = run
    return found
