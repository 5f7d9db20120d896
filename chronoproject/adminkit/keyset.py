"""Lists over tables too large to count: a page is the rows after a key, never an offset.

The cursor rides in Django's page parameter `p`, so every link that changes a filter drops it.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from django.contrib import messages
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import ValidationError
from django.core.paginator import Page, Paginator
from django.db import OperationalError, connection, transaction
from django.db.models import Field, Model, Q, QuerySet
from django.http import HttpRequest

from chronoproject.sql import sqlstate

LIST_TIMEOUT_MS = 5000
QUERY_CANCELED = "57014"
BACKWARD = "-"
TOO_SLOW = (
    "This search took longer than five seconds and was stopped."
    " Narrow it by job, team, status or time."
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a key; PostgreSQL sorts nulls last ascending, first descending."""

    name: str  # to filter by; it may lead over a row that belongs to this one alone
    field: "Field[Any, Any]"
    descending: bool

    def value_of(self, row: Model) -> object:
        """Return what the row has there."""
        return reduce(getattr, self.name.split("__"), row)

    def order(self, *, backward: bool) -> str:
        """Return the order_by() term, turned round for a page backward."""
        return self.name if self.descending == backward else f"-{self.name}"

    def equals(self, value: object) -> Q:
        """Return the condition that a row ties with `value`."""
        return Q(**{f"{self.name}__isnull": True}) if value is None else Q(**{self.name: value})

    def beyond(self, value: object, *, backward: bool) -> Q | None:
        """Return the condition that a row comes later than `value`; None when none can."""
        down = self.descending != backward
        if value is None:
            return Q(**{f"{self.name}__isnull": False}) if down else None
        condition = Q(**{f"{self.name}__{'lt' if down else 'gt'}": value})
        if self.field.null and not down:
            condition |= Q(**{f"{self.name}__isnull": True})
        return condition


