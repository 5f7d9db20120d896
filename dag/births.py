"""What a newborn run waits for, frozen as rows of run_deps (PROTOCOL 21, 22)."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from dag import resolver
from dag.matching import INSTANT, Latest, Source, SourceEdge, day_span, has_ticks, latest_tick
from dag.statements import SQL
from jobs.schedule import Schedule
from runs.records import NewRun, RunRef
from runs.states import RunStatus

SCHEDULE_COLUMNS = ("timezone", "run_at", "every_sec", "anchor", "starts_at", "ends_at")

Date = tuple[uuid.UUID, datetime]  # a job, and a logical date of its runs or an instant asked for


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """An edge as it stands now; the names are the columns'."""

    job_id: uuid.UUID
    depends_on_job_id: uuid.UUID
    match: str
    day_offset: int
    timezone: str
    trigger_rule: str


@dataclass(frozen=True, slots=True)
class FrozenEdge:
    """A row of run_deps."""

    run_id: uuid.UUID
    scheduled_for: datetime
    job_id: uuid.UUID
    logical_date: datetime
    trigger_rule: str
    depends_on_job_id: uuid.UUID
    match: str
    span_from: datetime
    span_until: datetime
    expected: int | None


@dataclass(slots=True)
class Known:
    """What the edges of one batch are matched by."""

    together: Collection[Date]  # born in this batch
    sources: Mapping[uuid.UUID, Source] = field(default_factory=dict)
    entries: Mapping[Date, datetime | None] = field(default_factory=dict)


def born(inserted: Sequence[NewRun]) -> None:
    """Freeze the edges of the runs that wait for upstreams; look at them after the commit.

    Only then is seen what finished meanwhile: an upstream's finish cannot see these rows before
    (PROTOCOL 21). Where every upstream is born here too, none can have finished.
    """
    waiting = [
        run for run in inserted if (run.status, run.reason) == (RunStatus.WAITING, "dependency")
    ]
    if not waiting:
        return
    together = {(run.job_id, run.logical_date) for run in inserted}
    frozen = freeze(waiting, together)
    _insert(frozen)
    if refs := _worth_a_look(waiting, frozen, together):
        transaction.on_commit(partial(resolver.resolve, refs), robust=True)


def _worth_a_look(
    waiting: Sequence[NewRun], frozen: Sequence[FrozenEdge], together: Collection[Date]
) -> list[RunRef]:
    """Leave out the runs whose every upstream is born with them."""
    edges: dict[uuid.UUID, list[FrozenEdge]] = defaultdict(list)
    for edge in frozen:
        edges[edge.run_id].append(edge)
    return [
        run.ref
        for run in waiting
        if not edges[run.run_id]
        or any(
            edge.match == "day" or (edge.depends_on_job_id, edge.span_from) not in together
            for edge in edges[run.run_id]
        )
    ]


def freeze(waiting: Sequence[NewRun], together: Collection[Date]) -> list[FrozenEdge]:
    """Return what each run waits for."""
    edges: dict[uuid.UUID, list[EdgeRow]] = defaultdict(list)
    for row in SQL["edges_of_jobs"].rows(job_id=list({run.job_id for run in waiting})):
        edges[row[0]].append(EdgeRow(*row))
    pairs = [(run, edge) for run in waiting for edge in edges[run.job_id]]
    known = Known(together)
    apart = [(run, edge) for run, edge in pairs if not _is_together(run, edge, known)]
    known.sources = _read_sources({edge.depends_on_job_id for _, edge in apart})
    known.entries = _read_entries(apart, known.sources)
    frozen = (_freeze_edge(run, edge, known) for run, edge in pairs)
    return [edge for edge in frozen if edge is not None]


def _is_together(run: NewRun, edge: EdgeRow, known: Known) -> bool:
    """Say whether the upstream's run was born with this one, for it to wait for."""
    is_tick = edge.match == "tick" or run.scheduled_for.microsecond != 0
    return is_tick and (edge.depends_on_job_id, run.logical_date) in known.together


