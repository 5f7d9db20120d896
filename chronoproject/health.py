"""Whether this process lives, and whether Chrono can serve: two questions for probes."""

from collections.abc import Callable
from functools import cache

from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from redis import RedisError

from chronoproject.clock import db_now
from chronoproject.errors import Unavailable, problem
from runs import partitions, publisher

OK = "ok"


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer at once: the process is alive, whatever it depends on."""
    return JsonResponse({"status": OK})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when requests can be served; Redis is told, and not required for that."""
    checks = {"database": _told(_database)}
    if checks["database"] == OK:
        checks["migrations"] = _told(_migrations)
        checks["partition"] = _told(_partition)
    checks["redis"] = _told(_redis)
    failed = [name for name, told in checks.items() if told != OK and name != "redis"]
    if failed:
        return problem(
            503, f"Not ready: {', '.join(failed)}.", kind=Unavailable.kind, checks=checks
        )
    return JsonResponse({"status": "ready", "checks": checks})


def _told(check: Callable[[], str]) -> str:
    try:
        return check()
    except (DatabaseError, RedisError) as error:
        return f"unreachable: {type(error).__name__}"


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return OK


def _migrations() -> str:
    with connection.cursor() as cursor:
        if "django_migrations" not in connection.introspection.table_names(cursor):
            return "none applied"
        cursor.execute("SELECT app, name FROM django_migrations")
        applied = set(cursor.fetchall())
    missing = sorted(_known_migrations() - applied)
    return OK if not missing else f"not applied: {missing[0][0]}.{missing[0][1]}"


@cache
def _known_migrations() -> frozenset[tuple[str, str]]:
    """Return the migrations on disk, read once: they do not change under a running process."""
    return frozenset(MigrationLoader(None).disk_migrations)


def _partition() -> str:
    today = db_now().date()
    missing = [table for table in partitions.TABLES if today not in partitions.existing_days(table)]
    return OK if not missing else f"none for {today} in {missing[0]}"


def _redis() -> str:
    publisher.client().ping()
    return OK
