"""Probes, the entrance, and what is told when the ground gives way."""

from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings
from rest_framework.test import APIClient

from jobs import selectors
from runs import partitions, publisher
from tests.api.support import problem_of


@pytest.mark.django_db
def test_alive_needs_nothing() -> None:
    with CaptureQueriesContext(connection) as captured:
        response = APIClient().get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert len(captured) == 0


@pytest.mark.django_db
def test_ready_tells_each_part() -> None:
    response = APIClient().get("/readyz")
    checks = dict.fromkeys(("database", "migrations", "partition", "redis"), "ok")
    assert (response.status_code, response.json()) == (200, {"status": "ready", "checks": checks})


@pytest.mark.django_db
def test_ready_goes_without_redis(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    publisher.client.cache_clear()
    response = APIClient().get("/readyz")
    assert response.status_code == 200
    assert response.json()["checks"]["redis"] == "unreachable: ConnectionError"


@pytest.mark.django_db
def test_not_ready_without_todays_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "existing_days", lambda table="runs": set())
    body = problem_of(APIClient().get("/readyz"))
    assert (body["status"], body["checks"]["partition"][:8]) == (503, "none for")


@pytest.mark.django_db
def test_not_ready_before_every_migration() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'runs'")
    body = problem_of(APIClient().get("/readyz"))
    assert body["status"] == 503
    assert body["checks"]["migrations"].startswith("not applied: runs.0001")


@pytest.mark.django_db
def test_the_entrance_leads_to_the_console() -> None:
    response = APIClient().get("/")
    assert (response.status_code, response.headers["Location"]) == (302, "/admin/")


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("closed")])
def test_a_database_that_is_away_is_a_503(
    api: APIClient, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        raise error

    monkeypatch.setattr(selectors, "jobs_page", fail)
    response = api.get("/v1/jobs")
    assert problem_of(response)["status"] == 503
    assert response.headers["Retry-After"] == "5"
    assert "gone" not in response.content.decode()


@pytest.mark.django_db
def test_a_defect_is_a_500_that_is_logged_and_tells_nothing(
    api: APIClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        raise RuntimeError("the secret of the defect")

    monkeypatch.setattr(selectors, "jobs_page", fail)
    response = api.get("/v1/jobs")
    assert problem_of(response)["status"] == 500
    assert "secret" not in response.content.decode()
    assert "the secret of the defect" in caplog.text
