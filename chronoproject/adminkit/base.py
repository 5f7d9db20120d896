"""The bases of admin pages: unfold at run time, Django's own types for the type checker."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.contrib.admin.widgets import AutocompleteMixin
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Field, ForeignKey, Model, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from chronoproject.adminkit.bulk import selected_keys
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


def is_key(field: "Field[Any, Any]", value: str) -> bool:
    """Say whether a posted value can be a key; Django's own pages fail on one that cannot."""
    try:
        field.to_python(value)
    except ValidationError:
        return False
    return True


def only_keys(widget: AutocompleteMixin) -> type[AutocompleteMixin]:
    """Return the widget's class, but that it looks up nothing that can be no key."""

    class OnlyKeys(type(widget)):  # type: ignore[misc]
        def optgroups(
            self, name: str, value: list[str], attr: dict[str, Any] | None = None
        ) -> list[Any]:
            key = self.field.target_field
            known = [one for one in value if one == "" or is_key(key, one)]
            return super().optgroups(name, known, attr)  # type: ignore[no-any-return]

    return OnlyKeys


class ChronoAdmin(UnfoldAdmin[M]):
    """What all our pages share."""

    list_per_page = PER_PAGE
    show_facets = admin.ShowFacets.NEVER
    list_filter_submit = True
    list_fullwidth = True

    def response_action(
        self,
        request: HttpRequest,
        queryset: QuerySet[M],
        *args: Any,  # noqa: ANN401 - Django's own
        **kwargs: Any,  # noqa: ANN401 - as above
    ) -> HttpResponse | None:
        """Refuse a selection with what cannot be the key of a row."""
        for value in selected_keys(request):
            if not is_key(self.opts.pk, value):
                messages.error(request, f"{value!r} is not the key of a row; nothing was done.")
                return HttpResponseRedirect(request.get_full_path())
        return super().response_action(request, queryset, *args, **kwargs)

    def formfield_for_foreignkey(
        self,
        db_field: "ForeignKey[Any, Any]",
        request: HttpRequest,
        **kwargs: Any,  # noqa: ANN401
    ) -> "ModelChoiceField[Any] | None":
        """Let a posted value that can be no key be told in the form."""
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if field is not None and isinstance(field.widget, AutocompleteMixin):
            field.widget.__class__ = only_keys(field.widget)
        return field


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
