"""A team and its client; what is published goes to a Valkey of the tests' own."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from jobs.models import Team
from runs import publisher
from tests.factories import make_client, make_team


@pytest.fixture(autouse=True)
def broker(redis_url: str) -> Iterator[str]:
    """An empty Valkey, and a publisher that has not met another one."""
    publisher.client.cache_clear()
    publisher.breaker = publisher.Breaker()
    yield redis_url
    publisher.client.cache_clear()


@pytest.fixture(autouse=True)
def no_static_files(settings: Settings) -> None:
    """Keep WhiteNoise from reading all of the admin's files for each client."""
    settings.WHITENOISE_AUTOREFRESH = True


@pytest.fixture
def team(db: None) -> Team:
    """The team that calls."""
    return make_team()


@pytest.fixture
def api(team: Team) -> APIClient:
    """A client with an editor's token of the team."""
    return make_client(team)


@pytest.fixture
def other_api(db: None) -> APIClient:
    """A client of another team."""
    return make_client(make_team("rivals"))
