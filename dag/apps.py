"""The dag app."""

from django.apps import AppConfig


class DagConfig(AppConfig):
    """Registers the app and hangs dag into jobs and runs, which know nothing of it."""

    name = "dag"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect the edge store, what happens at births, the doorbell and the sweeps."""
        from dag import births, expansion, inputs, obstacles, receivers, services, sweeps  # noqa: F401
        from jobs.hooks import hooks
        from runs.hooks import run_hooks
        from runs.signals import run_finished

        hooks.edges = services.edges
        hooks.written.append(services.job_written)
        run_hooks.expand.append(expansion.expand)
        run_hooks.born.append(births.born)
        run_hooks.inputs = inputs.inputs_of
        run_hooks.obstacles = obstacles.obstacles_of
        run_finished.connect(receivers.resolve_followers, dispatch_uid="dag.resolve_followers")
