"""The bases of admin pages: unfold at run time, Django's own types for the type checker."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from chronoproject.adminkit.keyset import KeysetChangeList, LookaheadPaginator

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as UnfoldAdmin
else:  # unfold ships no types; its classes are Django's with another look
    from unfold.admin import ModelAdmin as UnfoldAdmin

M = TypeVar("M", bound=Model)
PER_PAGE = 100


def read_at(row: Model) -> datetime:
    """Return the database's time at which a list read the row; its query annotates it."""
    return cast("datetime", vars(row)["read_at"])


def actor_of(request: HttpRequest) -> str:
    """Return the name under which this user's acts are recorded."""
    return f"admin:{request.user.get_username()}"


class ChronoAdmin(UnfoldAdmin[M]):
    """What all our pages share."""

    list_per_page = PER_PAGE
    show_facets = admin.ShowFacets.NEVER
    list_filter_submit = True
    list_fullwidth = True


class ReadOnlyMixin:
    """A page to look at: rows are written by the services, never through a form."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401
        """Refuse."""
        return False


class KeysetAdmin(ChronoAdmin[M]):
    """A list over a table too large to count, paged by key."""

    show_full_result_count = False
    keyset: ClassVar[Sequence[str]] = ("-pk",)
    sortable_by: ClassVar[list[str] | tuple[str, ...]] = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ANN401
        """Page by key."""
        return KeysetChangeList

    def get_keyset(self, request: HttpRequest) -> Sequence[str]:
        """Return the order of the list, as order_by() takes it; its last column is unique."""
        return self.keyset

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Order by the key, so that a page is a range of an index."""
        return tuple(self.get_keyset(request))

    def get_paginator(
        self,
        request: HttpRequest,
        queryset: QuerySet[M],
        per_page: int,
        orphans: int = 0,
        allow_empty_first_page: bool = True,
    ) -> Paginator[M]:
        """Page without counting; the autocomplete look-ups come through here."""
        return LookaheadPaginator(queryset, per_page, orphans, allow_empty_first_page)

    def prepare_rows(self, rows: list[M]) -> None:
        """Load what the columns of this page need, in queries for the page and not for a row."""


class ReadOnlyKeysetAdmin(ReadOnlyMixin, KeysetAdmin[M]):
    """A large table to look at."""
