"""manage.py dispatcher: one dispatcher replica."""

import argparse
import os
import socket

from django.core.management.base import BaseCommand, CommandError

from chronoproject.process import stop_on_signals
from runs.dispatcher import Dispatcher
from runs.tzdata import OutdatedTzdata


class Command(BaseCommand):
    """Run a dispatcher until SIGTERM or SIGINT."""

    help = "Claim due jobs, record their ticks, publish their runs, and sweep."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take a name for the logs and the leases."""
        parser.add_argument("--name", default="dispatcher", help="name in logs and leases")

    def handle(self, *args: object, **options: str) -> None:
        """Cycle until told to stop; the holder's name is unique to this boot."""
        holder = f"{options['name']}@{socket.gethostname()}-{os.getpid()}"
        try:
            Dispatcher(holder).run_forever(stop_on_signals())
        except OutdatedTzdata as error:
            raise CommandError(str(error)) from error
