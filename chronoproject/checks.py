"""System checks of settings that would break a promise quietly. They run with every command."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.checks import Warning as CheckWarning

MIN_BEATS_PER_LEASE = 3
REDIS_SCHEMES = frozenset({"redis", "rediss", "redis+socket", "unix", "sentinel"})
DEVELOPMENT_KEY = "insecure-only-for-development-and-tests"


@register()
def check_lease(app_configs: Sequence[Any] | None, **kwargs: object) -> list[CheckMessage]:
    """A lease must outlive three missed heartbeats."""
    lease, beat = settings.CHRONO_LEASE_SEC, settings.CHRONO_HEARTBEAT_SEC
    if lease > MIN_BEATS_PER_LEASE * beat:
        return []
    return [
        Error(
            f"CHRONO_LEASE_SEC is {lease:g}, CHRONO_HEARTBEAT_SEC is {beat:g}",
            hint="make the lease longer than three heartbeats",
            id="chrono.E001",
        )
    ]


@register()
def check_broker(app_configs: Sequence[Any] | None, **kwargs: object) -> list[CheckMessage]:
    """Replay reads the queue's consuming end, which only Redis and Valkey lists offer."""
    scheme = urlsplit(settings.REDIS_URL).scheme
    if scheme in REDIS_SCHEMES:
        return []
    return [
        Error(
            f"REDIS_URL has the scheme {scheme!r}",
            hint="use redis:// or rediss://; Chrono runs on Redis or Valkey only",
            id="chrono.E002",
        )
    ]


@register()
def check_acknowledgement(
    app_configs: Sequence[Any] | None, **kwargs: object
) -> list[CheckMessage]:
    """A message means only "try to claim": late acknowledgement would deliver long runs again."""
    if not settings.CELERY_TASK_ACKS_LATE:
        return []
    return [
        Error(
            "CELERY_TASK_ACKS_LATE is on",
            hint="leave it off: replay from the database is what brings lost messages back",
            id="chrono.E003",
        )
    ]


@register(deploy=True)
def check_secret_key(app_configs: Sequence[Any] | None, **kwargs: object) -> list[CheckMessage]:
    """The development key is public."""
    if settings.SECRET_KEY != DEVELOPMENT_KEY:
        return []
    return [
        CheckWarning(
            "CHRONO_SECRET_KEY is not set",
            hint="set CHRONO_SECRET_KEY or CHRONO_SECRET_KEY_FILE; bin/up makes one",
            id="chrono.W001",
        )
    ]
