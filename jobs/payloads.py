"""What a run executes, as a definition writes it, and what a trigger may override of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx

from jobs.choices import JobKind
from jobs.fields import (
    Choice,
    Field,
    Integer,
    Invalid,
    Json,
    ListOf,
    MapOf,
    Nullable,
    Record,
    Schema,
    Text,
    collect,
)

# Linux passes no single argument or variable of 128 KiB or more.
MAX_WORD_BYTES = 120_000
MAX_WORDS = 1000
MAX_URL = 4096
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
FRAMING_HEADERS = frozenset({"content-length", "transfer-encoding", "connection"})
RESERVED_PREFIX = "CHRONO_"

ENV_NAME = Text(1, 200, r"[A-Za-z_][A-Za-z0-9_]*", "must be letters, digits and _, no digit first")
HEADER_NAME = Text(1, 200, r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", "must be a header's name")
HEADER_VALUE = Text(0, 8192, r"[\t\x20-\x7e\x80-\xff]*", "must not hold control or wide characters")
URL_TEXT = Text(1, MAX_URL, r"[^\s\x00-\x20\x7f]+", "must not hold blanks or control characters")
STATUS = Integer(100, 599)
STATUSES = r"[1-5]xx|(?P<first>[1-5][0-9][0-9])-(?P<last>[1-5][0-9][0-9])"
TASK_NAME = Text(1, 200, r"[A-Za-z0-9_.:-]+", "must be letters, digits, _ . : and -")


def _word(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if not isinstance(value, str):
        raise Invalid("must be a string")
    # what half a surrogate pair encodes to is refused elsewhere, by name
    if len(value.encode("utf-8", "surrogatepass")) > MAX_WORD_BYTES:
        raise Invalid(f"must have at most {MAX_WORD_BYTES} bytes")
    return value


@dataclass(frozen=True, slots=True)
class Command:
    """A string for /bin/sh -c, or a list of words that are run without a shell."""

    def __call__(self, value: Any) -> str | list[str]:  # noqa: ANN401
        """Accept what an exec can take."""
        if isinstance(value, str):
            if not value.strip():
                raise Invalid("must not be empty")
            return _word(value)
        if not isinstance(value, list):
            raise Invalid("must be a string for /bin/sh -c, or a list of words")
        if not 1 <= len(value) <= MAX_WORDS:
            raise Invalid(f"must have 1 to {MAX_WORDS} words")
        words: list[str] = collect((f"[{at}]", _word, word) for at, word in enumerate(value))
        if not words[0]:
            raise Invalid(errors=[("[0]", "must name a program")])
        return words

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        word = {"type": "string", "maxLength": MAX_WORD_BYTES}
        words = {"type": "array", "items": word, "minItems": 1, "maxItems": MAX_WORDS}
        return {"oneOf": [word | {"minLength": 1, "pattern": r"\S"}, words]}


def has_port(parts: SplitResult) -> bool:
    """Say whether a URL's port, if it names one, can be a port."""
    try:
        return parts.port != 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Url:
    """An http or https URL with a host."""

    def __call__(self, value: Any) -> str:  # noqa: ANN401
        """Accept a URL that an HTTP client can call."""
        url = URL_TEXT(value)
        try:
            parts = urlsplit(url)
            usable = parts.scheme in {"http", "https"} and parts.hostname
            if usable and not has_port(parts):
                port = parts.netloc.rpartition(":")[2]
                raise Invalid(f"has the port {port}, which is not within 1 to 65535")
            if usable:
                httpx.URL(url)  # what makes the call, and is stricter about hosts
        except ValueError:
            usable = False
        except httpx.InvalidURL as error:
            raise Invalid(f"cannot be called: {error}") from None
        if not usable:
            raise Invalid("must be an http:// or https:// URL with a host")
        return url

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"type": "string", "format": "uri", "pattern": "^https?://", "maxLength": MAX_URL}


@dataclass(frozen=True, slots=True)
class Headers:
    """Header names and their values; what frames the message is Chrono's to say."""

    def __call__(self, value: Any) -> dict[str, str]:  # noqa: ANN401
        """Accept headers that can be sent as they are."""
        headers: dict[str, str] = MapOf(HEADER_NAME, HEADER_VALUE, 100)(value)
        framing = [name for name in headers if name.lower() in FRAMING_HEADERS]
        if framing:
            raise Invalid(errors=[(f".{name}", "is set by Chrono") for name in framing])
        return headers

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return MapOf(HEADER_NAME, HEADER_VALUE, 100).schema()


