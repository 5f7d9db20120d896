"""The runs app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RunsConfig(AppConfig):
    """Registers the app; receivers are wired in ready()."""

    name = "runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect what must happen after a migration."""
        from runs.receivers import make_partitions

        post_migrate.connect(make_partitions, sender=self, dispatch_uid="runs.make_partitions")
