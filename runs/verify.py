"""The ledger's proof over many jobs: what is missing, duplicate or unexplained.

Most jobs have one schedule over a day and no misfire. Of those the server returns a digest of
their runs' ticks, which is compared with that of the ticks the schedule has; jobs that share a
schedule share the evaluation. Only what differs is looked at tick by tick.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from functools import lru_cache

from chronoproject.clock import db_now
from chronoproject.sql import snapshot
from jobs.schedule import Schedule
from runs import ledger
from runs.floor import SQL
from runs.ids import EPOCH, day_of
from runs.ledger import LedgerJob
from runs.reconcile import INSTANT, WRONG, Entry, Fate, History, Span

PAGE_JOBS = 1000
BATCH_TICKS = 100_000  # what one statement reads at most, unless a single job has more
FIRST_ID = uuid.UUID(int=0)
ONE_DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Problem:
    """A tick that the promise does not hold for."""

    job: LedgerJob
    entry: Entry


@dataclass(slots=True)
class Tally:
    """What was counted; `due` ticks are still owed and neither expected nor found."""

    jobs: int = 0
    expected: int = 0
    found: int = 0
    due: int = 0
    missing: int = 0
    duplicate: int = 0
    unexplained: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether the ledger is whole."""
        return not (self.missing or self.duplicate or self.unexplained)

    @property
    def percentage(self) -> float:
        """Return which part of the expected ticks is accounted for."""
        return 100.0 * self.found / self.expected if self.expected else 100.0

    def add(self, other: "Tally") -> None:
        """Add what another one counted."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def count(self, entry: Entry) -> None:
        """Count one tick."""
        if entry.fate == Fate.DUE:
            self.due += 1
        elif entry.fate == Fate.UNEXPLAINED:
            self.unexplained += 1
        elif entry.version is not None:
            self.expected += 1
            self.found += entry.fate != Fate.MISSING
            self.missing += entry.fate == Fate.MISSING
            self.duplicate += entry.fate == Fate.DUPLICATE


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look at: all jobs, a team's, or one."""

    owner_id: int | None = None
    job_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page of jobs, verified; `last` is where the next one starts, None after the last one."""

    tally: Tally
    problems: list[Problem] = field(default_factory=list)
    last: uuid.UUID | None = None


def verify(
    since: datetime,
    before: datetime,
    wanted: Wanted,
    report: Callable[[Problem], None],
    *,
    now: datetime | None = None,
) -> Tally:
    """Verify the ticks with since <= tick < before, but none later than now."""
    total = Tally()
    for span in days_of(since, min(before, now or db_now())):
        day, above = Tally(), FIRST_ID
        while True:
            page = verify_page(span, wanted, above)
            for problem in page.problems:
                report(problem)
            day.add(page.tally)
            if page.last is None:
                break
            above = page.last
        jobs = max(total.jobs, day.jobs)
        total.add(day)
        total.jobs = jobs
    return total


def days_of(since: datetime, before: datetime) -> Iterator[Span]:
    """Cut a span at midnights, so that each part lies in one partition."""
    while since < before:
        end = min(before, day_of(since) + ONE_DAY)
        yield ledger.span_of(since, end)
        since = end


def verify_page(span: Span, wanted: Wanted, above: uuid.UUID) -> Page:
    """Verify the next jobs by id over a span of a day at most."""
    rows = SQL["ledger_jobs"].rows(
        above=above,
        owner=wanted.owner_id,
        job_id=wanted.job_id,
        after=span.after,
        limit=PAGE_JOBS,
    )
    jobs = [LedgerJob(*row) for row in rows]
    page = Page(Tally(jobs=len(jobs)), [], jobs[-1].job_id if len(jobs) == PAGE_JOBS else None)
    histories = ledger.read_histories(jobs, span)
    sizes = [(job.job_id, _size(histories[job.job_id], span)) for job in jobs]
    for batch in batches(sizes):
        suspects = _compare_digests(batch, span, page.tally)
        for few in batches(suspects):
            _compare_ticks(few, span, page)
    return page


def batches(sizes: Iterable[tuple[uuid.UUID, int]]) -> Iterator[list[uuid.UUID]]:
    """Group jobs so that a group has at most BATCH_TICKS ticks, or is a single job."""
    group: list[uuid.UUID] = []
    total = 0
    for job_id, size in sizes:
        if group and total + size > BATCH_TICKS:
            yield group
            group, total = [], 0
        group.append(job_id)
        total += size
    if group:
        yield group


def _size(history: History, span: Span) -> int:
    parts = ((version, version.within(span)) for version in history.versions)
    return sum(
        version.schedule.count(part.after, part.until)
        for version, part in parts
        if part is not None and version.is_enabled
    )


def _compare_digests(
    job_ids: Sequence[uuid.UUID], span: Span, tally: Tally
) -> list[tuple[uuid.UUID, int]]:
    """Count the jobs whose runs are just their schedule's ticks; return the others, with sizes."""
    bounds = {"job_id": list(job_ids), "after": span.after, "until": span.until}
    with snapshot():
        jobs = ledger.jobs_of(job_ids)
        histories = ledger.read_histories(jobs, span)
        digests = {row[0]: row[1:] for row in SQL["ledger_digests"].rows(**bounds)}
        misfires = dict(SQL["ledger_misfire_counts"].rows(**bounds))
    suspects = []
    for job_id, history in histories.items():
        runs, others, digest = digests.get(job_id, (0, 0, NO_TICKS[1]))
        plain = None if others or job_id in misfires else plain_ticks(history, span)
        if plain == (runs, digest):
            tally.expected += runs
            tally.found += runs
            tally.due += _due(history, span)
        else:
            suspects.append((job_id, runs + misfires.get(job_id, 0)))
    return suspects