def columns_of(model: type[Model], ordering: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns behind order_by() terms."""
    columns = []
    for term in ordering:
        *way, name = term.removeprefix("-").split("__")
        owner = reduce(_one_to_one, way, model)
        field = owner._meta.pk if name == "pk" else owner._meta.get_field(name)
        assert isinstance(field, Field)  # noqa: S101 - a key consists of columns
        path = "__".join([*way, field.attname])
        columns.append(Column(path, field, descending=term.startswith("-")))
    return tuple(columns)


def _one_to_one(model: type[Model], name: str) -> type[Model]:
    """Return the model of the rows that belong to one of `model` each; others would double it."""
    field = model._meta.get_field(name)
    assert field.one_to_one  # noqa: S101
    assert isinstance(field.related_model, type)  # noqa: S101
    return field.related_model


def beyond(columns: Sequence[Column], values: Sequence[object], *, backward: bool) -> Q:
    """Return the condition that a row comes after the key `values` in the order of `columns`."""
    condition, tied = Q(pk__in=[]), Q()
    for column, value in zip(columns, values, strict=True):
        step = column.beyond(value, backward=backward)
        if step is not None:
            condition |= tied & step
        tied &= column.equals(value)
    return condition


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins: after the row of this key, or before it when backward."""

    values: tuple[object, ...]
    backward: bool = False

    def encode(self) -> str:
        """Return the text that stands in the URL."""
        texts = [None if value is None else str(value) for value in self.values]
        packed = base64.urlsafe_b64encode(json.dumps(texts).encode()).decode().rstrip("=")
        return f"{BACKWARD if self.backward else ''}{packed}"

    @classmethod
    def decode(cls, text: str, columns: Sequence[Column]) -> "Cursor | None":
        """Return the cursor behind `text`, None when it is not one for these columns."""
        packed = text.removeprefix(BACKWARD)
        try:
            texts = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
            pairs = zip(columns, texts, strict=True)
            values = tuple(column.field.to_python(value) for column, value in pairs)
        except (ValueError, TypeError, binascii.Error, ValidationError):
            return None
        return cls(values, backward=text.startswith(BACKWARD))


@contextmanager
def time_limit() -> Iterator[None]:
    """Let the statements within take LIST_TIMEOUT_MS each, and no longer."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(LIST_TIMEOUT_MS)])
        yield


class KeysetPaginator(Paginator[Any]):
    """Stands where Django expects a paginator; a template with newer and older links."""

    template_name = "admin/chrono/keyset_pagination.html"

    @cached_property
    def count(self) -> int:
        """Return the rows at hand; the table is never counted."""
        return len(self.object_list)


class LookaheadPaginator(Paginator[Any]):
    """Numbered pages without a count: one row more than a page says whether another follows."""

    @cached_property
    def count(self) -> int:
        """Return a bound beyond every page, in place of a count."""
        return 10**9

    def page(self, number: int | str) -> Page[Any]:
        """Read the page and one row more."""
        valid = self.validate_number(number)
        bottom = (valid - 1) * self.per_page
        rows = list(self.object_list[bottom : bottom + self.per_page + 1])
        return LookaheadPage(rows, valid, self)


class LookaheadPage(Page[Any]):
    """A page that knows from its extra row whether there is a next one."""

    def __init__(self, rows: list[Any], number: int, paginator: Paginator[Any]) -> None:
        """Keep a page of the rows."""
        super().__init__(rows[: paginator.per_page], number, paginator)
        self.more = len(rows) > paginator.per_page

    def has_next(self) -> bool:
        """Return whether the extra row was there."""
        return self.more


class KeysetChangeList(ChangeList):
    """Django's change list with the page cut out by key."""

    is_keyset = True
    newer_url = older_url = first_url = ""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Remember the order: it is the key."""
        ordering = super().get_ordering(request, queryset)
        self.columns = columns_of(self.model, [str(term) for term in ordering])
        return ordering

    def get_results(self, request: HttpRequest) -> None:
        """Read one page and a row more; count nothing."""
        cursor = Cursor.decode(request.GET.get(PAGE_VAR, ""), self.columns)
        try:
            with time_limit():
                rows, has_newer, has_older = self._page(cursor)
                self.model_admin.prepare_rows(rows)  # type: ignore[attr-defined]
        except OperationalError as error:
            if sqlstate(error) != QUERY_CANCELED:
                raise
            messages.warning(request, TOO_SLOW)
            rows, has_newer, has_older = [], False, False
        self._link(rows, has_newer=has_newer, has_older=has_older)
        self.result_list = rows  # a list serves the templates
        self.result_count = len(rows) + (has_newer or has_older)
        self.full_result_count = self.result_count  # else the title tells a count
        self.show_result_count = self.show_admin_actions = True
        self.can_show_all, self.multi_page = True, False
        self.paginator = KeysetPaginator(rows, self.list_per_page)

    def _page(self, cursor: Cursor | None) -> tuple[list[Any], bool, bool]:
        if cursor is None:
            rows = list(self.queryset[: self.list_per_page + 1])
            return rows[: self.list_per_page], False, len(rows) > self.list_per_page
        order = [column.order(backward=cursor.backward) for column in self.columns]
        found = self.queryset.filter(beyond(self.columns, cursor.values, backward=cursor.backward))
        rows = list(found.order_by(*order)[: self.list_per_page + 1])
        more, rows = len(rows) > self.list_per_page, rows[: self.list_per_page]
        if not cursor.backward:
            return rows, True, more
        return (rows[::-1], True, True) if more else self._page(None)

    def _link(self, rows: list[Any], *, has_newer: bool, has_older: bool) -> None:
        if has_newer:
            self.first_url = self.get_query_string()
            self.newer_url = self._url(rows[0], backward=True) if rows else self.first_url
        if has_older:
            self.older_url = self._url(rows[-1], backward=False)

    def _url(self, row: Model, *, backward: bool) -> str:
        values = tuple(column.value_of(row) for column in self.columns)
        return self.get_query_string({PAGE_VAR: Cursor(values, backward=backward).encode()})
