"""Receivers of Django's signals: three-line doorbells."""

from django.apps import AppConfig
from django.conf import settings

from chronoproject.clock import db_now
from runs import partitions


def make_partitions(sender: AppConfig, **kwargs: object) -> None:
    """Make the day partitions ahead once the tables stand."""
    days = partitions.days_ahead(db_now().date(), settings.CHRONO_PARTITION_DAYS_AHEAD)
    partitions.ensure(days)