def plain_ticks(history: History, span: Span) -> tuple[int, str] | None:
    """Return count and digest of the runs a job must have; None where that takes a closer look."""
    found = NO_TICKS
    for version in history.versions:
        part = version.within(span)
        if version.fault:
            return None
        if part is None:
            continue
        until = part.until
        if version.ends is None and history.next_run_at is not None:
            until = min(until, history.next_run_at - INSTANT)
        ticks = digest_of(version.schedule, part.after, until)
        if ticks is None or (ticks != NO_TICKS and (found != NO_TICKS or not version.is_enabled)):
            return None
        found = found if ticks == NO_TICKS else ticks
    return found


def _due(history: History, span: Span) -> int:
    """Count the ticks that the dispatcher has still to come to."""
    if history.next_run_at is None:
        return 0
    owed_after = max(span.after, history.next_run_at - INSTANT)
    return sum(
        version.schedule.count(owed_after, span.until)
        for version in history.versions
        if version.ends is None and version.is_enabled
    )


@lru_cache(maxsize=65_536)
def digest_of(schedule: Schedule, after: datetime, until: datetime) -> tuple[int, str] | None:
    """Return count and digest of a schedule's ticks; None if it leaves gaps out."""
    if next(schedule.gap_ticks(after, until), None) is not None:
        return None
    seconds = [str((tick - EPOCH) // SECOND) for tick in schedule.ticks(after, until)]
    return len(seconds), _digest(seconds)


def _digest(seconds: Sequence[str]) -> str:
    return hashlib.sha256(",".join(seconds).encode()).hexdigest()


NO_TICKS = (0, _digest([]))


def _compare_ticks(job_ids: Sequence[uuid.UUID], span: Span, page: Page) -> None:
    """Look at jobs tick by tick."""
    found = ledger.read(job_ids, span)
    for job in found.jobs:
        for fault in faults(found.histories[job.job_id], span):
            page.tally.count(fault)
            page.problems.append(Problem(job, fault))
        for entry in found.entries(job.job_id):
            page.tally.count(entry)
            if entry.fate in WRONG:
                page.problems.append(Problem(job, entry))


def faults(history: History, span: Span) -> Iterator[Entry]:
    """Yield an entry for each version whose schedule can no longer be evaluated."""
    for version in history.versions:
        if version.fault:
            tick = max(span.after + INSTANT, version.begins)
            yield Entry(tick, Fate.UNEXPLAINED, version.number, detail=version.fault)