def _freeze_edge(run: NewRun, edge: EdgeRow, known: Known) -> FrozenEdge | None:
    """Return the edge as it binds the run; None where only people trigger the upstream."""
    upstream = edge.depends_on_job_id
    if _is_together(run, edge, known):
        return _frozen(run, edge, "tick", (run.logical_date, run.logical_date), expected=1)
    if not has_ticks(known.sources, upstream):
        return None
    if edge.match == "day":
        span = day_span(run.logical_date, edge.timezone, edge.day_offset)
        schedule = known.sources[upstream].schedule
        return _frozen(run, edge, "day", span, expected=_ticks_in(schedule, span))
    tick = _matched_tick(known, upstream, run.logical_date)
    span = (tick or run.logical_date,) * 2
    return _frozen(run, edge, "tick", span, expected=0 if tick is None else 1)


def _frozen(
    run: NewRun,
    edge: EdgeRow,
    match: str,
    span: tuple[datetime, datetime],
    *,
    expected: int | None,
) -> FrozenEdge:
    return FrozenEdge(
        run_id=run.run_id,
        scheduled_for=run.scheduled_for,
        job_id=run.job_id,
        logical_date=run.logical_date,
        trigger_rule=edge.trigger_rule,
        depends_on_job_id=edge.depends_on_job_id,
        match=match,
        span_from=span[0],
        span_until=span[1],
        expected=expected,
    )


def _ticks_in(schedule: Schedule | None, span: tuple[datetime, datetime]) -> int | None:
    """Return how many ticks the schedule now in force has in [from, until)."""
    if schedule is None:
        return None
    start, until = span
    return schedule.count(start - INSTANT, until - INSTANT)


def _matched_tick(known: Known, job_id: uuid.UUID, at: datetime) -> datetime | None:
    if (job_id, at) in known.entries:
        return known.entries[job_id, at]
    return latest_tick(known.sources, job_id, at).tick


def _read_sources(job_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Source]:
    if not job_ids:
        return {}
    rows = SQL["sources_of_jobs"].dicts(job_id=list(job_ids))
    return {row["job_id"]: _source(row) for row in rows}


def _source(row: Mapping[str, Any]) -> Source:
    has_schedule = any(row[name] is not None for name in ("schedule", "run_at", "every_sec"))
    schedule = Schedule(
        cron=row["schedule"],
        dst_policy=row["dst_policy"],
        hash_id=str(row["job_id"]),
        **{name: row[name] for name in SCHEDULE_COLUMNS},
    )
    return Source(
        job_id=row["job_id"],
        schedule=schedule if has_schedule else None,
        timezone=row["timezone"],
        next_run_at=row["next_run_at"],
        valid_from=row["valid_from"],
        edges=tuple(
            SourceEdge(uuid.UUID(job_id), match, offset) for job_id, match, offset in row["edges"]
        ),
    )


def _read_entries(
    pairs: Iterable[tuple[NewRun, EdgeRow]], sources: Mapping[uuid.UUID, Source]
) -> dict[Date, datetime | None]:
    """Ask the ledger where the schedules in force do not reach back to the tick."""
    asked = {
        (edge.depends_on_job_id, run.logical_date) for run, edge in pairs if edge.match == "tick"
    }
    unsure = [question for question in asked if not _latest(sources, question).is_certain]
    if not unsure:
        return {}
    job_ids, instants = zip(*unsure, strict=True)
    rows = SQL["latest_entries"].rows(job_id=list(job_ids), at=list(instants), last=max(instants))
    return {(job_id, at): tick for job_id, at, tick in rows}


def _latest(sources: Mapping[uuid.UUID, Source], question: Date) -> Latest:
    return latest_tick(sources, *question)


def _insert(edges: Sequence[FrozenEdge]) -> None:
    if edges:
        names = [column.name for column in fields(FrozenEdge)]
        columns = {name: [getattr(edge, name) for edge in edges] for name in names}
        SQL["insert_run_deps"].run(**columns)
