"""Idempotency-Key: one effect and one answer, whatever is repeated and whatever dies."""

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from chronoproject.clock import db_now
from jobs import idempotency, services
from jobs.models import IdempotencyKey, Job, Team
from runs.models import Run
from tests.api.support import fields_of, problem_of
from tests.factories import job_definition, make_job

pytestmark = pytest.mark.django_db
KEY = {"Idempotency-Key": "order-1"}


def create(api: APIClient, body: dict[str, Any], key: str = "order-1") -> Any:  # noqa: ANN401
    return api.post("/v1/jobs", body, format="json", headers={"Idempotency-Key": key})


def test_a_repeat_gets_the_first_answer_again(api: APIClient) -> None:
    body = job_definition(schedule="* * * * *")
    first = create(api, body)
    api.patch(f"/v1/jobs/{first.json()['id']}", {"retries": 9}, format="json")

    again = create(api, dict(reversed(body.items())))

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    for name in ("ETag", "Location", "Content-Type"):
        assert again.headers[name] == first.headers[name]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert Job.objects.count() == 1


def test_another_request_with_the_key_is_refused(api: APIClient) -> None:
    first = create(api, job_definition(name="a"))
    assert fields_of(create(api, job_definition(name="b"))) == {"Idempotency-Key"}
    path = f"/v1/jobs/{first.json()['id']}/trigger"
    assert fields_of(api.post(path, headers=KEY)) == {"Idempotency-Key"}
    assert (Job.objects.count(), Run.objects.count()) == (1, 0)


def test_another_team_has_keys_of_its_own(api: APIClient, other_api: APIClient) -> None:
    body = job_definition()
    assert create(api, body).json()["id"] != create(other_api, body).json()["id"]


def test_a_refused_request_leaves_its_key_free(api: APIClient) -> None:
    assert fields_of(create(api, job_definition(timeoutSec=0))) == {"timeoutSec"}
    assert not IdempotencyKey.objects.exists()
    assert create(api, job_definition()).status_code == 201


def test_a_trigger_is_repeated_safely(api: APIClient) -> None:
    path = f"/v1/jobs/{make_job().job_id}/trigger"
    answers = [api.post(path, {}, format="json", headers=KEY) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {202}
    assert {answer.json()["id"] for answer in answers} == {str(Run.objects.get().run_id)}
    assert api.post(path, {}, format="json").json()["id"] != answers[0].json()["id"]


def test_a_key_in_progress_is_a_409(api: APIClient, team: Team) -> None:
    body = job_definition()
    create(api, body)
    IdempotencyKey.objects.update(status_code=None, response=None)
    Job.objects.all().delete()

    response = create(api, body)

    assert problem_of(response)["type"].endswith("key-in-progress")
    assert (response.status_code, response.headers["Retry-After"]) == (409, "1")
    assert not Job.objects.exists()


def test_a_key_whose_request_died_is_taken_over_after_a_minute(api: APIClient) -> None:
    body = job_definition()
    create(api, body)
    Job.objects.all().delete()
    died_at = db_now() - timedelta(seconds=idempotency.ABANDONED_SEC + 1)
    IdempotencyKey.objects.update(status_code=None, response=None, created_at=died_at)

    assert fields_of(create(api, job_definition(name="other"))) == {"Idempotency-Key"}
    assert create(api, body).status_code == 201
    assert Job.objects.count() == 1


def test_a_request_that_was_taken_over_changes_nothing(
    api: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = services.job_create

    def slow(*args: Any, **kwargs: Any) -> Job:  # noqa: ANN401 - as the service takes them
        job = real(*args, **kwargs)
        IdempotencyKey.objects.update(created_at=db_now())  # another request took the key
        return job

    monkeypatch.setattr(services, "job_create", slow)
    assert create(api, job_definition()).status_code == 409
    key = IdempotencyKey.objects.get()
    assert key.status_code is None, "the other request's claim stands"


def test_a_key_lives_a_day(api: APIClient) -> None:
    create(api, job_definition(name="a"))
    IdempotencyKey.objects.update(created_at=db_now() - timedelta(hours=25))
    assert create(api, job_definition(name="b")).status_code == 201
    assert Job.objects.count() == 2


@pytest.mark.parametrize("key", ["", "x" * 256, "\x7f", "ü"])
def test_a_bad_key_is_refused(api: APIClient, key: str) -> None:
    assert fields_of(create(api, job_definition(), key)) == {"Idempotency-Key"}
    assert not Job.objects.exists()


def test_a_key_on_other_calls_does_no_harm(api: APIClient) -> None:
    job = make_job()
    for _ in range(2):
        patched = api.patch(f"/v1/jobs/{job.job_id}", {"retries": 1}, format="json", headers=KEY)
        assert patched.status_code == 200
    assert not IdempotencyKey.objects.exists()
