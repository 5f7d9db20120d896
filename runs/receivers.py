"""Receivers of Django's signals: three-line doorbells."""

from collections.abc import Sequence

from django.apps import AppConfig
from django.conf import settings

from chronoproject.clock import db_now
from runs import floor, partitions
from runs.alerts import outbox
from runs.records import Moved
from runs.signals import in_savepoint


def prepare_tables(sender: AppConfig, **kwargs: object) -> None:
    """Make the floor's row and the day partitions ahead once the tables stand."""
    floor.SQL["seed_floor"].run()
    days = partitions.days_ahead(db_now().date(), settings.CHRONO_PARTITION_DAYS_AHEAD)
    partitions.ensure(days)


def alert_dead(sender: object, runs: Sequence[Moved], **kwargs: object) -> None:
    """Write an alert for each dead run; most statements have none and pay nothing."""
    dead = [run for run in runs if run.status == "dead"]
    if dead:
        in_savepoint(outbox.dead_runs)(sender, dead)
