"""The log of an attempt on admin pages: its tail, what came since, and all of it as text."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.urls import reverse

from runs import log_stream
from runs.admin.common import progress_text, run_query
from runs.models import Run, RunAttempt
from runs.states import LIVE

TAIL_BYTES = 64 * 1024
PIECE_BYTES = 256 * 1024
UNAVAILABLE = "The log store does not answer at the moment."


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a log: its text, where it begins and ends, and why there is none."""

    text: str
    start: int
    end: int
    problem: str = ""


def url(run: Run, attempt: int) -> str:
    """Return the address of an attempt's log."""
    return reverse("admin:runs_run_log", args=[run.run_id, attempt])


def ref_of(run: Run, attempt: int) -> str | None:
    """Return where the attempt's log is; None for an attempt that the run never had."""
    if attempt == run.attempt and run.claim_id:
        prefix = log_stream.log_prefix(run.scheduled_for, run.run_id, attempt, run.claim_id)
        return run.output_ref or prefix
    past = RunAttempt.objects.filter(
        run_id=run.run_id, attempt=attempt, scheduled_for=run.scheduled_for
    ).first()
    if past is not None:
        claim_id = past.run_attempt_id
        prefix = log_stream.log_prefix(run.scheduled_for, run.run_id, attempt, claim_id)
        return past.output_ref or prefix
    return run.output_ref if attempt == run.attempt else None


def tail(run: Run, attempt: int) -> Tail:
    """Return the end of an attempt's log."""
    ref = ref_of(run, attempt)
    if not ref:
        return Tail("", 0, 0)
    try:
        size = log_stream.size(ref)
        start = max(0, size - TAIL_BYTES)
        data = log_stream.read(ref, start, TAIL_BYTES)
    except log_stream.LogsUnavailableError:
        return Tail("", 0, 0, UNAVAILABLE)
    return Tail(text_of(data), start, start + len(data))


def text_of(data: bytes) -> str:
    """Return output as text; what is not UTF-8 shows as what it is not."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def status_view(request: HttpRequest, run_id: uuid.UUID) -> HttpResponseBase:
    """Answer where a run stands and what its log gained since `offset`, for the page's script."""
    run = _readable(request, run_id)
    attempt = _number(request.GET.get("attempt"), run.attempt)
    answer: dict[str, object] = {
        "status": run.status,
        "attempt": run.attempt,
        "isLive": run.status in LIVE,
        "progress": progress_text(run),
        "text": "",
        "end": _number(request.GET.get("offset"), 0),
        "problem": "",
    }
    ref = ref_of(run, attempt)
    if ref:
        try:
            data = log_stream.read(ref, int(str(answer["end"])), TAIL_BYTES)
        except log_stream.LogsUnavailableError:
            answer["problem"] = UNAVAILABLE
        else:
            answer |= {"text": text_of(data), "end": int(str(answer["end"])) + len(data)}
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})


def log_view(request: HttpRequest, run_id: uuid.UUID, attempt: int) -> HttpResponseBase:
    """Answer an attempt's whole log as text, piece by piece; only its tail with ?tail."""
    run = _readable(request, run_id)
    ref = ref_of(run, attempt)
    if ref is None:
        raise Http404("The run has no such attempt.")
    if "tail" in request.GET:
        end = tail(run, attempt)
        return _plain(HttpResponse(end.problem or end.text, status=503 if end.problem else 200))
    try:
        first = log_stream.read(ref, 0, PIECE_BYTES) if ref else b""
    except log_stream.LogsUnavailableError:
        return _plain(HttpResponse(UNAVAILABLE, status=503))
    return _plain(StreamingHttpResponse(_pieces(ref, first)))


def _pieces(ref: str, piece: bytes) -> Iterator[bytes]:
    offset = 0
    while piece:
        yield piece
        offset += len(piece)
        if len(piece) < PIECE_BYTES:
            return
        try:
            piece = log_stream.read(ref, offset, PIECE_BYTES)
        except log_stream.LogsUnavailableError:
            yield f"\n[chrono] {UNAVAILABLE}\n".encode()
            return


def _plain(response: HttpResponseBase) -> HttpResponseBase:
    """Let a browser show it as text whatever the job wrote."""
    response["Content-Type"] = "text/plain; charset=utf-8"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cache-Control"] = "no-store"
    return response


def _readable(request: HttpRequest, run_id: uuid.UUID) -> Run:
    if not request.user.has_perm("runs.view_run"):
        raise PermissionDenied
    found = run_query(run_id)
    run = None if found is None else found.first()
    if run is None:
        raise Http404("There is no such run.")
    return run


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else default
