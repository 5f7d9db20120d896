"""GET /v1/runs/{id}/logs: an attempt's output as text, live while it runs."""

from collections.abc import Iterator
from itertools import chain

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from jobs.api.openapi import operation
from jobs.api.params import flag_param, integer_param, read_params
from jobs.errors import NotFound, Unavailable
from runs import log_stream
from runs.api.views import RunView
from runs.log_follow import Follower, followed, place_of, stored

TEXT = "text/plain; charset=utf-8"
PARAMS = {
    "attempt": integer_param(1, 2**31 - 1, "of which attempt; default: the latest"),
    "offset": integer_param(0, 2**53, "the byte to begin with", default=0),
    "follow": flag_param("stay, and send what is written until the end", default=False),
}


class RunLogsView(RunView):
    """The output of one run's attempts."""

    @operation(
        "getLogs",
        "Read an attempt's output; with follow, until the run has ended",
        {200: {"type": "string"}},
        params=PARAMS,
        path=["run_id"],
        errors=[429],
        media_type="text/plain",
    )
    def get(self, request: Request, run_id: str) -> HttpResponseBase:
        """Stream the output."""
        wanted = read_params(request, PARAMS)
        run = self.run(run_id)
        place = place_of(run, wanted["attempt"])
        if wanted["attempt"] is not None and place is None:
            raise NotFound("The run has no such attempt.")
        pieces = begun(stored(place, wanted["offset"]))
        if wanted["follow"]:
            pieces = Follower(followed(run, wanted["attempt"], wanted["offset"]))
        return StreamingHttpResponse(pieces, content_type=TEXT)


def begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Fetch the first piece, while a store that does not answer can still be told by a status."""
    try:
        return chain([next(pieces, b"")], pieces)
    except log_stream.LogsUnavailableError as error:
        raise Unavailable("The log store does not answer.", headers={"Retry-After": "5"}) from error