@dataclass(frozen=True, slots=True)
class _Status:
    """One HTTP status, a class of them, or a range."""

    def __call__(self, value: Any) -> int | str:  # noqa: ANN401
        """Accept what the executor can compare a status with."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return STATUS(value)
        form = re.fullmatch(STATUSES, value) if isinstance(value, str) else None
        if form is None or (form["last"] and form["last"] < form["first"]):
            raise Invalid('must be a status, "2xx", a range such as "200-204", or a list of these')
        return form[0]

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        text = {"type": "string", "pattern": r"^[1-5](xx|\d\d-[1-5]\d\d)$"}
        return {"oneOf": [STATUS.schema(), text]}


@dataclass(frozen=True, slots=True)
class ExpectStatus:
    """HTTP statuses: one, a class ("2xx"), a range ("200-204"), or a list; null: any 2xx."""

    def __call__(self, value: Any) -> int | str | list[Any] | None:  # noqa: ANN401
        """Accept statuses that exist."""
        if value is None:
            return None
        if isinstance(value, list):
            some: list[Any] = ListOf(_Status(), 100, minimum=1)(value)
            return some
        return _Status()(value)

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        one = _Status().schema()["oneOf"]
        some = ListOf(_Status(), 100, minimum=1).schema()
        return {"oneOf": [*one, some, {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class Env:
    """Variables for the run's processes; the CHRONO_ names are Chrono's own."""

    def __call__(self, value: Any) -> dict[str, str]:  # noqa: ANN401
        """Accept names and values that an exec can take."""
        env: dict[str, str] = MapOf(ENV_NAME, Text(0, MAX_WORD_BYTES // 4), 200)(value)
        reserved = [name for name in env if name.startswith(RESERVED_PREFIX)]
        if reserved:
            raise Invalid(errors=[(f".{name}", "is set by Chrono") for name in reserved])
        return env

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return MapOf(ENV_NAME, Text(0, MAX_WORD_BYTES // 4), 200).schema()


BODY = Json("a string is sent as it is, any other value as JSON; null: no body")
ARGS = ListOf(Json(), 100)
KWARGS = MapOf(ENV_NAME, Json(), 100)

HTTP_CALL = Record(
    {
        "type": Field(Choice([JobKind.HTTP.value])),
        "url": Field(Url()),
        "method": Field(Nullable(Choice(METHODS)), None, "default: GET, or POST with a body"),
        "headers": Field(Headers(), {}),
        "body": Field(BODY, None),
        "expectStatus": Field(ExpectStatus(), None, "what counts as success; default: any 2xx"),
    }
)
TASK_CALL = Record(
    {
        "type": Field(Choice([JobKind.TASK.value])),
        "task": Field(TASK_NAME, description="the name under which the task is registered"),
        "args": Field(ARGS, []),
        "kwargs": Field(KWARGS, {}),
    }
)


@dataclass(frozen=True, slots=True)
class Payload:
    """An HTTP call or a registered Python task, told apart by `type`."""

    def __call__(self, value: Any) -> dict[str, Any]:  # noqa: ANN401
        """Accept one of the two, every default filled in."""
        if not isinstance(value, dict):
            raise Invalid('must be an object with a "type" of http or task')
        if value.get("type") == JobKind.HTTP:
            call = HTTP_CALL(value)
            call["method"] = call["method"] or ("GET" if call["body"] is None else "POST")
            return call
        if value.get("type") == JobKind.TASK:
            return TASK_CALL(value)
        raise Invalid(errors=[(".type", "must be one of http, task")])

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"oneOf": [HTTP_CALL.schema(), TASK_CALL.schema()]}


# What a trigger's payload may replace for its one run.
OVERRIDES: Mapping[JobKind, Record] = {
    JobKind.COMMAND: Record({"env": Field(Env(), {})}),
    JobKind.HTTP: Record({"body": Field(BODY, None), "headers": Field(Headers(), {})}),
    JobKind.TASK: Record({"args": Field(ARGS, []), "kwargs": Field(KWARGS, {})}),
}
