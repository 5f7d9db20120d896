"""What an edit of a schedule changes: ticks that are added, removed or moved. Pure."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import groupby

from jobs.cron import zone_info
from jobs.schedule import Schedule

MAX_VISITED = 200_000  # ticks of both schedules together; a second-ly job reaches it in a day
MAX_LISTED = 100


@dataclass(frozen=True, slots=True)
class _Seen:
    tick: datetime
    is_new: bool


@dataclass(slots=True)
class TickChanges:
    """The first of each kind, and how many there are from `after` to `until`."""

    after: datetime
    until: datetime
    is_complete: bool = True
    added: list[datetime] = field(default_factory=list)
    removed: list[datetime] = field(default_factory=list)
    moved: list[tuple[datetime, datetime]] = field(default_factory=list)
    added_count: int = 0
    removed_count: int = 0
    moved_count: int = 0
    kept_count: int = 0

    def take(self, gone: list[datetime], come: list[datetime]) -> None:
        """Add what changes on one date: as many gone as come are the same ticks, moved."""
        if len(gone) == len(come):
            self.moved_count += len(gone)
            self.moved += zip(gone, come, strict=True)
        else:
            self.removed_count += len(gone)
            self.added_count += len(come)
            self.removed += gone
            self.added += come
        for listed in (self.added, self.removed, self.moved):
            del listed[MAX_LISTED:]


def compare(
    old: Schedule | None, new: Schedule | None, after: datetime, until: datetime
) -> TickChanges:
    """Compare the ticks in (after, until]; None has none. Dates are those of the new one's zone.

    Schedules with very many ticks are compared as far as MAX_VISITED of them reach.
    """
    changes = TickChanges(after, until)
    zone = zone_info((new or old or Schedule()).timezone)

    def local_date(seen: _Seen) -> date:
        return seen.tick.astimezone(zone).date()

    for _, of_day in groupby(_bounded(_merged(old, new, after, until), changes), local_date):
        gone: list[datetime] = []
        come: list[datetime] = []
        for seen in of_day:
            if seen.is_new and gone and gone[-1] == seen.tick:
                gone.pop()
                changes.kept_count += 1
            else:
                (come if seen.is_new else gone).append(seen.tick)
        changes.take(gone, come)
    return changes


def _merged(
    old: Schedule | None, new: Schedule | None, after: datetime, until: datetime
) -> Iterator[_Seen]:
    """Yield the ticks of both by time; of two at one instant the old one first."""
    before = (_Seen(tick, is_new=False) for tick in (old.ticks(after, until) if old else ()))
    later = (_Seen(tick, is_new=True) for tick in (new.ticks(after, until) if new else ()))
    return heapq.merge(before, later, key=lambda seen: seen.tick)


def _bounded(merged: Iterator[_Seen], changes: TickChanges) -> Iterator[_Seen]:
    """Yield at most MAX_VISITED ticks, ending between two instants, and note how far they reach."""
    last = changes.after
    for place, seen in enumerate(merged):
        if place >= MAX_VISITED and seen.tick != last:
            changes.is_complete, changes.until = False, last
            return
        last = seen.tick
        yield seen
