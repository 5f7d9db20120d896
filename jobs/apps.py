"""The jobs app."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """Registers the app; receivers are wired in ready()."""

    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"
