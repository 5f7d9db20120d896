"""Every field of a job: what is accepted, in which form it is read, and what is refused by name."""

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from chronoproject.clock import db_now
from jobs.fields import instant_text
from jobs.models import Job
from tests.api.support import fields_of, problem_of
from tests.factories import job_definition

pytestmark = pytest.mark.django_db

HTTP: dict[str, Any] = {"type": "http", "url": "https://example.org/"}
TASK = {"type": "task", "task": "chrono.echo"}

REFUSED_CALLS: list[tuple[dict[str, Any], set[str]]] = [
    ({"payload": {"type": "task", "task": "no.such.task"}}, {"payload.task"}),
    ({"payload": TASK | {"args": [1, 2, 3]}}, {"payload.args"}),
    ({"payload": TASK | {"kwargs": {"txt": "x"}}}, {"payload.kwargs"}),
    ({"payload": TASK | {"kwargs": {"run": "x"}}}, {"payload.kwargs"}),
    ({"payload": {"type": "task", "task": "chrono.sleep"}}, {"payload.args"}),
]


@pytest.mark.parametrize(("fields", "named"), REFUSED_CALLS, ids=lambda value: str(value)[:60])
def test_a_task_that_cannot_be_called_so_is_refused(
    api: APIClient, fields: dict[str, Any], named: set[str]
) -> None:
    assert fields_of(api.post("/v1/jobs", job_definition(**fields), format="json")) == named
    assert not Job.objects.exists()


def test_every_bad_field_is_named_in_one_answer(api: APIClient) -> None:
    body = {"nope": 1, "timeoutSec": 0, "payload": HTTP | {"url": "x"}}
    response = api.post("/v1/jobs", body, format="json")
    assert fields_of(response) == {"nope", "name", "timeoutSec", "payload.url"}
    assert all(error["message"] for error in problem_of(response)["errors"])
    assert not Job.objects.exists()


ACCEPTED: list[tuple[dict[str, Any], Any]] = [
    ({"name": "x" * 200}, "x" * 200),
    ({"name": "Ünïcode 名前 🚀"}, "Ünïcode 名前 🚀"),
    ({"command": ["printf", "", "a b"]}, ["printf", "", "a b"]),
    ({"schedule": "@daily"}, "@daily"),
    ({"schedule": "*/5 * * * * *"}, "*/5 * * * * *"),
    ({"schedule": "H H(1-5) * * MON"}, "H H(1-5) * * MON"),
    (
        {"schedule": {"everySec": 1, "anchor": "2030-01-01T00:00:00.9+02:00"}},
        {"everySec": 1, "anchor": "2029-12-31T22:00:00.000000Z"},
    ),
    ({"timezone": "America/Argentina/Buenos_Aires"}, "America/Argentina/Buenos_Aires"),
    ({"timeoutSec": 604_800}, 604_800),
    ({"timeoutSec": 60.0}, 60),
    ({"retries": 100}, 100),
    ({"retryOn": "all"}, "all"),
    ({"retryOn": [1, 503, "timeout", "5xx"]}, [1, 503, "timeout", "5xx"]),
    ({"maxConcurrency": 1}, 1),
    ({"maxConcurrency": None}, None),
    ({"maxCatchup": 0}, 0),
    ({"env": {"_A1": "ü\n", "EMPTY": ""}}, {"_A1": "ü\n", "EMPTY": ""}),
    ({"tags": []}, []),
    ({"slaSec": None}, None),
    ({"enabled": False}, False),
    ({"pool": "gpu-2_x"}, "gpu-2_x"),
    (
        {"payload": HTTP | {"expectStatus": [200, 404]}},
        HTTP | {"method": "GET", "headers": {}, "body": None, "expectStatus": [200, 404]},
    ),
    *(
        (
            {"payload": HTTP | {"expectStatus": status}},
            HTTP | {"method": "GET", "headers": {}, "body": None, "expectStatus": status},
        )
        for status in (204, "2xx", "200-204", "404-404", [200, "3xx", "401-403"], None)
    ),
    ({"payload": TASK | {"kwargs": {"text": "hi"}}}, TASK | {"args": [], "kwargs": {"text": "hi"}}),
]


@pytest.mark.parametrize(("fields", "read"), ACCEPTED, ids=lambda value: str(value)[:60])
def test_a_good_field_is_kept(api: APIClient, fields: dict[str, Any], read: object) -> None:
    response = api.post("/v1/jobs", job_definition(**fields), format="json")
    assert response.status_code == 201, response.content
    (name,) = fields
    stored = api.get(f"/v1/jobs/{response.json()['id']}").json()
    assert stored == response.json()
    assert stored[name] == read


def test_a_bad_expression_is_refused_in_the_words_of_the_cron_reader(api: APIClient) -> None:
    response = api.post("/v1/jobs", job_definition(schedule="61 * * * *"), format="json")
    assert problem_of(response)["errors"] == [
        {"field": "schedule", "message": "minute '61': 61 is out of range; use 0 to 59"}
    ]


def test_a_paused_job_has_no_next_run(api: APIClient) -> None:
    body = job_definition(schedule="* * * * *", enabled=False)
    assert api.post("/v1/jobs", body, format="json").json()["nextRunAt"] is None


def test_dates_bound_the_next_run(api: APIClient) -> None:
    now = db_now()
    later = instant_text(now + timedelta(days=400))
    body = job_definition(schedule="0 0 * * *", startsAt=later)
    read = api.post("/v1/jobs", body, format="json").json()
    assert read["nextRunAt"] >= later
    over = job_definition(schedule="0 0 * * *", endsAt=instant_text(now - timedelta(days=1)))
    assert api.post("/v1/jobs", over, format="json").json()["nextRunAt"] is None


def test_an_owner_other_than_the_tokens_team_is_refused(api: APIClient) -> None:
    body = {"name": "a job", "command": "true"}
    made = api.post("/v1/jobs", body | {"owner": "data"}, format="json")
    assert (made.status_code, made.json()["owner"]) == (201, "data")
    path = f"/v1/jobs/{made.json()['id']}"
    calls = (("post", "/v1/jobs"), ("put", path), ("patch", path), ("put", f"{path}?dryRun=true"))
    for method, target in calls:
        answer = getattr(api, method)(target, body | {"owner": "other"}, format="json")
        assert fields_of(answer) == {"owner"}
    assert api.get(path).json() == made.json()
    assert Job.objects.count() == 1
