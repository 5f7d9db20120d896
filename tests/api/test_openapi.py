"""The OpenAPI document: valid, complete, and true of what is really answered."""

from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from drf_spectacular.validation import validate_schema
from rest_framework.test import APIClient

from chronoproject.openapi import document
from jobs.definition import WRITTEN
from tests.factories import claim_run, finish_run, job_definition, make_job, make_run

METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """The document as it is sent."""
    return document()


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in described["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def fits(described: dict[str, Any], name: str, body: object) -> None:
    """Fail unless the body is what the component says."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
    jsonschema.Draft202012Validator(schema).validate(body)


def test_it_is_valid_and_open_to_all(described: dict[str, Any]) -> None:
    validate_schema(described)  # type: ignore[no-untyped-call]
    assert described["openapi"].startswith("3.1")
    response = APIClient().get("/v1/openapi.json")
    assert (response.status_code, response.json()) == (200, described)


def test_every_path_of_the_issue_is_described(described: dict[str, Any]) -> None:
    assert {(method, path) for path, method, _ in operations(described)} >= {
        ("get", "/v1/jobs"),
        ("post", "/v1/jobs"),
        *((method, "/v1/jobs/{job_id}") for method in ("get", "put", "patch", "delete")),
        *(("post", f"/v1/jobs/{{job_id}}/{verb}") for verb in ("trigger", "pause", "resume")),
        *(("get", f"/v1/jobs/{{job_id}}/{part}") for part in ("runs", "versions")),
        ("get", "/v1/runs"),
        ("get", "/v1/runs/{run_id}"),
        *(("get", f"/v1/runs/{{run_id}}/{part}") for part in ("attempts", "explain", "logs")),
        *(("post", f"/v1/runs/{{run_id}}/{verb}") for verb in ("cancel", "rerun")),
    }


def test_every_operation_has_a_name_errors_and_security(described: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(described)]
    assert len(set(names)) == len(names)
    for path, method, operation in operations(described):
        codes = set(operation["responses"])
        assert {"401", "422", "500", "503"} <= codes, (path, method)
        assert ("404" in codes) == ("{" in path), (path, method)
        assert ("415" in codes) == ("requestBody" in operation), (path, method)
        assert operation["security"] == [{"token": []}]
        for code, response in operation["responses"].items():
            expected = {"application/problem+json"} if int(code) >= 400 else None
            assert expected is None or set(response["content"]) == expected
            assert response["description"]


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    def references(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            for name, value in node.items():
                if name == "$ref":
                    yield value
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    known = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    assert set(references(described)) <= known


def test_every_field_of_a_job_is_described(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    assert set(schemas["JobWrite"]["properties"]) == set(WRITTEN.fields) | WRITTEN.ignored
    assert schemas["JobWrite"]["required"] == ["name"]
    assert "required" not in schemas["JobPatch"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"schedule": "* * * * *", "retryOn": [1, "5xx"], "slaSec": 5, "tags": ["x"]},
        {"schedule": {"everySec": 5}, "command": ["a", "b"]},
        {"schedule": {"runAt": "2090-01-01T00:00:00Z"}, "startsAt": "2030-01-01T00:00:00Z"},
        {"payload": {"type": "http", "url": "http://x/", "headers": {"A": "b"}, "body": [1]}},
        {"payload": {"type": "task", "task": "chrono.echo", "kwargs": {"text": "x"}}},
    ],
    ids=str,
)
def test_what_is_written_and_answered_fits_the_document(
    api: APIClient, described: dict[str, Any], fields: dict[str, Any]
) -> None:
    body = job_definition(**fields)
    fits(described, "JobWrite", body)
    created = api.post("/v1/jobs", body, format="json")
    assert created.status_code == 201, created.content
    path = f"/v1/jobs/{created.json()['id']}"
    fits(described, "Job", created.json())
    fits(described, "JobWrite", created.json())
    api.post(f"{path}/trigger")
    fits(described, "Job", api.get(path).json())
    fits(described, "JobPage", api.get("/v1/jobs").json())
    fits(described, "JobVersionPage", api.get(f"{path}/versions").json())


@pytest.mark.django_db
def test_runs_that_are_answered_fit_the_document(api: APIClient, described: dict[str, Any]) -> None:
    run = make_run(make_job(retries=1))
    path = f"/v1/runs/{run.run_id}"
    finish_run(claim_run(run), "dead", reason="exit_code", exit_code=1, output=[1])
    fits(described, "RunDetail", api.get(path).json())
    fits(described, "RunDetail", api.post(f"{path}/rerun").json())
    claim_run(run)
    fits(described, "RunPage", api.get("/v1/runs").json())
    fits(described, "AttemptPage", api.get(f"{path}/attempts").json())
    fits(described, "Explanation", api.get(f"{path}/explain").json())
    fits(described, "Problem", api.get("/v1/runs/x").json())


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "command": "x", "timeoutSec": 0},
        {"name": "x", "command": []},
        {"name": "x", "payload": {"type": "soap"}},
        {"name": "x", "schedule": {"everySec": 0}},
        {"name": "x", "nope": 1},
        {"command": "x"},
        {"name": "x", "pool": "a b"},
    ],
    ids=str,
)
def test_the_document_refuses_what_is_refused(
    described: dict[str, Any], body: dict[str, Any]
) -> None:
    with pytest.raises(jsonschema.ValidationError):
        fits(described, "JobWrite", body)
