"""Query parameters as data: how each is read, and how OpenAPI tells it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from jobs.body import unstorable_text
from jobs.errors import FieldErrors
from jobs.fields import Invalid, Schema, aware_instant, read_time

MAX_LIMIT = 1000
DEFAULT_LIMIT = 100
MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Param:
    """A query parameter; with `is_many` it may be repeated, or hold a comma-separated list."""

    read: Callable[[str], Any]
    schema: Schema
    description: str = ""
    default: Any = None
    is_many: bool = False


def read_params(request: Request, params: Mapping[str, Param]) -> dict[str, Any]:
    """Return the value of each parameter; raise FieldErrors for bad and unknown ones."""
    given = request.query_params
    errors = [(name[:100], "is not a parameter here") for name in given if name not in params]
    values: dict[str, Any] = {}
    for name, param in params.items():
        texts = [text for text in given.getlist(name) if text]
        try:
            values[name] = _read(param, texts)
        except Invalid as error:
            errors += [(name, message) for _, message in error.errors]
    if errors:
        raise FieldErrors(errors)
    return values


def _read(param: Param, texts: list[str]) -> Any:  # noqa: ANN401 - whatever the parameter holds
    if param.is_many:
        return [param.read(word) for text in texts for word in text.split(",") if word]
    if not texts:
        return param.default
    if len(texts) > 1:
        raise Invalid("is given more than once")
    return param.read(texts[0])


def check_span(wanted: Mapping[str, Any]) -> None:
    """Raise FieldErrors when the parameter `to` lies before `from`."""
    if None not in (wanted["from"], wanted["to"]) and wanted["to"] < wanted["from"]:
        raise FieldErrors([("to", "is before from")])


def openapi_params(params: Mapping[str, Param]) -> list[OpenApiParameter]:
    """Return the parameters as OpenAPI tells them."""
    return [
        OpenApiParameter(
            name,
            type={"type": "array", "items": param.schema} if param.is_many else param.schema,
            description=param.description,
            explode=True if param.is_many else None,
            default=param.default,
        )
        for name, param in params.items()
    ]


def text_param(maximum: int, description: str, *, is_many: bool = False) -> Param:
    """Return a parameter that holds text."""

    def read(text: str) -> str:
        if len(text) > maximum:
            raise Invalid(f"must have at most {maximum} characters")
        if problem := unstorable_text(text):
            raise Invalid(problem)
        return text

    schema = {"type": "string", "maxLength": maximum}
    return Param(read, schema, description, default=None, is_many=is_many)


def choice_param(words: list[str], description: str, *, is_many: bool = False) -> Param:
    """Return a parameter that holds one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise Invalid(f"must be one of {', '.join(words)}")
        return text

    return Param(read, {"type": "string", "enum": words}, description, is_many=is_many)


def flag_param(description: str, *, default: bool | None = None) -> Param:
    """Return a parameter that holds true or false."""

    def read(text: str) -> bool:
        if text not in {"true", "false"}:
            raise Invalid("must be true or false")
        return text == "true"

    return Param(read, {"type": "boolean"}, description, default=default)


def integer_param(
    minimum: int, maximum: int, description: str, *, default: int | None = None
) -> Param:
    """Return a parameter that holds a whole number."""

    def read(text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            raise Invalid("must be a whole number")
        if len(digits) > MAX_DIGITS or not minimum <= int(text) <= maximum:
            raise Invalid(f"must be from {minimum} to {maximum}")
        return int(text)

    schema = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return Param(read, schema, description, default=default)


def instant_param(description: str) -> Param:
    """Return a parameter that holds a time with its offset."""

    def read(text: str) -> datetime:
        # an unescaped + of an offset reaches us as a blank
        return aware_instant(read_time(text[:11] + text[11:].replace(" ", "+")))

    return Param(read, {"type": "string", "format": "date-time"}, description)


LIMIT = integer_param(1, MAX_LIMIT, "how many results a page has", default=DEFAULT_LIMIT)
