"""Pages by keyset: `next` holds an opaque cursor, the position of the page's last row."""

import base64
import json
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from rest_framework.request import Request

from jobs.api.params import Param
from jobs.fields import Invalid, aware_instant, instant_text, read_time

Row = TypeVar("Row")
MAX_CURSOR = 200


def cursor_param(read_position: Callable[[list[Any]], Any]) -> Param:
    """Return the `cursor` parameter; `read_position` makes the position of its parts."""

    def read(text: str) -> Any:  # noqa: ANN401 - whatever a position is
        try:
            if len(text) > MAX_CURSOR:
                raise Invalid
            parts = json.loads(base64.urlsafe_b64decode(text.encode("ascii") + b"=="))
            return read_position(parts)
        except (Invalid, ValueError, TypeError, LookupError, RecursionError):
            raise Invalid("is not a cursor; take it from `next` as it is") from None

    return Param(read, {"type": "string"}, "the position after which the page begins")


def time_and_id(parts: list[Any]) -> tuple[datetime, uuid.UUID]:
    """Read a position made of an instant and an id."""
    instant, identity = parts
    return aware_instant(read_time(instant)), uuid.UUID(identity)


def one_instant(parts: list[Any]) -> datetime:
    """Read a position that is an instant."""
    (instant,) = parts
    return aware_instant(read_time(instant))


def one_integer(parts: list[Any]) -> int:
    """Read a position that is a whole number."""
    (number,) = parts
    if not isinstance(number, int) or not 0 <= number < 2**31:
        raise Invalid
    return number


def page(
    request: Request,
    rows: Sequence[Row],
    limit: int,
    position_of: Callable[[Row], Sequence[Any]],
) -> tuple[Sequence[Row], str | None]:
    """Cut `rows`, of which one more than `limit` was asked for; return them and `next`."""
    if len(rows) <= limit:
        return rows, None
    shown = rows[:limit]
    parts = [_plain(part) for part in position_of(shown[-1])]
    cursor = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")
    query = [
        (name, value)
        for name, values in request.query_params.lists()
        for value in values
        if name != "cursor"
    ]
    target = f"{request.path}?{urlencode([*query, ('cursor', cursor)])}"
    return shown, request.build_absolute_uri(target)


def _plain(part: object) -> object:
    if isinstance(part, datetime):
        return instant_text(part)
    return str(part) if isinstance(part, uuid.UUID) else part
