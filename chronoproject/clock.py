"""The only clock: PostgreSQL's. A host's wall clock decides nothing (PROTOCOL: database time)."""

from datetime import datetime

from django.db import connection


def db_now() -> datetime:
    """Return clock_timestamp() of the database as an aware UTC datetime."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
    assert row is not None  # noqa: S101 - a SELECT without FROM always answers one row
    now: datetime = row[0]
    return now
