"""Sweeps: bounded chores that reach the state which a signal or a message would have reached.

A sweep is registered for the dispatcher or for the maintenance process and returns how many rows
it moved.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import DatabaseError

logger = logging.getLogger(__name__)

DISPATCHER, MAINTENANCE = "dispatcher", "maintenance"


@dataclass(frozen=True, slots=True)
class Sweep:
    """A chore, run at most each `every_sec` seconds."""

    name: str
    every_sec: float
    run: Callable[[], int]


@dataclass(slots=True)
class Registry:
    """The sweeps of each kind of process."""

    sweeps: dict[str, list[Sweep]] = field(
        default_factory=lambda: {DISPATCHER: [], MAINTENANCE: []}
    )

    def register(self, process: str, sweep: Sweep) -> None:
        """Add a sweep; one of the same name is replaced, so that a second import adds none."""
        others = [other for other in self.sweeps[process] if other.name != sweep.name]
        self.sweeps[process] = [*others, sweep]


registry = Registry()
register = registry.register


@dataclass(slots=True)
class Sweeper:
    """Runs the sweeps of one process when they are due, by its own monotonic clock."""

    process: str
    next_at: dict[str, float] = field(default_factory=dict)

    def run_once(self) -> dict[str, int]:
        """Run what is due; return the rows moved by name. A failing sweep stops no other."""
        moved: dict[str, int] = {}
        for sweep in registry.sweeps[self.process]:
            if time.monotonic() < self.next_at.get(sweep.name, 0.0):
                continue
            self.next_at[sweep.name] = time.monotonic() + sweep.every_sec
            try:
                moved[sweep.name] = sweep.run()
            except DatabaseError:
                raise_if_unusable()  # whoever waits for the database tells it in a line
                logger.exception("sweep %s failed; it comes again", sweep.name)
        return moved

    def due_in(self) -> float:
        """Return the seconds until the next sweep is due."""
        now = time.monotonic()
        pending = [self.next_at.get(sweep.name, now) for sweep in registry.sweeps[self.process]]
        return max(0.0, min(pending, default=now + 1.0) - now)


def raise_if_unusable() -> None:
    """Re-raise by asking the database: a lost connection ends the cycle, a bad statement not."""
    from chronoproject.clock import db_now

    db_now()
