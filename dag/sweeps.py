"""Sweeps of dag: waiting runs that no signal decided on, endless waits, and what has served."""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

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
PAGES = 10  # a sweep looks at this many pages, and the next one goes on from there
FORGET_PAGES = 50
NOBODY = uuid.UUID(int=0)


class Walk:
    """Goes through the waiting runs, oldest first, again and again."""

    def __init__(self) -> None:
        """Start at the beginning."""
        self._after: tuple[datetime, uuid.UUID] | None = None

    def run_once(self) -> int:
        """Look at the next pages without a lock; resolve those that can be decided."""
        start = floor.read()
        moved = 0
        for _ in range(PAGES):
            scheduled_for, run_id = self._after or (start, NOBODY)
            rows = SQL["page_waiting"].rows(
                floor=start, after_scheduled_for=scheduled_for, after_run_id=run_id, limit=PAGE
            )
            members = [resolver.Member(*row) for row in rows]
            moved += resolver.resolve(
                sorted(one.member.ref for one in resolver.decide_on(members) if one.changes)
            )
            if len(members) < PAGE:
                self._after = None
                break
            self._after = (members[-1].scheduled_for, members[-1].run_id)
        return moved


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


walk = Walk()
register(DISPATCHER, Sweep("dag", 3, walk.run_once))
register(MAINTENANCE, Sweep("dependency_timeouts", 5, end_long_waits))
register(MAINTENANCE, Sweep("run_deps", 600, forget_old_waits))
