"""What no client of good will sends: each is refused with a status and words, none with a 500."""

import json
from io import BytesIO
from typing import Any

import pytest
from django.test.client import ClientHandler
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from jobs.definition import WRITTEN
from jobs.models import Job
from tests.api.support import fields_of, problem_of
from tests.factories import job_definition, make_job, make_run, make_token

pytestmark = pytest.mark.django_db


def post_raw(api: Any, raw: bytes | str, path: str = "/v1/jobs") -> Any:  # noqa: ANN401
    return api.generic("POST", path, raw, content_type="application/json")


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"nonsense",
        b'{"name": NaN, "command": "x"}',
        b'{"name": Infinity}',
        b"\xff\xfe{}",
        b'{"name": "\xc3\x28"}',
        b"[" * 100_000,
        b'{"a":' * 40_000,
        b'{"name":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"name":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"name":' + b"[" * 201 + b"]" * 201 + b"}",
        b'{"name": "x\ny"}',
    ],
    ids=lambda raw: repr(raw)[:24],
)
def test_malformed_json_is_a_400(api: APIClient, raw: bytes) -> None:
    assert problem_of(post_raw(api, raw))["status"] == 400
    assert not Job.objects.exists()


def test_no_body_is_an_empty_object(api: APIClient) -> None:
    assert fields_of(api.post("/v1/jobs")) == {"name"}
    assert fields_of(post_raw(api, b"")) == {"name"}


@pytest.mark.parametrize("raw", ["[]", "null", '"x"', "5", "true"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_body_must_be_an_object(api: APIClient, raw: str, method: str) -> None:
    path = "/v1/jobs" if method == "POST" else f"/v1/jobs/{make_job().job_id}"
    response = api.generic(method, path, raw, content_type="application/json")
    assert fields_of(response) == {"body"}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (r'"name": "a\u0000b"', "name"),
        (r'"name": "a\ud800b"', "name"),
        (r'"name": "ok", "env": {"A\u0000": "x"}', "env.A\0"),
        (r'"name": "ok", "tags": ["\udfff"]', "tags[0]"),
        (r'"name": "ok", "retries": 1e999', "retries"),
        (r'"name": "ok", "backoff": {"factor": -1e999}', "backoff.factor"),
        (f'"name": "ok", "retries": {"9" * 5000}', "retries"),
        (f'"name": "ok", "retries": {"9" * 200}', "retries"),
        (f'"name": "ok", "backoff": {{"factor": {"9" * 299}}}', "backoff.factor"),
        (r'"name": "ok", "description": "\u0000"', "description"),
        (f'"name": "ok", "tags": {"[" * 60}{"]" * 60}', "tags" + "[0]" * 31),
        (r'"name": "ok", "x\ud800": 1', "x\ud800"),
    ],
    ids=lambda value: str(value)[:40].encode("unicode_escape").decode(),
)
def test_what_a_database_cannot_hold_is_refused_by_name(
    api: APIClient, fields: str, named: str
) -> None:
    response = post_raw(api, f'{{"command": "x", {fields}}}')
    assert named in fields_of(response)
    assert not Job.objects.exists()


def test_hostile_payloads_of_a_trigger_are_refused_by_name(api: APIClient) -> None:
    job = make_job(payload={"type": "http", "url": "http://example.org/"})
    path = f"/v1/jobs/{job.job_id}/trigger"
    bad = post_raw(api, r'{"payload": {"body": {"a": ["\u0000"]}}}', path)
    assert fields_of(bad) == {"payload.body.a[0]"}
    assert fields_of(post_raw(api, '{"payload": {"body": 1e999}}', path)) == {"payload.body"}
    assert fields_of(post_raw(api, '{"payload": {"url": "x"}}', path)) == {"payload.url"}
    assert fields_of(post_raw(api, '{"payload": []}', path)) == {"payload"}


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ('{"name": "a", "command": "x", "name": "b"}', "'name'"),
        ('{"name": "a", "command": "x", "env": {"A": "1", "A": "1"}}', "'A'"),
        ('{"name": "a", "command": "x", "tags": [{"\\r\\nX": 1, "\\u000d\\nX": 2}]}', r"'\r\nX'"),
        (f'{{"{"k" * 500}": 1, "{"k" * 500}": 2}}', f"'{'k' * 100}…'"),
    ],
    ids=["at the top", "below", "control characters", "long"],
)
def test_a_key_that_stands_twice_is_a_400_that_names_it(api: APIClient, raw: str, key: str) -> None:
    problem = problem_of(post_raw(api, raw))
    assert (problem["status"], problem["detail"]) == (
        400,
        f"The body is not JSON: the key {key} stands twice in one object",
    )
    assert not Job.objects.exists()


