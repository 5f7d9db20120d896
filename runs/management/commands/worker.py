"""manage.py worker: Celery's prefork worker in this very process, with leases and shims."""

import argparse
import sys
from typing import NoReturn

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection
from kombu.exceptions import OperationalError

from chronoproject.celery import app
from chronoproject.process import first_line
from runs.worker_process import WorkerProcess

BROKER_RETRIES = 2


class Command(BaseCommand):
    """Execute runs until SIGTERM; then drain."""

    help = "Claim and execute the runs of some pools."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take the worker's name, size and pools."""
        parser.add_argument("--name", default="worker", help="name in Flower and in the console")
        parser.add_argument(
            "--concurrency",
            type=int,
            default=settings.CHRONO_WORKER_CONCURRENCY,
            help="how many runs at once",
        )
        parser.add_argument(
            "--pools",
            default=",".join(settings.CHRONO_POOLS),
            help="pools to serve, comma-separated",
        )
        parser.add_argument("--pool", default="prefork", help="Celery's pool; only prefork will do")
        parser.add_argument(
            "--operations",
            action="store_true",
            help="also serve the queue of the console's large operations",
        )
        parser.add_argument(
            "--check", action="store_true", help="only say whether it can start: exit code 0 or 2"
        )

    def handle(self, *args: object, **options: str) -> None:
        """Check what the worker needs, then become it."""
        if options["pool"] != "prefork":
            _refuse("only the prefork pool can enforce time limits and leases")
        pools = [pool.strip() for pool in options["pools"].split(",") if pool.strip()]
        if not pools or int(options["concurrency"]) < 1:
            _refuse("a worker needs a pool, and a concurrency of at least 1")
        check_database()
        check_broker()
        try:
            worker = WorkerProcess(
                app,
                name=options["name"],
                concurrency=int(options["concurrency"]),
                pools=pools,
                operations=bool(options["operations"]),
            )
        except (ImproperlyConfigured, OSError) as error:
            _refuse(first_line(error), error)
        if options["check"]:
            worker.close()
            return
        sys.exit(worker.run())


def _refuse(reason: str, error: Exception | None = None) -> NoReturn:
    raise CommandError(reason, returncode=2) from error


def check_database() -> None:
    """Raise CommandError, in a line, when the database cannot be used."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM runs LIMIT 0")
    except DatabaseError as error:
        _refuse(f"database: {first_line(error)}", error)
    finally:
        connection.close()  # pool children must not inherit it


def check_broker() -> None:
    """Raise CommandError, in a line, when Redis cannot be reached."""
    with app.connection_for_write() as broker:
        try:
            broker.ensure_connection(max_retries=BROKER_RETRIES, interval_start=0.2)
        except (OperationalError, OSError, ValueError) as error:
            _refuse(f"broker {broker.as_uri()}: {first_line(error)}", error)
