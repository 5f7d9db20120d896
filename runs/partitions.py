"""Day partitions of `runs` and `run_attempts`: made ahead, and dropped when they are old.

Created by LIKE + ATTACH and removed by plain DETACH, each under a short lock time-out with
retries, so that they never queue up behind, or in front of, the traffic (PROTOCOL 26).
"""

import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial

from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper

from chronoproject.sql import LOCK_NOT_AVAILABLE, sqlstate

logger = logging.getLogger(__name__)

TABLES = ("runs", "run_attempts")
LOCK_TIMEOUT_MS = 500
LOCK_ATTEMPTS = 20
ONE_DAY = timedelta(days=1)
PARTITION_NAME = re.compile(r"^(runs|run_attempts)_p(\d{8})$")
MAINTENANCE_LOCK = 0x6368726F  # advisory: replicas make partitions one after the other


def partition_name(table: str, day: date) -> str:
    """Return the name of the table's partition of the UTC day."""
    return f"{table}_p{day:%Y%m%d}"


def existing_days(table: str = "runs") -> set[date]:
    """Return the days that have a partition of their own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = %s::regclass",
            [table],
        )
        names = [row[0] for row in cursor.fetchall()]
    matches = [match for name in names if (match := PARTITION_NAME.match(name))]
    return {datetime.strptime(match[2], "%Y%m%d").replace(tzinfo=UTC).date() for match in matches}


def days_ahead(today: date, ahead: int) -> list[date]:
    """Return yesterday (a late edit of a tick just past midnight), today and `ahead` days more."""
    return [today + timedelta(days=offset) for offset in range(-1, ahead + 1)]


def ensure(days: Iterable[date]) -> list[str]:
    """Create the partitions of `days` that do not exist; return the names of those it made."""
    wanted = sorted(set(days))
    made: list[str] = []
    for table in TABLES:
        missing = sorted(set(wanted) - existing_days(table))
        made += [
            partition_name(table, day)
            for day in missing
            if _with_short_locks(partial(_create, table, day))
        ]
    return made


def drop(days: Sequence[date]) -> list[str]:
    """Detach and drop the partitions of `days`; return the names of those it dropped."""
    dropped: list[str] = []
    for table in TABLES:
        for day in sorted(set(days) & existing_days(table)):
            _with_short_locks(partial(_drop, table, day))
            dropped.append(partition_name(table, day))
    return dropped


def default_partition_rows() -> dict[str, bool]:
    """Return for each table whether its default partition holds rows, which it should not."""
    found = {}
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"SELECT EXISTS (SELECT FROM {table}_default)")  # noqa: S608 - constant
            row = cursor.fetchone()
            found[table] = bool(row and row[0])
    return found


def _create(table: str, day: date) -> bool:
    name = partition_name(table, day)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [MAINTENANCE_LOCK])
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        row = cursor.fetchone()
        if row and row[0]:
            return False
        cursor.execute(
            f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"
            " WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01)"
        )
        span = [f"{day}T00:00:00Z", f"{day + ONE_DAY}T00:00:00Z"]
        _take_from_default(cursor, table, name, span)
        cursor.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM (%s) TO (%s)", span
        )
    return True


def _take_from_default(cursor: CursorWrapper, table: str, name: str, span: list[str]) -> None:
    """Move the day's rows that came while it had no partition; with them it could not be attached.

    The lock lets no statement wait for a row that is then gone from where it looks.
    """
    default, of_day = f"{table}_default", "scheduled_for >= %s AND scheduled_for < %s"
    cursor.execute(f"SELECT EXISTS (SELECT FROM {default} WHERE {of_day})", span)  # noqa: S608
    if (row := cursor.fetchone()) and row[0]:
        cursor.execute(f"LOCK TABLE {default} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(
            f"WITH moved AS (DELETE FROM {default} WHERE {of_day} RETURNING *)"  # noqa: S608
            f" INSERT INTO {name} SELECT * FROM moved",
            span,
        )


def _drop(table: str, day: date) -> bool:
    name = partition_name(table, day)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [MAINTENANCE_LOCK])
        cursor.execute(f"ALTER TABLE {table} DETACH PARTITION {name}")
        cursor.execute(f"DROP TABLE {name}")
    return True


def _with_short_locks(step: Callable[[], bool]) -> bool:
    """Run `step` in a transaction that gives up a lock after 500 ms, again until it gets it."""
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
                return step()
        except OperationalError as error:
            if sqlstate(error) != LOCK_NOT_AVAILABLE or attempt == LOCK_ATTEMPTS:
                raise
            logger.info("partition work waits for a lock (attempt %s)", attempt)
            time.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - spreads rivals
    raise AssertionError("unreachable")
