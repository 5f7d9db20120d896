"""The runs app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from runs.signals import run_finished


class RunsConfig(AppConfig):
    """Registers the app; receivers are wired in ready()."""

    name = "runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect what must happen after a migration."""
        from jobs.hooks import hooks
        from runs import (  # noqa: F401 - some register their sweeps
            figures,
            receivers,
            settling,
            tzdata,
        )
        from runs.api.represent import last_runs
        from runs.sweeps import (  # noqa: F401
            housekeeping,
            partitions,
            promote,
            reaper,
            replay,
            verify,
        )
        from runs.task_checks import check_task

        hooks.settle = settling.settle
        hooks.cancel_unstarted = settling.cancel_unstarted
        if settling.begin_version not in hooks.written:
            hooks.written.append(settling.begin_version)
        hooks.last_runs = last_runs
        hooks.check_task = check_task
        post_migrate.connect(
            receivers.prepare_tables, sender=self, dispatch_uid="runs.prepare_tables"
        )
        run_finished.connect(receivers.alert_dead, dispatch_uid="runs.alert_dead")
