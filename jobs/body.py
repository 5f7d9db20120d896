"""A request's body: what PostgreSQL cannot hold is refused, then a kind checks it."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jobs.errors import FieldErrors
from jobs.fields import Invalid, Kind, shown_name

MAX_DEPTH = 32
MAX_ERRORS = 100
UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def check_body(kind: Kind, body: Any) -> Any:  # noqa: ANN401 - any JSON value in, its form out
    """Return a request's body in its stored form; raise FieldErrors naming each bad field."""
    if not isinstance(body, dict):
        raise FieldErrors([("body", "must be a JSON object")])
    if unstorable := _named(refuse_unstorable(body)):
        raise FieldErrors(unstorable)
    try:
        return kind(body)
    except Invalid as error:
        raise FieldErrors(_named(error.errors)) from None


def json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these members, for a JSON decoder; ValueError for a key given twice:
    nobody knows which of the two is meant."""
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the key {shown_name(twice)!r} stands twice in one object")
    return members


def _named(errors: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    named = ((path.removeprefix(".") or "body", message) for path, message in errors)
    return list(islice(named, MAX_ERRORS))


def refuse_unstorable(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Yield what PostgreSQL's text and jsonb cannot hold, wherever it stands in a JSON value."""
    if isinstance(value, str):
        if problem := unstorable_text(value):
            yield path, problem
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield path, "must be a finite number"
    elif isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            yield path, f"is nested more than {MAX_DEPTH} levels deep"
            return
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            below = f"{path}[{name}]" if isinstance(name, int) else f"{path}.{shown_name(name)}"
            if isinstance(name, str) and (problem := unstorable_text(name)):
                yield below, f"has a name that {problem}"
            yield from refuse_unstorable(item, below, depth + 1)


def unstorable_text(text: str) -> str:
    """Return why a text cannot be stored, "" if it can."""
    found = UNSTORABLE.search(text)
    if found is None:
        return ""
    if found[0] == "\0":
        return "must not contain the NUL character"
    return "must not contain half of a surrogate pair"
