"""Pure: which of an upstream's ticks a run looks at (PROTOCOL 22 to 24)."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from dag.graph import reachable, topological_order
from jobs.cron import instant_of, zone_info
from jobs.schedule import Schedule

INSTANT = timedelta(microseconds=1)
# How far back the latest tick of a schedule is looked for: most are near, the last is for ever.
REACHES = (timedelta(days=1), timedelta(days=32), timedelta(days=400), timedelta(days=9 * 366))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# --- local dates ----------------------------------------------------------------------------


def date_start(day: date, timezone: str) -> datetime:
    """Return the instant at which the date begins: the first midnight, or the end of a gap."""
    return instant_of(datetime.combine(day, time()), timezone)


def date_of(instant: datetime, timezone: str) -> date:
    """Return the date whose [start, next start) holds the instant.

    It is the wall clock's, but where a clock set back across midnight shows the old date again.
    """
    day = instant.astimezone(zone_info(timezone)).date()
    while instant < date_start(day, timezone):
        day -= timedelta(days=1)
    while instant >= date_start(day + timedelta(days=1), timezone):
        day += timedelta(days=1)
    return day


def day_span(instant: datetime, timezone: str, offset: int = 0) -> tuple[datetime, datetime]:
    """Return [from, until) of the local date of `instant`, shifted by whole dates."""
    day = date_of(instant, timezone) + timedelta(days=offset)
    return date_start(day, timezone), date_start(day + timedelta(days=1), timezone)


def driven_date(tick: datetime, timezone: str, offset: int) -> datetime:
    """Return the start of the date whose row looks, shifted by `offset`, at the tick's date."""
    return date_start(date_of(tick, timezone) - timedelta(days=offset), timezone)


# --- ticks of jobs, the dependency-driven ones too --------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceEdge:
    """An upstream of a dependency-driven job, whose ticks make its own."""

    job_id: uuid.UUID
    match: str
    day_offset: int


@dataclass(frozen=True, slots=True)
class Source:
    """What a job's ticks follow from: its schedule, or else its upstreams."""

    job_id: uuid.UUID
    schedule: Schedule | None
    timezone: str
    next_run_at: datetime | None
    valid_from: datetime
    edges: tuple[SourceEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest tick at or before an instant, by the schedules now in force.

    Where they do not reach back that far it is not certain: the ledger knows.
    """

    tick: datetime | None
    is_certain: bool


Sources = Mapping[uuid.UUID, Source]
Question = tuple[uuid.UUID, datetime]


def has_ticks(sources: Sources, job_id: uuid.UUID) -> bool:
    """Say whether any schedule drives the job; otherwise only people trigger it."""

    def above(job: uuid.UUID) -> Iterable[uuid.UUID]:
        return [edge.job_id for edge in sources[job].edges] if job in sources else ()

    found = reachable([job_id], above)
    return any(job in sources and sources[job].schedule is not None for job in found)


def latest_tick(sources: Sources, job_id: uuid.UUID, at: datetime) -> Latest:
    """Return the job's latest tick <= `at`; for a dependency-driven job its upstreams' rule."""
    answers: dict[Question, Latest] = {}
    for question in _in_order(sources, (job_id, at)):
        source = sources.get(question[0])
        if source is None:
            answers[question] = Latest(None, is_certain=False)
        elif source.schedule is not None:
            answers[question] = _latest_scheduled(source, source.schedule, question[1])
        else:
            answers[question] = _latest_driven(source, question[1], answers)
    return answers[job_id, at]


def _in_order(sources: Sources, first: Question) -> list[Question]:
    """Return the questions that the first one leads to, each after those it leans on."""

    def leans_on(question: Question) -> list[Question]:
        source = sources.get(question[0])
        if source is None or source.schedule is not None:
            return []
        return [_asked(source, edge, question[1]) for edge in source.edges]

    return topological_order({found: leans_on(found) for found in reachable([first], leans_on)})


def _asked(source: Source, edge: SourceEdge, at: datetime) -> Question:
    """Return what to ask of an upstream: for a day edge, the end of the last date looked at."""
    if edge.match == "tick":
        return edge.job_id, at
    return edge.job_id, day_span(at, source.timezone, edge.day_offset)[1] - INSTANT


def _latest_scheduled(source: Source, schedule: Schedule, at: datetime) -> Latest:
    tick = _newest(schedule, at)
    is_undecided = source.next_run_at is not None and source.next_run_at <= at
    return Latest(tick, is_undecided or (tick is not None and tick > source.valid_from))


def _newest(schedule: Schedule, at: datetime) -> datetime | None:
    for start in (*(at - reach for reach in REACHES), EPOCH):
        if found := schedule.newest(start, at, 1):
            return found[0]
    return None


def _latest_driven(source: Source, at: datetime, answers: Mapping[Question, Latest]) -> Latest:
    """Return the latest of the union of what the upstreams drive."""
    found = [
        (edge, answer.tick, answer.is_certain)
        for edge in source.edges
        for answer in [answers[_asked(source, edge, at)]]
    ]
    ticks = [
        tick if edge.match == "tick" else driven_date(tick, source.timezone, edge.day_offset)
        for edge, tick, _ in found
        if tick is not None
    ]
    latest = max(ticks, default=None)
    is_certain = all(certain for _, _, certain in found)
    return Latest(latest, is_certain and latest is not None and latest > source.valid_from)