def test_a_key_may_stand_in_two_objects(api: APIClient) -> None:
    body = '{"name": "a", "command": "x", "env": {"name": "b", "command": "y"}}'
    assert post_raw(api, body).status_code == 201


def test_what_a_client_sent_breaks_no_line_of_an_answers_words(api: APIClient) -> None:
    name = "X\r\nSet-Cookie: a=b\u202e"
    call = {"type": "http", "url": "http://example.org/", "headers": {name: "x"}}
    problem = problem_of(api.post("/v1/jobs", {"name": "a", "payload": call}, format="json"))
    assert [error["field"] for error in problem["errors"]] == [f"payload.headers.{name}"]
    assert problem["detail"] == (r"Refused: payload.headers.X\r\nSet-Cookie: a=b\u202e.")


def test_a_limit_out_of_range_is_told_so(api: APIClient) -> None:
    for limit in ("0", "1001", "-5", "9" * 20, "9" * 5000, "-" + "9" * 20):
        (error,) = problem_of(api.get(f"/v1/jobs?limit={limit}"))["errors"]
        assert error == {"field": "limit", "message": "must be from 1 to 1000"}
    (error,) = problem_of(api.get("/v1/jobs?limit=1.5"))["errors"]
    assert error == {"field": "limit", "message": "must be a whole number"}


def test_a_span_that_ends_before_it_begins_is_refused(api: APIClient) -> None:
    job = make_job()
    span = "from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z"
    empty = "from=2030-01-01T00:00:00Z&to=2030-01-01T00:00:00Z"
    for path in ("/v1/runs", f"/v1/jobs/{job.job_id}/runs", f"/v1/jobs/{job.job_id}/ticks"):
        assert problem_of(api.get(f"{path}?{span}"))["errors"] == [
            {"field": "to", "message": "is before from"}
        ]
        assert api.get(f"{path}?{empty}").json()["results"] == []


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=-1",
        "limit=1&limit=2",
        "limit=1e3",
        "limit=٣",
        "limit=" + "9" * 5000,
        "cursor=x",
        "cursor=bnVsbA",
        "cursor=W10",
        "cursor=" + "A" * 5000,
        "cursor=%00",
        "cursor=é",
        "name=%00",
        "enabled=maybe",
        "tag=%00",
        "nope=1",
        "tag=" + "x" * 65,
    ],
    ids=lambda query: query[:30],
)
def test_bad_parameters_of_a_list_are_refused_by_name(api: APIClient, query: str) -> None:
    assert fields_of(api.get(f"/v1/jobs?{query}")) == {query.partition("=")[0]}


@pytest.mark.parametrize(
    "query",
    [
        "status=gone",
        "status=dead,gone",
        "trigger=x",
        "from=x",
        "to=2030-01-01T00:00:00",
        "from=0001-01-01T00:00:00Z",
        "cursor=WyIyMDMwIl0",
        "limit=0",
        "sort=x",
    ],
)
def test_bad_parameters_of_runs_are_refused_by_name(api: APIClient, query: str) -> None:
    job = make_job()
    name = query.partition("=")[0]
    assert fields_of(api.get(f"/v1/runs?{query}")) == {name}
    assert fields_of(api.get(f"/v1/jobs/{job.job_id}/runs?{query}")) == {name}


