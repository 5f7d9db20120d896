"""Day partitions: ahead, old ones dropped, and the default one that should stay empty."""

from datetime import date, timedelta

from django.conf import settings

from chronoproject.clock import db_now
from runs import partitions
from runs.alerts.outbox import NewAlert, put
from runs.floor import SQL
from runs.ids import day_of
from runs.sweeps import MAINTENANCE, Sweep, register


def make_ahead() -> int:
    """Make the partitions of the coming days."""
    days = partitions.days_ahead(db_now().date(), settings.CHRONO_PARTITION_DAYS_AHEAD)
    return len(partitions.ensure(days))


def drop_old() -> int:
    """Drop days past retention; one that still holds unfinished work is kept, and told."""
    oldest_hot = day_of(db_now()) - timedelta(days=settings.CHRONO_RETENTION_DAYS)
    old = {day for day in partitions.existing_days() if day < oldest_hot.date()}
    if not old:
        return 0
    kept = {row[0].date() for row in SQL["days_not_done"].rows(before=oldest_hot)} & old
    put([_kept_alert(day) for day in sorted(kept)])
    return len(partitions.drop(sorted(old - kept)))


def _kept_alert(day: date) -> NewAlert:
    return NewAlert(
        kind="partition_kept",
        dedupe_key=f"partition_kept:{day}",
        message=f"Runs of {day} are past retention but not all done; the day is kept",
    )


def watch_default() -> int:
    """Tell when a default partition holds rows: a day had no partition of its own."""
    filled = [table for table, holds in partitions.default_partition_rows().items() if holds]
    today = db_now().date()
    return put(
        [
            NewAlert(
                kind="partition_default",
                dedupe_key=f"partition_default:{table}:{today}",
                message=f"{table}_default holds rows: a day had no partition when they came",
            )
            for table in filled
        ]
    )


register(MAINTENANCE, Sweep("partitions", 3600, make_ahead))
register(MAINTENANCE, Sweep("retention", 3600, drop_old))
register(MAINTENANCE, Sweep("default_partition", 60, watch_default))
