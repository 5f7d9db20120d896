"""The floor: the oldest day that may hold a non-terminal run (PROTOCOL 27).

Operational statements carry `scheduled_for >= floor` as a constant, so that they open the few
partitions in use instead of all of them.
"""

from datetime import datetime
from pathlib import Path

from django.db import transaction

from chronoproject import sql

SQL = sql.load(Path(__file__).parent / "sql")


def read() -> datetime:
    """Return the floor."""
    floor: datetime = SQL["read_floor"].value()
    return floor


def lower_to(instant: datetime) -> None:
    """Make sure that a run at `instant` stands above the floor; inside the caller's transaction."""
    SQL["lower_floor"].run(instant=instant)


def raise_up() -> datetime:
    """Move the floor up to the oldest live run, yesterday at most; return it."""
    with transaction.atomic():
        current = SQL["lock_floor"].value()
        floor: datetime = SQL["raise_floor"].value(floor=current)
    return floor
