"""Sweeps of dag: waiting runs that no signal decided on, endless waits, and what has served."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings

from chronoproject import sql
from chronoproject.clock import db_now
from dag import resolver
from dag.statements import SQL
from runs import floor, lifecycle
from runs.ids import day_of
from runs.records import RunRef
from runs.sweeps import DISPATCHER, MAINTENANCE, Sweep, register

PAGE = 1000
FORGET_PAGES = 50
NOBODY = uuid.UUID(int=0)


class Walk:
    """Goes through rows by (scheduled_for, run_id), some pages a call, again and again."""

    def __init__(self, statement: str, pages: int) -> None:
        """Start at the beginning."""
        self._statement = statement
        self._pages = pages
        self._after: tuple[datetime, uuid.UUID] | None = None

    def pages(self, floor_: datetime) -> Iterator[list[dict[str, Any]]]:
        """Yield the next pages; after the last one there is, begin anew with the next call."""
        for _ in range(self._pages):
            scheduled_for, run_id = self._after or (floor_, NOBODY)
            rows = SQL[self._statement].dicts(
                floor=floor_, after_scheduled_for=scheduled_for, after_run_id=run_id, limit=PAGE
            )
            self._after = None
            if len(rows) == PAGE:
                self._after = (rows[-1]["scheduled_for"], rows[-1]["run_id"])
            yield rows
            if self._after is None:
                return


def resolve_waiting(walk: Walk) -> int:
    """Look at waiting runs without a lock; resolve those that can be decided."""
    moved = 0
    for rows in walk.pages(floor.read()):
        decided = resolver.decide_on([resolver.Member(**row) for row in rows], rung=())
        moved += resolver.resolve([one.member.ref for one in decided if one.changes])
    return moved


def revive_skipped(walk: Walk) -> int:
    """Resolve what upstreams had skipped where one of them has succeeded since."""
    oldest_hot = day_of(db_now()) - timedelta(days=settings.CHRONO_RETENTION_DAYS)
    return sum(
        resolver.resolve(
            [RunRef(row["run_id"], row["scheduled_for"]) for row in rows if row["has_news"]]
        )
        for rows in walk.pages(oldest_hot)
    )


def end_long_waits() -> int:
    """Skip runs that waited for their upstreams longer than dependencyTimeoutSec."""
    rows = SQL["timed_out"].rows(floor=floor.read(), limit=PAGE)
    return _end([RunRef(*row) for row in rows]) if rows else 0


@sql.retrying()
def _end(refs: Sequence[RunRef]) -> int:
    """Skip those that are not released at this last look."""
    resolver.resolve(refs)
    still = [one.ref for one in resolver.lock(refs) if not one.was_skipped]
    return len(lifecycle.skip(still, ["dependency_timeout"] * len(still)))


def forget_old_waits() -> int:
    """Delete what runs waited for once their day is past retention."""
    before = day_of(db_now()) - timedelta(days=settings.CHRONO_RETENTION_DAYS)
    total = 0
    for _ in range(FORGET_PAGES):
        deleted = SQL["forget_run_deps"].run(before=before, limit=PAGE)
        total += deleted
        if deleted < PAGE:
            break
    return total


waiting = Walk("page_waiting", pages=10)
revivable = Walk("page_revivable", pages=10)
register(DISPATCHER, Sweep("dag", 5, partial(resolve_waiting, waiting)))
register(MAINTENANCE, Sweep("dag_revive", 30, partial(revive_skipped, revivable)))
register(MAINTENANCE, Sweep("dependency_timeouts", 5, end_long_waits))
register(MAINTENANCE, Sweep("run_deps", 600, forget_old_waits))
