"""Named SQL statements, read from <app>/sql/*.sql at import.

A file holds statements, each under a line `-- name: verb_object`; parameters are %(name)s.
"""

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper

P = ParamSpec("P")
R = TypeVar("R")

NAME_LINE = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
DEADLOCK, SERIALIZATION_FAILURE, LOCK_NOT_AVAILABLE = "40P01", "40001", "55P03"
RETRIED = frozenset({DEADLOCK, SERIALIZATION_FAILURE})


class Statement(NamedTuple):
    """One named statement; it runs on Django's connection of the calling thread."""

    name: str
    text: str

    def run(self, **params: Any) -> int:  # noqa: ANN401 - SQL parameters are of any type
        """Execute and return the number of rows the server reports."""
        with connection.cursor() as cursor:
            cursor.execute(self.text, params)
            return int(cursor.rowcount)

    def rows(self, **params: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - as above
        """Execute and return every row."""
        with connection.cursor() as cursor:
            cursor.execute(self.text, params)
            return list(cursor.fetchall())

    def dicts(self, **params: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as above
        """Execute and return every row by column name."""
        with connection.cursor() as cursor:
            cursor.execute(self.text, params)
            return _as_dicts(cursor)

    def value(self, **params: Any) -> Any:  # noqa: ANN401 - as above
        """Execute and return the first column of the first row, None when there is none."""
        with connection.cursor() as cursor:
            cursor.execute(self.text, params)
            row = cursor.fetchone()
        return None if row is None else row[0]


def array(values: Iterable[object]) -> str:
    """Return the values as PostgreSQL spells an array: for long ones, many times a list's speed.

    For numbers, ids, ISO 8601 instants and None: what needs no quoting. Cast it in the statement.
    """
    spelt = ("NULL" if value is None else str(value) for value in values)
    return "{" + ",".join(spelt) + "}"


def _as_dicts(cursor: CursorWrapper) -> list[dict[str, Any]]:
    columns = [column[0] for column in cursor.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def load(folder: Path) -> Mapping[str, Statement]:
    """Return the statements of every .sql file in `folder` by name; ValueError on a clash."""
    found: dict[str, Statement] = {}
    for path in sorted(folder.glob("*.sql")):
        pieces = NAME_LINE.split(path.read_text(encoding="utf-8"))
        for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
            if name in found:
                raise ValueError(f"{path}: statement {name} is already defined")
            found[name] = Statement(name, text.strip())
    return MappingProxyType(found)


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE behind a database error, "" when there is none."""
    return str(getattr(error.__cause__, "sqlstate", None) or "")


@contextmanager
def snapshot() -> Iterator[None]:
    """Let the block's statements read one state of the database; they may write nothing.

    Inside an outer transaction they see what that one sees.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def retrying(
    attempts: int = 5, *, savepoint: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Run the function in its own transaction, again after a deadlock or serialization failure.

    Inside an outer transaction it runs once: only the outermost can start again. With `savepoint`
    an exception undoes there what the function did, for callers who catch it and go on.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            if connection.in_atomic_block:
                with transaction.atomic() if savepoint else nullcontext():
                    return function(*args, **kwargs)
            for attempt in range(1, attempts + 1):
                try:
                    with transaction.atomic():
                        return function(*args, **kwargs)
                except OperationalError as error:
                    if sqlstate(error) not in RETRIED or attempt == attempts:
                        raise
                    time.sleep(random.uniform(0.005, 0.02) * attempt)  # noqa: S311 - spreads rivals
            raise AssertionError("unreachable")

        wrapper.__name__ = function.__name__
        wrapper.__doc__ = function.__doc__
        wrapper.__wrapped__ = function  # type: ignore[attr-defined]
        return wrapper

    return decorate
