"""The kinds of values that only a job's definition has: when it runs, after what, and retries."""

import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.fields import (
    Choice,
    Field,
    Instant,
    Integer,
    Invalid,
    ListOf,
    Nullable,
    Number,
    Record,
    Schema,
    Text,
    instant_text,
    read_time,
)

MAX_EVERY_SEC = 366 * 86_400
RETRY_WORDS = ("timeout", "exception", "connection", "1xx", "2xx", "3xx", "4xx", "5xx")
ALL = "all"


@dataclass(frozen=True, slots=True)
class LocalInstant:
    """A time with its offset, or a wall-clock time in the job's zone."""

    def __call__(self, value: Any) -> str:  # noqa: ANN401
        """Accept a time; one without an offset is resolved once the zone is known."""
        time = read_time(value).replace(microsecond=0)
        return instant_text(time) if time.tzinfo else time.isoformat()

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"type": "string", "description": "with an offset, or local to the job's timezone"}


RUN_AT = Record({"runAt": Field(LocalInstant(), description="the one instant to run at")})
INTERVAL = Record(
    {
        "everySec": Field(Integer(1, MAX_EVERY_SEC)),
        "anchor": Field(
            Nullable(Instant()), None, "ticks at anchor + k·everySec; default: the job's creation"
        ),
    }
)


@dataclass(frozen=True, slots=True)
class When:
    """A cron expression, one instant, or an interval."""

    def __call__(self, value: Any) -> str | dict[str, Any]:  # noqa: ANN401
        """Accept one of the forms; an expression is evaluated later, with its zone."""
        if isinstance(value, str):
            return Text(1, 1000)(value)
        if not isinstance(value, dict):
            raise Invalid('must be a cron expression, {"runAt"}, {"everySec", "anchor"} or null')
        _refuse_mixed(value)
        if "runAt" in value:
            return RUN_AT(value)
        interval = INTERVAL(value)
        if interval["anchor"]:
            anchor = datetime.fromisoformat(interval["anchor"])
            interval["anchor"] = instant_text(anchor.replace(microsecond=0))
        return interval

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        cron = {
            "type": "string",
            "minLength": 1,
            "maxLength": 1000,
            "description": "cron: 5 fields, or 6 with seconds first, or a macro such as @daily",
        }
        return {"oneOf": [cron, RUN_AT.schema(), INTERVAL.schema()]}


def _refuse_mixed(form: dict[str, Any]) -> None:
    """Refuse an object of neither form, or of both."""
    if "anchor" in form and "runAt" in form:
        raise Invalid(errors=[(".anchor", "is for everySec only; remove it")])
    if ("runAt" in form) != ("everySec" in form) or "anchor" in form:
        return
    verb = "are both given" if "runAt" in form else "are both missing"
    message = f"runAt and everySec {verb}; give exactly one"
    raise Invalid(errors=[(".runAt", message), (".everySec", message)])


EDGE = Record(
    {
        "jobId": Field(Text(1, 64)),
        "match": Field(Choice(["tick", "day"]), "tick"),
        "dayOffset": Field(Integer(-366, 366), 0),
    }
)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The id of an upstream job, or an object that says how its runs are matched."""

    def __call__(self, value: Any) -> dict[str, Any]:  # noqa: ANN401
        """Accept either form; the stored one is the object."""
        edge = EDGE({"jobId": value} if isinstance(value, str) else value)
        try:
            edge["jobId"] = str(uuid.UUID(edge["jobId"]))
        except ValueError:
            raise Invalid("is not the id of a job of the team") from None
        return edge

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"oneOf": [{"type": "string", "format": "uuid"}, EDGE.schema()]}


@dataclass(frozen=True, slots=True)
class RetryOn:
    """ "all", or the failures that are worth another attempt."""

    def __call__(self, value: Any) -> str | list[Any]:  # noqa: ANN401
        """Accept "all" or a list of exit codes, HTTP statuses and words."""
        if value == ALL:
            return ALL
        if not isinstance(value, list):
            raise Invalid(f'must be "all" or a list of numbers and {", ".join(RETRY_WORDS)}')
        items: list[Any] = ListOf(_retry_item, 100)(value)  # type: ignore[arg-type]
        return items

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        item = {"oneOf": [Integer(0, 599).schema(), Choice(RETRY_WORDS).schema()]}
        some = {"type": "array", "items": item, "maxItems": 100}
        return {"oneOf": [Choice([ALL]).schema(), some]}


def _retry_item(value: Any) -> int | str:  # noqa: ANN401
    return Choice(RETRY_WORDS)(value) if isinstance(value, str) else Integer(0, 599)(value)


@dataclass(frozen=True, slots=True)
class Name:
    """A job's name: one line that shows something."""

    def __call__(self, value: Any) -> str:  # noqa: ANN401
        """Accept text without control characters that is not all blanks."""
        name = Text(1, 200)(value)
        if re.search(r"[\x00-\x1f\x7f]", name):
            raise Invalid("must not hold control characters, such as a line break")
        if not name.strip(" "):
            raise Invalid("must not be blank")
        return name

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        line = r"[^\x00-\x1f\x7f]*"
        return Text(1, 200, rf"{line}[^\x00-\x20\x7f]{line}").schema()


BACKOFF = Record(
    {
        "baseSec": Field(Number(0, 604_800), 10.0, "the wait after the first failed attempt"),
        "factor": Field(Number(1, 100), 2.0, "each further wait is this much longer"),
        "maxSec": Field(Number(0, 604_800), 3600.0, "no wait is longer"),
        "jitter": Field(Number(0, 1), 0.1, "the part of a wait that is random"),
    }
)
DEFAULT_BACKOFF: dict[str, float] = BACKOFF({})
NAME = Name()
POOL = Text(1, 63, r"[A-Za-z0-9][A-Za-z0-9_-]*", "must be letters, digits, _ and -")
