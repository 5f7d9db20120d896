"""The two servers: the bundled ones, or those that URLs name, looked at before anything starts."""

from urllib.parse import urlsplit

import psycopg
import redis

from chronoproject.embedded import EmbeddedError, EmbeddedPostgres, EmbeddedServer, EmbeddedValkey
from chronoproject.up.child import Service
from chronoproject.up.config import Config
from chronoproject.up.faults import UpError
from chronoproject.up.supervisor import Supervisor

OLDEST_POSTGRES = 150_000
START_SEC = 60.0
STOP_SEC = 40.0
HOLDERS_SEC = 20.0
MAX_EXITS = 3
# Schemes that Celery's transport knows and a plain client does not.
LEFT_TO_CELERY = frozenset({"sentinel", "redis+socket"})


def check_given(config: Config) -> None:
    """Meet the servers that URLs name before anything is started."""
    if config.database_url:
        check_postgres(config.database_url)
    if config.redis_url:
        check_redis(config.redis_url)


def start_servers(config: Config, supervisor: Supervisor) -> dict[str, str]:
    """Start those that no URL names; returns database_url and redis_url."""
    return {
        "database_url": config.database_url
        or _start(EmbeddedPostgres(config.home / "postgres"), supervisor),
        "redis_url": config.redis_url or _start(EmbeddedValkey(config.home / "valkey"), supervisor),
    }


def check_postgres(url: str) -> None:
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            version = connection.info.server_version
    except psycopg.OperationalError as fault:
        raise UpError(f"DATABASE_URL: {one_line(fault)}") from fault
    except (psycopg.Error, ValueError) as fault:
        # libpq's own words could repeat the URL, and so a password.
        raise UpError(
            "DATABASE_URL is not of the form postgresql://user:password@host:port/name"
        ) from fault
    if version < OLDEST_POSTGRES:
        raise UpError(f"DATABASE_URL: PostgreSQL 15 or newer is needed, this is {version // 10000}")


def check_redis(url: str) -> None:
    where = urlsplit(url)
    if where.scheme in LEFT_TO_CELERY:
        return
    place = f"{where.hostname}:{where.port or 6379}"
    try:
        client = redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
    except ValueError as fault:
        raise UpError("REDIS_URL is not of the form redis://:password@host:port/0") from fault
    try:
        client.ping()
    except redis.RedisError as fault:
        raise UpError(f"REDIS_URL: {place}: {one_line(fault)}") from fault
    finally:
        client.close()


def one_line(fault: Exception) -> str:
    """The first and telling line of an error, without libpq's prefix."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    return lines[0].removeprefix("connection failed: ") if lines else type(fault).__name__


def _start(server: EmbeddedServer, supervisor: Supervisor) -> str:
    # Backends of a killed postmaster need a moment to notice.
    supervisor.wait(lambda: not server.holders(), HOLDERS_SEC)
    try:
        server.prepare()
    except EmbeddedError as fault:
        raise UpError(str(fault)) from fault
    except OSError as fault:
        raise UpError(f"{server.name}: {fault}") from fault
    service = Service(server.name, server.launch, STOP_SEC, is_hurried=False)
    child = supervisor.add(service)
    is_up = supervisor.wait(lambda: child.exits >= MAX_EXITS or server.is_ready(), START_SEC)
    if not is_up or child.exits >= MAX_EXITS:
        log = supervisor.console.path(server.name)
        raise UpError(f"{server.name} does not start; its own words are in {log}")
    return server.url
