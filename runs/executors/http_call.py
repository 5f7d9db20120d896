"""Executes HTTP calls: the response decides the outcome and is kept as output."""

import json
import logging
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import httpx

from runs import slots
from runs.executors import interrupt
from runs.executors.base import Log, Outcome, Work, ended_outcome, note
from runs.executors.http_guard import AddressRefusedError, AllowList, GuardedTransport
from runs.pool_child import PoolChild

logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each call is the run's log

CONNECT_TIMEOUT_SEC = 10.0
MAX_REDIRECTS = 10
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_OUTPUT_BYTES = 16 * 1024
KEPT_HEADERS = ("content-type", "content-length", "date", "location", "retry-after", "server")
DEFAULT_EXPECTED = "2xx"


def identity_headers(work: Work) -> dict[str, str]:
    """Return the headers that tell the called service which run this is."""
    named = {
        "-".join(part.capitalize() for part in name.split("_")): value
        for name, value in work.identity().items()
    }
    return {**named, "Idempotency-Key": str(work.run_id)}


def is_expected(status: int, expected: object) -> bool:
    """Say whether a status meets expectStatus: a number, "2xx", "200-204", or a list of such."""
    if expected is None:
        expected = DEFAULT_EXPECTED
    if isinstance(expected, list):
        return any(is_expected(status, item) for item in expected)
    if isinstance(expected, int):
        return status == expected
    text = str(expected).strip().lower()
    first, dash, last = text.partition("-")
    if dash:
        return int(first) <= status <= int(last)
    if text.endswith("xx"):
        return status // 100 == int(text[:-2])
    return status == int(text)


def retry_after_sec(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that Retry-After asks for; a date counts from the response's own Date."""
    value = headers.get("retry-after", "").strip()
    if value.isdigit():
        return float(value)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError):
        return None
    return max(0.0, wait.total_seconds())


def new_client(allowed: AllowList) -> httpx.Client:
    """Return a client that shares connections between runs, but no cookie, and asks no proxy."""
    return httpx.Client(
        transport=GuardedTransport(allowed),
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        follow_redirects=True,
        max_redirects=MAX_REDIRECTS,
        trust_env=False,
        headers={"User-Agent": "Chrono"},
    )


class HttpExecutor:
    """Makes a call and judges its answer."""

    def __init__(self, child: PoolChild, allowed: AllowList) -> None:
        self.child = child
        self.allowed = allowed
        self._client: httpx.Client | None = None

    def execute(self, work: Work, log: Log) -> Outcome:
        """Make the call, within the limits of the run."""
        with self.child.executing(work) as place:
            cause = self.child.end_cause(place)
            if cause != slots.CAUSE_NONE:
                return ended_outcome(cause, work)
            armed = interrupt.Armed(place.entry, place.record, self.child.share.table.fence_ns)
            try:
                with interrupt.interruptible(armed):
                    return self._call(work, log)
            except interrupt.RunInterrupted as error:
                self.close()  # its connection may hold half an answer
                return ended_outcome(error.cause, work)

    def close(self) -> None:
        """Give the connections back; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _call(self, work: Work, log: Log) -> Outcome:
        if self._client is None:
            self._client = new_client(self.allowed)
        started = time.monotonic()
        where = f"{work.payload.get('method') or 'GET'} {shown(str(work.payload.get('url')))}"
        try:
            request = self._request(self._client, work)
            response = self._client.send(request, stream=True)
            try:
                body = self._read(response, log, until=started + work.timeout_sec)
            finally:
                response.close()
        except httpx.TransportError as error:
            return failed_call(error, where, log)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError) as error:
            note(log, f"{where}: {error}")
            return Outcome("failed", reason="definition", error=f"{where}: {error}")
        duration = time.monotonic() - started
        note(log, f"{where}: {response.status_code} after {duration:.3f} s")
        return judged(response, body, duration, work.payload.get("expectStatus"), where)

    def _request(self, client: httpx.Client, work: Work) -> httpx.Request:
        payload = work.payload
        given = payload.get("headers") or {}
        headers = httpx.Headers({str(name): str(value) for name, value in given.items()})
        body, content = payload.get("body"), None
        if isinstance(body, str):
            content = body.encode()
        elif body is not None:
            content = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        headers.update(identity_headers(work))
        url = str(payload["url"])
        if urlsplit(url).scheme not in {"http", "https"}:
            raise ValueError("url: only http and https are called")
        timeout = httpx.Timeout(
            work.timeout_sec, connect=min(CONNECT_TIMEOUT_SEC, work.timeout_sec)
        )
        return client.build_request(
            str(payload.get("method") or "GET").upper(),
            url,
            headers=headers,
            content=content,
            timeout=timeout,
        )

    def _read(self, response: httpx.Response, log: Log, *, until: float) -> bytes:
        """Carry the body into the log and return its beginning."""
        kept = bytearray()
        size = 0
        for piece in response.iter_bytes():
            log.write(piece)
            size += len(piece)
            if len(kept) < MAX_OUTPUT_BYTES:
                kept += piece
            if size > MAX_BODY_BYTES:
                note(log, f"the response is longer than {MAX_BODY_BYTES} bytes; the rest is left")
                break
            if time.monotonic() > until:
                raise httpx.ReadTimeout("the answer takes longer than the run may")
        if size:
            log.write(b"\n")
        return bytes(kept)


def shown(url: str) -> str:
    """Return a URL without its user, password and query, fit for a log line."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def failed_call(error: httpx.TransportError, where: str, log: Log) -> Outcome:
    """Return the outcome of a call that got no whole answer."""
    text = f"{where}: {error or type(error).__name__}"
    note(log, text)
    if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
        return Outcome("timeout", reason="timeout", error=text)
    is_refused = isinstance(error.__cause__, AddressRefusedError)
    return Outcome("failed", reason="address_refused" if is_refused else "connection", error=text)


def judged(
    response: httpx.Response, body: bytes, duration: float, expected: object, where: str
) -> Outcome:
    """Return the outcome that a whole answer means."""
    status = response.status_code
    output: dict[str, Any] = {
        "status": status,
        "durationSec": round(duration, 6),
        "headers": {
            name: response.headers[name] for name in KEPT_HEADERS if name in response.headers
        },
        "body": readable(body, response.headers.get("content-type", "")),
    }
    if is_expected(status, expected):
        return Outcome("succeeded", output=output, http_status=status)
    return Outcome(
        "failed",
        reason="http_status",
        error=f"{where}: status {status}",
        output=output,
        http_status=status,
        retry_after_sec=retry_after_sec(response.headers),
    )


def readable(body: bytes, content_type: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the body as a JSON value: parsed where it says so and is short, else its beginning."""
    if "json" in content_type and len(body) <= MAX_OUTPUT_BYTES:
        try:
            return json.loads(body)
        except ValueError:
            pass  # it only says so
    # PostgreSQL's jsonb holds every character but NUL.
    return body[:MAX_OUTPUT_BYTES].decode(errors="replace").replace("\0", "\ufffd")
