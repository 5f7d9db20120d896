"""Chrono's floor (settings, clock, SQL, errors) and roof (URLs, Celery, pages)."""

from chronoproject.celery import app as celery_app

__all__ = ("celery_app",)
