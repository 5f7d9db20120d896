"""What the tests of the API say often."""

from typing import Any

from django.http import HttpResponse

PROBLEM = "application/problem+json"


def fields_of(response: Any) -> set[str]:  # noqa: ANN401 - the test client's response
    """Return the fields that a 422 names."""
    assert response.status_code == 422, response.content
    return {error["field"] for error in problem_of(response)["errors"]}


def problem_of(response: HttpResponse) -> dict[str, Any]:
    """Return a problem, once it has the form of one."""
    assert response.headers["Content-Type"] == PROBLEM
    body: dict[str, Any] = response.json()  # type: ignore[attr-defined]  # the test client's
    assert {"type", "title", "status", "detail", "errors"} <= body.keys()
    assert body["status"] == response.status_code
    return body
