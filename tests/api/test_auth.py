"""Tokens: who is let in, what a refusal says, and what a use costs."""

from datetime import timedelta

import pytest
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from chronoproject.clock import db_now
from jobs.auth import token_create, token_hash
from jobs.models import ApiToken, Team
from tests.api.support import problem_of
from tests.factories import make_client, make_team

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Bearer",
        "Bearer ",
        "Bearer unknown",
        "Basic YTpi",
        "Bearer a b",
        "Bearer \xff\xfe",
        "Token x",
        "Bearer " + "x" * 10_000,
    ],
    ids=lambda header: str(header)[:20],
)
def test_no_or_a_bad_token_is_a_401(header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for method in ("get", "post"):
        response = getattr(APIClient(), method)("/v1/jobs", headers=headers)
        assert problem_of(response)["status"] == 401
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="chrono"'


def test_only_the_hash_of_a_token_is_kept(team: Team) -> None:
    token, text = token_create(team, "ci")
    assert text.startswith("chrono_")
    assert len(text) > 40
    assert token.token_hash == token_hash(text)
    assert token.token_hash != text
    assert text.startswith(token.prefix)
    assert text not in str(ApiToken.objects.values())


def test_a_revoked_token_is_refused(team: Team) -> None:
    client = make_client(team)
    assert client.get("/v1/jobs").status_code == 200
    ApiToken.objects.update(revoked_at=db_now())
    assert problem_of(client.get("/v1/jobs"))["status"] == 401


def test_the_scheme_is_read_in_any_case(team: Team) -> None:
    _, text = token_create(team, "ci")
    client = APIClient()
    assert client.get("/v1/jobs", headers={"Authorization": f"bearer {text}"}).status_code == 200


def test_use_is_noted_once_a_minute(
    team: Team, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = make_client(team)
    client.get("/v1/jobs")
    first = ApiToken.objects.get().last_used_at
    assert first is not None

    with django_assert_num_queries(2) as queries:  # the token, the jobs
        client.get("/v1/jobs")
    assert isinstance(queries, CaptureQueriesContext)
    assert ApiToken.objects.get().last_used_at == first

    ApiToken.objects.update(last_used_at=first - timedelta(seconds=61))
    client.get("/v1/jobs")
    again = ApiToken.objects.get().last_used_at
    assert again is not None
    assert again >= first


def test_a_token_sees_its_own_team_only(db: None) -> None:
    clients = {slug: make_client(make_team(slug)) for slug in ("one", "two")}
    for slug, client in clients.items():
        body = {"name": f"of {slug}", "command": "true"}
        assert client.post("/v1/jobs", body, format="json").json()["owner"] == slug
    for slug, client in clients.items():
        names = [job["name"] for job in client.get("/v1/jobs").json()["results"]]
        assert names == [f"of {slug}"]
