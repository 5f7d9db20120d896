"""manage.py maintenance: the chores that neither a busy dispatcher nor dead workers may stop."""

import os
import socket

from django.core.management.base import BaseCommand

from chronoproject.process import stop_on_signals
from runs.maintenance import Maintenance


class Command(BaseCommand):
    """Run the maintenance process until SIGTERM or SIGINT."""

    help = "Partitions, retention, watching and cleaning up; one process at a time does it."

    def handle(self, *args: object, **options: object) -> None:
        """Sweep while this process holds the lease."""
        stop = stop_on_signals()
        Maintenance(f"maintenance@{socket.gethostname()}-{os.getpid()}").run_forever(stop)
