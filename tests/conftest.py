"""Servers for the tests that ask for them: a run of unit tests alone starts none."""

import os
from collections.abc import Iterator

import pytest
import redis

from tests import servers

# Django has its settings by now. Processes that a test starts read the plain ones, and the servers'
# addresses from the environment.
os.environ["DJANGO_SETTINGS_MODULE"] = "chronoproject.settings"


@pytest.fixture(scope="session")
def private_servers() -> Iterator[servers.Addresses]:
    """PostgreSQL and Valkey, running."""
    if servers.private is None:
        yield servers.addresses
        return
    with servers.private.started() as addresses:
        yield addresses


@pytest.fixture(scope="session")
def django_db_modify_db_settings(private_servers: servers.Addresses) -> None:
    """What pytest-django does before it makes the database: here, starting its server."""


@pytest.fixture
def redis_url(private_servers: servers.Addresses) -> str:
    """Address of a Valkey that is empty."""
    with redis.Redis.from_url(private_servers.redis_url) as client:
        client.flushall()
    return private_servers.redis_url


@pytest.fixture
def valkey(redis_url: str) -> Iterator[redis.Redis]:
    """Client of a Valkey that is empty."""
    with redis.Redis.from_url(redis_url) as client:
        yield client
