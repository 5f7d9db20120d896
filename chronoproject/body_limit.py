"""A limit on what a request to the API may carry, whether or not it says how much that is."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from chronoproject.errors import API_PREFIX, BadRequest, BodyTooLarge, problem

DRAINED_BYTES = 4 * 1024 * 1024
CHUNK_BYTES = 64 * 1024


class BodyLimitMiddleware:
    """Refuses bodies over CHRONO_MAX_BODY_BYTES with 413, and makes chunked ones readable.

    A stated length is trusted only as a limit: Django's stream ends there. A chunked body states
    none, and Django would take it for empty; here it is read up to the limit. What is refused is
    read a while longer, for a client that still writes would see a reset instead of the answer.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep what answers the request."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, or refuse its body."""
        if request.path.startswith(API_PREFIX):
            try:
                self._take_body(request)
            except BodyTooLarge as error:
                return problem(error.status, error.detail, kind=error.kind)
            except OSError:
                return problem(400, "The body could not be read.", kind=BadRequest.kind)
        return self.get_response(request)

    def _take_body(self, request: HttpRequest) -> None:
        stream: Any = request.META.get("wsgi.input")
        limit = settings.CHRONO_MAX_BODY_BYTES
        if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
            if not request.META.get("wsgi.input_terminated"):
                raise OSError("this server does not decode chunked bodies")
            body = _read(stream, limit + 1)
            if len(body) > limit:
                _drain(stream, DRAINED_BYTES)
                raise BodyTooLarge(f"The body is over {limit} bytes.")
            request._stream = BytesIO(body)
            request.META["CONTENT_LENGTH"] = str(len(body))
        elif (stated := _stated_length(request)) > limit:
            _drain(stream, min(stated, DRAINED_BYTES))
            raise BodyTooLarge(f"The body is over {limit} bytes.")


def _stated_length(request: HttpRequest) -> int:
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return 0


def _read(stream: Any, limit: int) -> bytes:  # noqa: ANN401 - any WSGI input
    """Return what the stream holds, `limit` bytes at most; a read may return less than asked."""
    pieces, left = [], limit
    while left and (piece := stream.read(min(left, CHUNK_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _drain(stream: Any, limit: int) -> None:  # noqa: ANN401 - any WSGI input
    """Read on and forget, up to `limit` bytes."""
    while limit > 0 and (piece := stream.read(min(limit, CHUNK_BYTES))):
        limit -= len(piece)
