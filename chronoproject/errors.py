"""Families of errors, and how each is told to a client: application/problem+json (RFC 9457).

Services raise ChronoError families; `exception_handler` is the one place that renders them, and
whatever DRF, Django or the database raise, for the API. Anything else is a defect: Django logs it
and calls `server_error`.
"""

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar, NamedTuple

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import Error as DatabaseDriverError
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.request import UnreadablePostError
from django.views import defaults
from rest_framework import exceptions as drf

logger = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"
API_PREFIX = "/v1/"
UNAVAILABLE_RETRY_SEC = 5


class FieldError(NamedTuple):
    """One bad field of a request, named as the client wrote it."""

    field: str
    message: str


class ChronoError(Exception):
    """An error that a client caused or can act on; a family sets its status and kind."""

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    kind: ClassVar[str] = ""

    def __init__(
        self,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = [FieldError(*error) for error in errors]
        self.headers = dict(headers or {})


class BadRequest(ChronoError):
    """The request cannot be read at all."""

    status = HTTPStatus.BAD_REQUEST
    kind = "malformed-request"


class NotFound(ChronoError):
    """No such object, or another team's: the two are told alike."""

    status = HTTPStatus.NOT_FOUND
    kind = "not-found"


class Conflict(ChronoError):
    """The object's present state does not allow it."""

    status = HTTPStatus.CONFLICT
    kind = "conflict"


class PreconditionFailed(ChronoError):
    """If-Match names another version than the present one."""

    status = HTTPStatus.PRECONDITION_FAILED
    kind = "stale-version"


class BodyTooLarge(ChronoError):
    """The request's body is over CHRONO_MAX_BODY_BYTES."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    kind = "body-too-large"


class FieldErrors(ChronoError):
    """Fields that were refused, all of them at once."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY
    kind = "invalid-fields"

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        named = ", ".join(dict.fromkeys(field for field, _ in errors))
        super().__init__(f"Refused: {named}."[:500], errors=errors)


class TooManyRequests(ChronoError):
    """A quota or a rate is used up."""

    status = HTTPStatus.TOO_MANY_REQUESTS
    kind = "too-many-requests"


class Unavailable(ChronoError):
    """Something Chrono itself needs does not answer; the same request may succeed later."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    kind = "unavailable"


def problem(
    status: int,
    detail: str,
    *,
    kind: str = "",
    errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
    **members: object,
) -> JsonResponse:
    """Return a problem+json response; `members` are further members of the body."""
    body: dict[str, Any] = {
        "type": f"urn:chrono:problem:{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": printable(detail),
        "errors": [{"field": error.field, "message": printable(error.message)} for error in errors],
        **members,
    }
    return JsonResponse(body, status=int(status), headers=headers, content_type=PROBLEM_TYPE)


def printable(text: str) -> str:
    """Return words for a person, in which what a client sent cannot break a line or hide."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """Render what a view of the API raised; None hands a defect on to Django, which logs it."""
    if isinstance(exc, ChronoError):
        return problem(
            exc.status, exc.detail, kind=exc.kind, errors=exc.errors, headers=exc.headers
        )
    if isinstance(exc, drf.APIException):
        return _framework_problem(exc)
    if isinstance(exc, OperationalError | InterfaceError):
        return _database_problem(exc)
    if isinstance(exc, Http404):
        return problem(404, "There is no such object.", kind=NotFound.kind)
    if isinstance(exc, PermissionDenied):
        return problem(403, "Not allowed.", kind="forbidden")
    if isinstance(exc, RequestDataTooBig):
        return problem(413, "The body is too large.", kind=BodyTooLarge.kind)
    if isinstance(exc, SuspiciousOperation | UnreadablePostError):
        return problem(400, "The request could not be read.", kind=BadRequest.kind)
    return None


def _framework_problem(exc: drf.APIException) -> HttpResponse:
    headers = {}
    if auth_header := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = str(auth_header)
    if wait := getattr(exc, "wait", None):
        headers["Retry-After"] = str(math.ceil(wait))
    kinds = {400: BadRequest.kind, 401: "unauthenticated", 403: "forbidden", 404: NotFound.kind}
    return problem(
        exc.status_code, str(exc.detail), kind=kinds.get(exc.status_code, ""), headers=headers
    )


def _database_problem(exc: DatabaseDriverError) -> HttpResponse:
    """Tell that PostgreSQL is away, or too busy to answer within its time-outs."""
    logger.error("the database did not serve a request: %s", exc)
    return problem(
        503,
        "The database does not answer at the moment; try again.",
        kind=Unavailable.kind,
        headers={"Retry-After": str(UNAVAILABLE_RETRY_SEC)},
    )


# What Django calls outside of the API's views; urls.py names them as its handlers.


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django found suspicious, such as an unknown Host."""
    if not request.path.startswith(API_PREFIX):
        return defaults.bad_request(request, exception)
    return problem(400, "The request could not be read.", kind=BadRequest.kind)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a refusal raised outside of the API's views."""
    if not request.path.startswith(API_PREFIX):
        return defaults.permission_denied(request, exception)
    return problem(403, "Not allowed.", kind="forbidden")


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a path that nothing is mounted at."""
    if not request.path.startswith(API_PREFIX):
        return defaults.page_not_found(request, exception)
    return problem(404, "There is nothing at this path.", kind=NotFound.kind)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer a defect; Django has logged it with its traceback."""
    if not request.path.startswith(API_PREFIX):
        return defaults.server_error(request)
    cause = sys.exception()
    if isinstance(cause, OperationalError | InterfaceError):
        return _database_problem(cause)
    return problem(500, "Chrono failed on this request; it has been logged.", kind="internal")
