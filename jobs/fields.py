"""Kinds of JSON values that a request may hold: pure checks that name the field, and their schema.

A kind is called with a decoded JSON value and returns it in its one stored form, or raises
Invalid with everything that is wrong below it. The same kinds make the OpenAPI schemas.
"""

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

MAX_NAME_SHOWN = 100
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9998, 12, 31, tzinfo=UTC)

Schema = dict[str, Any]


class Invalid(Exception):  # noqa: N818 - it never leaves this module's callers
    """What is wrong below a value: (path relative to it, message) pairs."""

    def __init__(self, message: str = "", *, errors: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.errors = list(errors) or [("", message)]


class Kind(Protocol):
    """A check of one value, and its JSON Schema."""

    def __call__(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value in its stored form; raise Invalid."""

    def schema(self) -> Schema:
        """Return the JSON Schema of what is accepted and read."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number in [minimum, maximum]."""

    minimum: int
    maximum: int

    def __call__(self, value: Any) -> int:  # noqa: ANN401
        """Accept 5 and, as JSON does, 5.0; no boolean, no text."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise Invalid("must be a whole number")
        if not self.minimum <= value <= self.maximum:
            raise Invalid(f"must be from {self.minimum} to {self.maximum}")
        return value

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number in [minimum, maximum]."""

    minimum: float
    maximum: float

    def __call__(self, value: Any) -> float:  # noqa: ANN401
        """Accept a number; no boolean, no text."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise Invalid("must be a number")
        if not self.minimum <= value <= self.maximum:
            raise Invalid(f"must be from {self.minimum:g} to {self.maximum:g}")
        return float(value)

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"type": "number", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Boolean:
    """true or false."""

    def __call__(self, value: Any) -> bool:  # noqa: ANN401
        """Accept a JSON boolean only."""
        if not isinstance(value, bool):
            raise Invalid("must be true or false")
        return value

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Text:
    """Text of a length; `pattern`, told as `pattern_in_words`, must match the whole of it."""

    minimum: int = 0
    maximum: int = 1000
    pattern: str = ""
    pattern_in_words: str = ""

    def __call__(self, value: Any) -> str:  # noqa: ANN401
        """Accept a JSON string only."""
        if not isinstance(value, str):
            raise Invalid("must be a string")
        if not value and self.minimum:
            raise Invalid("must not be empty")
        if not self.minimum <= len(value) <= self.maximum:
            raise Invalid(f"must have {self.minimum} to {self.maximum} characters")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise Invalid(self.pattern_in_words)
        return value

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        made: Schema = {"type": "string", "maxLength": self.maximum}
        if self.minimum:
            made["minLength"] = self.minimum
        if self.pattern:
            made["pattern"] = f"^{self.pattern}$"
        return made


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    words: Sequence[str]

    def __call__(self, value: Any) -> str:  # noqa: ANN401
        """Accept one of the words, as it is written."""
        if not isinstance(value, str) or value not in self.words:
            raise Invalid(f"must be one of {', '.join(self.words)}")
        return str(value)

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"type": "string", "enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Instant:
    """A time in ISO 8601 with its offset; its stored form is UTC with microseconds and Z."""

    def __call__(self, value: Any) -> str:  # noqa: ANN401
        """Accept a time that says which instant it is."""
        return instant_text(aware_instant(read_time(value)))

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True, slots=True)
class Nullable:
    """null, or another kind."""

    kind: Kind

    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        """Let null through."""
        return None if value is None else self.kind(value)

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return nullable_schema(self.kind.schema())


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one kind."""

    kind: Kind
    maximum: int
    minimum: int = 0

    def __call__(self, value: Any) -> list[Any]:  # noqa: ANN401
        """Check each item; errors are named [index]."""
        if not isinstance(value, list):
            raise Invalid("must be a list")
        if not self.minimum <= len(value) <= self.maximum:
            raise Invalid(f"must have {self.minimum} to {self.maximum} items")
        return collect((f"[{index}]", self.kind, item) for index, item in enumerate(value))

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        made: Schema = {"type": "array", "items": self.kind.schema(), "maxItems": self.maximum}
        return made | ({"minItems": self.minimum} if self.minimum else {})


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with names of one kind and values of another."""

    name: Kind
    kind: Kind
    maximum: int

    def __call__(self, value: Any) -> dict[str, Any]:  # noqa: ANN401
        """Check each name and value; errors are named .name."""
        if not isinstance(value, dict):
            raise Invalid("must be an object")
        if len(value) > self.maximum:
            raise Invalid(f"must have at most {self.maximum} members")
        paths = [f".{shown_name(name)}" for name in value]
        names = collect(zip(paths, [self.name] * len(value), value, strict=True))
        items = collect(zip(paths, [self.kind] * len(value), value.values(), strict=True))
        return dict(zip(names, items, strict=True))

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {
            "type": "object",
            "propertyNames": self.name.schema(),
            "additionalProperties": self.kind.schema(),
            "maxProperties": self.maximum,
        }


@dataclass(frozen=True, slots=True)
class Json:
    """Any JSON value, kept as it is."""

    description: str = ""

    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        """Accept everything that `refuse_unstorable` lets through."""
        return value

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        return {"description": self.description} if self.description else {}


_REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a record: its kind, its default (none: required) and its words."""

    kind: Kind
    default: Any = _REQUIRED
    description: str = ""

    @property
    def is_required(self) -> bool:
        """Whether the member must be given."""
        return self.default is _REQUIRED

    def schema(self) -> Schema:
        """Return the JSON Schema with default and description."""
        made = dict(self.kind.schema())
        if not self.is_required:
            made["default"] = self.default
        if self.description:
            made["description"] = self.description
        return made


@dataclass(frozen=True, slots=True)
class Record:
    """An object with known members; an unknown one is refused."""

    fields: Mapping[str, Field]
    ignored: frozenset[str] = field(default=frozenset())

    def __call__(self, value: Any) -> dict[str, Any]:  # noqa: ANN401
        """Check every member and fill in defaults; errors are named .member."""
        if not isinstance(value, dict):
            raise Invalid("must be an object")
        errors = [
            (f".{shown_name(name)}", "is not a field here")
            for name in value
            if name not in self.fields and name not in self.ignored
        ]
        cleaned: dict[str, Any] = {}
        for name, member in self.fields.items():
            if name not in value and member.is_required:
                errors.append((f".{name}", "is required"))
            elif name not in value:
                cleaned[name] = copy.deepcopy(member.default)
            else:
                try:
                    cleaned[name] = member.kind(value[name])
                except Invalid as error:
                    errors += [(f".{name}{path}", message) for path, message in error.errors]
        if errors:
            raise Invalid(errors=errors)
        return cleaned

    def schema(self) -> Schema:
        """Return the JSON Schema."""
        made: Schema = {
            "type": "object",
            "properties": {name: member.schema() for name, member in self.fields.items()},
            "additionalProperties": False,
        }
        required = [name for name, member in self.fields.items() if member.is_required]
        return made | ({"required": required} if required else {})


def collect(items: Iterable[tuple[str, Callable[[Any], Any], Any]]) -> list[Any]:
    """Apply each kind to its value; raise one Invalid that holds the errors of all."""
    cleaned: list[Any] = []
    errors: list[tuple[str, str]] = []
    for path, kind, value in items:
        try:
            cleaned.append(kind(value))
        except Invalid as error:
            errors += [(f"{path}{below}", message) for below, message in error.errors]
    if errors:
        raise Invalid(errors=errors)
    return cleaned


def read_time(value: Any) -> datetime:  # noqa: ANN401 - any JSON value
    """Return an ISO 8601 time within the years Chrono handles; naive if it has no offset."""
    if not isinstance(value, str) or not 10 <= len(value) <= 40:
        raise Invalid("must be a time such as 2030-01-31T08:00:00Z")
    try:
        time = datetime.fromisoformat(value)
        in_range = EARLIEST <= (time if time.tzinfo else time.replace(tzinfo=UTC)) <= LATEST
    except (ValueError, OverflowError):
        raise Invalid("must be a time such as 2030-01-31T08:00:00Z") from None
    if not in_range:
        raise Invalid(f"must lie between the years {EARLIEST.year} and {LATEST.year}")
    return time


def aware_instant(time: datetime) -> datetime:
    """Return a read time in UTC; refuse one without an offset."""
    if time.tzinfo is None:
        raise Invalid("has no offset; add Z or one such as +02:00")
    return time.astimezone(UTC)


def instant_text(instant: datetime) -> str:
    """Return an aware instant as the API writes it: UTC, microseconds, Z."""
    text = instant.astimezone(UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def optional_instant_text(instant: datetime | None) -> str | None:
    """Return an instant as the API writes it, null for none."""
    return None if instant is None else instant_text(instant)


def nullable_schema(schema: Schema) -> Schema:
    """Return a schema that also accepts null (OpenAPI 3.1's way)."""
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return schema | {"type": [schema["type"], "null"]}
    return {"oneOf": [schema, {"type": "null"}]}


def shown_name(name: str) -> str:
    """Return a member's name as it can stand in an error."""
    return name if len(name) <= MAX_NAME_SHOWN else f"{name[:MAX_NAME_SHOWN]}…"
