"""The dag app."""

from django.apps import AppConfig


class DagConfig(AppConfig):
    """Registers the app; receivers are wired in ready()."""

    name = "dag"
    default_auto_field = "django.db.models.BigAutoField"
