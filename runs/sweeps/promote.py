"""Back-off over: retrying → queued. Room at a limit: held runs in."""

from django.conf import settings
from django.db import transaction

from runs import floor, lifecycle, publisher
from runs.records import RunRef
from runs.sweeps import DISPATCHER, Sweep, register

AGED_AT_ONCE = 10


def promote_retries() -> int:
    """Queue every retry that is due, in bounded steps."""
    total = 0
    while moved := lifecycle.promote():
        total += len(moved)
    return total


def promote_aged() -> int:
    """Let a few of the low runs that have waited too long into the normal queue."""
    with transaction.atomic():
        rows = floor.SQL["promote_aged"].rows(
            floor=floor.read(), age_sec=settings.CHRONO_PRIORITY_AGE_SEC, limit=AGED_AT_ONCE
        )
        publisher.publish_after_commit([RunRef(*row) for row in rows])
    return len(rows)


def admit_held() -> int:
    """Let held runs in where a finish, for whatever reason, did not."""
    rows = floor.SQL["keys_with_room"].rows(floor=floor.read(), limit=1000)
    return len(lifecycle.admit(row[0] for row in rows))


def raise_floor() -> int:
    """Move the floor of operational queries up."""
    before = floor.read()
    return int(floor.raise_up() > before)


register(DISPATCHER, Sweep("promote", 0.5, promote_retries))
register(DISPATCHER, Sweep("age", 5, promote_aged))
register(DISPATCHER, Sweep("admit", 5, admit_held))
register(DISPATCHER, Sweep("floor", 60, raise_floor))
