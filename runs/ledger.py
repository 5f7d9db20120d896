"""The tick ledger: every expected tick of a job with its fate, recomputed from its versions.

What is expected comes from job_versions, what happened from runs and misfires; runs/reconcile.py
compares. A dispatch or an edit is one transaction, so the ledger is whole in every snapshot of the
database: it needs no pause of the dispatchers and no margin.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from django.conf import settings

from chronoproject.sql import snapshot
from jobs.cron.parse import needs_hash
from jobs.definition import schedule_of_definition
from jobs.schedule import Schedule
from runs.floor import SQL
from runs.ids import day_of
from runs.reconcile import (
    INSTANT,
    Entry,
    FoundRange,
    FoundRun,
    History,
    Span,
    Version,
    expected_ticks,
    fault_of,
    reconcile,
)

NO_LIMIT = None
WALK_ENTRIES = 5000
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class LedgerJob:
    """A job, as far as the ledger looks at it."""

    job_id: uuid.UUID
    owner_id: int
    name: str
    next_run_at: datetime | None


@dataclass(frozen=True, slots=True)
class Ledger:
    """What one snapshot holds of some jobs over a span."""

    span: Span
    jobs: tuple[LedgerJob, ...]
    histories: Mapping[uuid.UUID, History]
    runs: Mapping[uuid.UUID, Sequence[FoundRun]]
    ranges: Mapping[uuid.UUID, Sequence[FoundRange]]

    def entries(self, job_id: uuid.UUID) -> Iterable[Entry]:
        """Yield the fate of each of a job's ticks, oldest first."""
        return reconcile(
            self.histories[job_id],
            self.span,
            self.runs.get(job_id, ()),
            self.ranges.get(job_id, ()),
        )


def oldest_hot(now: datetime) -> datetime:
    """Return the start of the oldest day whose runs are kept."""
    return day_of(now) - timedelta(days=settings.CHRONO_RETENTION_DAYS - 1)


def span_of(since: datetime, before: datetime) -> Span:
    """Return the span of the ticks with since <= tick < before."""
    return Span(since - INSTANT, before - INSTANT)


def read(job_ids: Sequence[uuid.UUID], span: Span) -> Ledger:
    """Read everything about some jobs over a span, at one instant."""
    with snapshot():
        jobs = jobs_of(job_ids)
        histories = read_histories(jobs, span)
        runs = _read_runs(job_ids, span, NO_LIMIT)
        ranges = _read_ranges(job_ids, span)
    return Ledger(span, tuple(jobs), histories, runs, ranges)


def page(job_id: uuid.UUID, span: Span, limit: int, past: Version | None = None) -> list[Entry]:
    """Return the first entries of a job's ledger in the span: `limit`, unless there are fewer.

    `past` is a version that stands for the time before the job was made.
    """
    with snapshot():
        history = read_histories(jobs_of([job_id]), span)[job_id]
        if past is not None:
            history = replace(history, versions=(past, *history.versions))
        window = _window(history, span, limit)
        # as many runs as entries are enough: each of them is one
        runs = _read_runs([job_id], window, limit).get(job_id, [])
        ranges = _read_ranges([job_id], window).get(job_id, [])
    return list(islice(reconcile(history, window, runs, ranges), limit))


def walk(job_id: uuid.UUID, span: Span, past: Version | None = None) -> Iterator[Entry]:
    """Yield all entries of a job's ledger in the span, read in pages."""
    while entries := page(job_id, span, WALK_ENTRIES, past):
        yield from entries
        span = Span(entries[-1].tick, span.until)


def _window(history: History, span: Span, limit: int) -> Span:
    """Return the part of the span that holds its first `limit` expected ticks."""
    last = next(islice(expected_ticks(history, span), limit - 1, None), None)
    return span if last is None else Span(span.after, last.tick)


def jobs_of(job_ids: Sequence[uuid.UUID]) -> list[LedgerJob]:
    """Return the rows of these jobs."""
    return [LedgerJob(*row) for row in SQL["ledger_jobs_of"].rows(job_id=list(job_ids))]


def read_histories(jobs: Sequence[LedgerJob], span: Span) -> dict[uuid.UUID, History]:
    """Return each job's versions over a span."""
    versions: dict[uuid.UUID, list[Version]] = {job.job_id: [] for job in jobs}
    rows = SQL["ledger_versions"].rows(job_id=list(versions), after=span.after, until=span.until)
    for job_id, *rest in rows:
        versions[job_id].append(_version(job_id, *rest))
    return {
        job.job_id: History(job.job_id, job.next_run_at, tuple(versions[job.job_id]))
        for job in jobs
    }


def _version(
    job_id: uuid.UUID,
    number: int,
    begins: datetime,
    ends: datetime | None,
    when: str | None,
    timezone: str,
    starts_at: str | None,
    ends_at: str | None,
    dst_policy: str,
    is_enabled: bool,
) -> Version:
    expression = None if when is None else json.loads(when)
    depends_on_id = isinstance(expression, str) and needs_hash(expression)
    hash_id = str(job_id) if depends_on_id else ""
    schedule, fault = _schedule(when, timezone, starts_at, ends_at, dst_policy, hash_id)
    return Version(number, begins, ends, schedule, is_enabled, fault)


@lru_cache(maxsize=65_536)
def _schedule(
    when: str | None,
    timezone: str,
    starts_at: str | None,
    ends_at: str | None,
    dst_policy: str,
    hash_id: str,
) -> tuple[Schedule, str]:
    """Return the schedule of a stored definition, and what is wrong with it; jobs share it."""
    definition = {
        "schedule": None if when is None else json.loads(when),
        "timezone": timezone,
        "startsAt": starts_at,
        "endsAt": ends_at,
        "dstPolicy": dst_policy,
    }
    schedule = schedule_of_definition(definition, hash_id=hash_id)
    return schedule, fault_of(schedule)


def _read_runs(
    job_ids: Sequence[uuid.UUID], span: Span, limit: int | None
) -> dict[uuid.UUID, list[FoundRun]]:
    rows = SQL["ledger_runs"].rows(
        job_id=list(job_ids), after=span.after, until=span.until, limit=limit
    )
    return {
        job_id: [FoundRun(tick, trigger) for _, tick, trigger in group]
        for job_id, group in _by_job(rows)
    }


def _read_ranges(job_ids: Sequence[uuid.UUID], span: Span) -> dict[uuid.UUID, list[FoundRange]]:
    rows = SQL["ledger_misfires"].rows(job_id=list(job_ids), after=span.after, until=span.until)
    return {job_id: [FoundRange(*row[1:]) for row in group] for job_id, group in _by_job(rows)}


def _by_job(rows: Iterable[Row]) -> Iterable[tuple[uuid.UUID, Iterable[Row]]]:
    return groupby(rows, key=itemgetter(0))
