"""What became of each tick: the definitions in force, against runs and misfires. Pure.

A version's ticks are those in (begins, ends]: an edit settles the old version's ticks up to and
with the edit's instant, the new one starts with the first tick after it (PROTOCOL 2).
"""

import heapq
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import models

from jobs.cron import InvalidSchedule
from jobs.schedule import Schedule
from runs.ids import EPOCH, run_id_of
from runs.states import MisfireRule, Trigger

INSTANT = timedelta(microseconds=1)


class Fate(models.TextChoices):
    """What became of a tick. The last three are wrong: there should be none."""

    RUN = "run"
    COALESCED = "coalesced"
    SKIPPED = "skipped"
    CAPPED = "capped"
    PAUSED = "paused"
    EXCLUDED = "excluded"
    DST_GAP = "dst_gap"
    DUE = "due"
    MISSING = "missing"
    DUPLICATE = "duplicate"
    UNEXPLAINED = "unexplained"


WRONG = (Fate.MISSING, Fate.DUPLICATE, Fate.UNEXPLAINED)


@dataclass(frozen=True, slots=True)
class Span:
    """The ticks with after < tick <= until."""

    after: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Version:
    """A definition and when it was in force; ends None: still; fault: it cannot be evaluated."""

    number: int
    begins: datetime
    ends: datetime | None
    schedule: Schedule
    is_enabled: bool
    fault: str = ""

    def within(self, span: Span) -> Span | None:
        """Return the part of the span that is this version's; None for none."""
        after = max(span.after, self.begins)
        until = span.until if self.ends is None else min(span.until, self.ends)
        return Span(after, until) if after < until and not self.fault else None


@dataclass(frozen=True, slots=True)
class History:
    """A job's versions over a span, oldest first, and what is still owed: from next_run_at on."""

    job_id: uuid.UUID
    next_run_at: datetime | None
    versions: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run at a tick; manual ones are at none and do not belong here."""

    tick: datetime
    trigger: str


@dataclass(frozen=True, slots=True)
class FoundRange:
    """A misfires row: ticks of a version that have no run of their own, and the rule."""

    first: datetime
    last: datetime
    count: int
    rule: str
    into: datetime | None
    version: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the ledger. `version` is None where no version expected the tick."""

    tick: datetime
    fate: Fate
    version: int | None
    run_id: uuid.UUID | None = None
    detail: str = ""
    is_gap: bool = False


@dataclass(frozen=True, slots=True)
class Expected:
    """A tick of a version; a gap is one that dstPolicy skip leaves out."""

    tick: datetime
    version: Version
    is_gap: bool = False


def expected_ticks(history: History, span: Span) -> Iterator[Expected]:
    """Yield every tick that the versions in force had in the span, oldest first."""
    for version in history.versions:
        part = version.within(span)
        if part is None:
            continue
        ticks = (Expected(tick, version) for tick in version.schedule.ticks(part.after, part.until))
        if version.schedule.dst_policy != "skip":
            yield from ticks
            continue
        gaps = version.schedule.gap_ticks(part.after, part.until)
        left_out = (Expected(gap, version, is_gap=True) for gap in gaps)
        yield from heapq.merge(ticks, left_out, key=lambda one: one.tick)


def fault_of(schedule: Schedule) -> str:
    """Return why a stored schedule cannot be evaluated (a zone that tzdata dropped), else ""."""
    try:
        next(schedule.gap_ticks(EPOCH, EPOCH), None)
    except InvalidSchedule as error:
        return str(error)
    return ""


def reconcile(
    history: History, span: Span, runs: Sequence[FoundRun], ranges: Sequence[FoundRange]
) -> Iterator[Entry]:
    """Yield the fate of every tick in the span, oldest first, and what no version explains."""
    wrong_ranges = (
        Entry(found.first, Fate.UNEXPLAINED, None, detail=problem)
        for found in sorted(ranges, key=lambda one: one.first)
        if span.after < found.first <= span.until and (problem := range_problem(history, found))
    )
    return heapq.merge(
        _fates(history, span, runs, ranges), wrong_ranges, key=lambda entry: entry.tick
    )


