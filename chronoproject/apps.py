"""The project itself as an app: it brings the system checks."""

from django.apps import AppConfig


class ChronoConfig(AppConfig):
    """Registers the checks."""

    name = "chronoproject"

    def ready(self) -> None:
        """Import what registers itself."""
        from chronoproject import checks  # noqa: F401