@pytest.mark.parametrize("text", ["x", "%00", "ffffffff-ffff-8fff-bfff-ffffffffffff", "1", "é"])
def test_what_is_no_id_is_the_id_of_nothing(api: APIClient, text: str) -> None:
    for path in (f"/v1/jobs/{text}", f"/v1/jobs/{text}/runs", f"/v1/runs/{text}"):
        assert problem_of(api.get(path))["status"] == 404
    assert problem_of(api.post(f"/v1/runs/{text}/cancel"))["status"] == 404


def test_unknown_paths_and_methods_are_told_as_problems(api: APIClient) -> None:
    assert problem_of(api.get("/v1/"))["status"] == 404
    assert problem_of(api.get("/v1/nope"))["status"] == 404
    wrong = api.delete("/v1/jobs")
    assert problem_of(wrong)["status"] == 405
    assert "POST" in wrong.headers["Allow"]
    told = api.options("/v1/jobs")
    assert (told.status_code, told.content) == (204, b"")
    assert told.headers["Allow"] == "GET, POST, HEAD, OPTIONS"
    run = make_run(make_job())
    assert problem_of(api.get(f"/v1/runs/{run.run_id}/cancel"))["status"] == 405
    assert problem_of(api.get(f"/v1/jobs/{run.job_id}/pause"))["status"] == 405


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/xml", "x", "multipart/form-data"]
)
def test_another_media_type_is_a_415(api: APIClient, media_type: str) -> None:
    response = api.generic("POST", "/v1/jobs", "{}", content_type=media_type)
    assert problem_of(response)["status"] == 415


@pytest.mark.parametrize(
    "accept", ["text/html", "application/problem+json", "image/png", "nonsense"]
)
def test_an_accept_header_changes_nothing(api: APIClient, accept: str) -> None:
    response = api.get("/v1/jobs", headers={"Accept": accept})
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")


def test_an_unknown_host_is_told_as_a_problem(api: APIClient) -> None:
    assert problem_of(api.get("/v1/jobs", headers={"Host": "evil.example"}))["status"] == 400


# --- bodies over the limit ------------------------------------------------------------------


def test_a_body_over_the_limit_is_a_413(api: APIClient) -> None:
    big = json.dumps(job_definition(description="x" * 300_000))
    assert problem_of(post_raw(api, big))["status"] == 413
    assert not Job.objects.exists()


def call_wsgi(body: bytes, **environ: Any) -> tuple[int, Any]:  # noqa: ANN401
    """Call the application with what a server would hand it; return status and body."""
    response: Any = ClientHandler()(
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/v1/jobs",
            "SERVER_NAME": "testserver",
            "SERVER_PORT": "80",
            "CONTENT_TYPE": "application/json",
            "HTTP_AUTHORIZATION": f"Bearer {make_token()}",
            "wsgi.input": BytesIO(body),
            "wsgi.url_scheme": "http",
            **environ,
        }
    )
    return response.status_code, json.loads(response.content)


CHUNKED = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}


def test_a_chunked_body_is_read() -> None:
    status, answer = call_wsgi(json.dumps(job_definition(name="chunked")).encode(), **CHUNKED)
    assert (status, answer["name"]) == (201, "chunked")


def test_a_chunked_body_over_the_limit_is_a_413() -> None:
    body = json.dumps(job_definition(description="x" * 300_000)).encode()
    status, answer = call_wsgi(body, **CHUNKED)
    assert (status, answer["status"]) == (413, 413)
    assert not Job.objects.exists()


def test_a_stated_length_is_a_limit_whatever_follows() -> None:
    body = json.dumps(job_definition(name="short")).encode()
    status, _ = call_wsgi(body + b"x" * 1_000_000, CONTENT_LENGTH=str(len(body)))
    assert status == 201
    status, _ = call_wsgi(b"{}", CONTENT_LENGTH="nonsense")
    assert status == 422


# --- anything at all ------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(sorted(WRITTEN.fields)), value=json_values)
def test_any_value_in_any_field_is_taken_or_refused(
    api: APIClient, name: str, value: object
) -> None:
    body = job_definition() | {name: value}
    response = post_raw(api, json.dumps(body))
    assert response.status_code in {201, 409, 422}, response.content