def _fates(
    history: History, span: Span, runs: Sequence[FoundRun], ranges: Sequence[FoundRange]
) -> Iterator[Entry]:
    place, cover = 0, _Cover(ranges)
    for expected in expected_ticks(history, span):
        while place < len(runs) and runs[place].tick < expected.tick:
            yield _beyond_versions(history, runs[place])
            place += 1
        run = None
        if place < len(runs) and runs[place].tick == expected.tick:
            run = runs[place]
            place += 1
        yield _fate(history, expected, run, cover.of(expected))
    for run in runs[place:]:
        yield _beyond_versions(history, run)


def _fate(
    history: History, expected: Expected, run: FoundRun | None, covers: Sequence[FoundRange]
) -> Entry:
    tick, number = expected.tick, expected.version.number
    own_id = run_id_of(history.job_id, tick)
    if run is not None:
        is_own = run.trigger == Trigger.SCHEDULE  # a backfilled one fills what a rule left out
        if covers and is_own:
            why = f"it has a run and is recorded as {covers[0].rule}"
            return Entry(tick, Fate.DUPLICATE, number, own_id, why)
        if expected.is_gap and is_own:
            return Entry(tick, Fate.UNEXPLAINED, number, own_id, "it has a run in a DST gap")
        return Entry(tick, Fate.RUN, number, own_id)
    if len(covers) > 1:
        rules = " and ".join(found.rule for found in covers)
        return Entry(tick, Fate.DUPLICATE, number, None, f"it is recorded as {rules}")
    if covers:
        into = covers[0].into
        stand_in = None if into is None else run_id_of(history.job_id, into)
        return Entry(tick, Fate(covers[0].rule), number, stand_in)
    return Entry(tick, _owed(history, expected), number, is_gap=expected.is_gap)


def _owed(history: History, expected: Expected) -> Fate:
    """Return the fate of a tick of which nothing is recorded."""
    if expected.version.ends is None:
        if not expected.version.is_enabled:  # it is recorded when the pause ends
            return Fate.DST_GAP if expected.is_gap else Fate.PAUSED
        if history.next_run_at is not None and expected.tick >= history.next_run_at:
            return Fate.DST_GAP if expected.is_gap else Fate.DUE
    return Fate.MISSING


def _beyond_versions(history: History, run: FoundRun) -> Entry:
    """Return the entry of a run that is at no tick of a version."""
    run_id = run_id_of(history.job_id, run.tick)
    blind = any(
        version.fault and version.begins < run.tick <= (version.ends or run.tick)
        for version in history.versions
    )
    if run.trigger != Trigger.SCHEDULE or blind:
        return Entry(run.tick, Fate.RUN, None, run_id)
    return Entry(
        run.tick, Fate.UNEXPLAINED, None, run_id, "a run at no tick of the version in force"
    )


class _Cover:
    """Which ranges hold a tick, asked for ascending ticks."""

    def __init__(self, ranges: Iterable[FoundRange]) -> None:
        self._coming = sorted(ranges, key=lambda one: one.first, reverse=True)
        self._open: list[FoundRange] = []

    def of(self, expected: Expected) -> list[FoundRange]:
        """Return the ranges of the tick's own version, and kind, that hold it."""
        while self._coming and self._coming[-1].first <= expected.tick:
            self._open.append(self._coming.pop())
        if self._open:
            self._open = [found for found in self._open if found.last >= expected.tick]
        return [
            found
            for found in self._open
            if found.version == expected.version.number
            and (found.rule == MisfireRule.DST_GAP) == expected.is_gap
        ]


def range_problem(history: History, found: FoundRange) -> str:
    """Return what is wrong with a range that its version does not explain, else ""."""
    what = f"{found.count} {found.rule} to {found.last:%Y-%m-%dT%H:%M:%SZ}"
    version = next((one for one in history.versions if one.number == found.version), None)
    if version is None:
        return f"{what}: version {found.version} was not in force then"
    if version.fault:
        return ""
    if found.first <= version.begins or (version.ends and found.last > version.ends):
        return f"{what}: beyond the time of version {found.version}"
    before = found.first - INSTANT
    if found.rule == MisfireRule.DST_GAP:
        count = sum(1 for _ in version.schedule.gap_ticks(before, found.last))
    else:
        count = version.schedule.count(before, found.last)
    if count != found.count:
        return f"{what}: version {found.version} has {count} ticks there"
    if found.into is not None and version.schedule.next_after(found.into - INSTANT) != found.into:
        return f"{what}: coalesced into what is no tick"
    return ""
