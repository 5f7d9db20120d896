"""Filters that an index can serve: exact text, and windows of time."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.db.models import Model, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

if TYPE_CHECKING:
    from django.contrib.admin import ChoicesFieldListFilter as ChoicesDropdownFilter
    from django.contrib.admin import RelatedFieldListFilter as AutocompleteSelectFilter
    from django.contrib.admin import SimpleListFilter as DropdownFilter
    from django.contrib.admin import SimpleListFilter as TextFilter
else:  # unfold ships no types
    from unfold.contrib.filters.admin import (
        AutocompleteSelectFilter,
        ChoicesDropdownFilter,
        DropdownFilter,
        TextFilter,
    )

__all__ = [
    "AutocompleteSelectFilter",
    "ChoicesDropdownFilter",
    "DropdownFilter",
    "ExactTextFilter",
    "TeamFilter",
    "TextFilter",
    "TimeWindowFilter",
]

ALL = "all"
SPANS: Mapping[str, timedelta] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
TITLES = {
    "1h": "the last hour",
    "24h": "the last 24 hours",
    "7d": "the last 7 days",
    ALL: "all that is kept",
}


class TeamFilter(AutocompleteSelectFilter):
    """Rows of a team; the column is called owner."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature
        super().__init__(*args, **kwargs)
        self.title = "team"


class ExactTextFilter(TextFilter):
    """Rows whose column equals the text."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Narrow when something was typed."""
        value = (self.value() or "").strip()
        return queryset.filter(**{str(self.parameter_name): value}) if value else queryset


class TimeWindowFilter(admin.ListFilter):
    """A window of `column`: the last hour, day or week, or from one instant to another (UTC).

    A window is what keeps a list to a few partitions, so there is one unless all is asked for.
    """

    title = "time"
    template = "admin/chrono/time_window.html"
    column = "scheduled_for"
    default = "24h"
    names = ("when", "from", "to")

    def __init__(
        self,
        request: HttpRequest,
        params: dict[str, Any],
        model: type[Model],
        model_admin: admin.ModelAdmin[Any],
    ) -> None:
        """Take our parameters out of `params`."""
        super().__init__(request, params, model, model_admin)
        for name in self.names:
            given = params.pop(name, None)
            value = given[-1] if isinstance(given, list) else given
            if value:
                self.used_parameters[name] = value
        self.request = request
        choose = getattr(model_admin, "default_window", None)
        self.default = choose(request) if choose else self.default

    def has_output(self) -> bool:
        """Show always."""
        return True

    def expected_parameters(self) -> list[str | None]:
        """Return the names we answer to."""
        return list(self.names)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Narrow to the window."""
        since, until = self._typed("from"), self._typed("to")
        if since or until:
            if since:
                queryset = queryset.filter(**{f"{self.column}__gte": since})
            return queryset.filter(**{f"{self.column}__lt": until}) if until else queryset
        length = SPANS.get(self.chosen)
        if length is None:
            return queryset
        return queryset.filter(**{f"{self.column}__gte": Now() - length})

    @property
    def chosen(self) -> str:
        """Return the preset in force, "" when instants were typed."""
        if "from" in self.used_parameters or "to" in self.used_parameters:
            return ""
        when = str(self.used_parameters.get("when", self.default))
        return when if when in TITLES else self.default

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """Yield the presets, then the two fields."""
        yield {
            "presets": [(key, TITLES[key], key == self.chosen) for key in TITLES],
            "since": self.used_parameters.get("from", ""),
            "until": self.used_parameters.get("to", ""),
        }

    @property
    def all_url(self) -> str:
        """Return the address of the same list without a window."""
        query = self.request.GET.copy()
        for name in ("from", "to", PAGE_VAR):
            query.pop(name, None)
        query["when"] = ALL
        return f"?{query.urlencode()}"

    def in_words(self) -> str:
        """Return the window for a sentence."""
        if self.chosen:
            return TITLES[self.chosen]
        since, until = self.used_parameters.get("from"), self.used_parameters.get("to")
        return " ".join(
            [*([f"from {since}"] if since else []), *([f"to {until}"] if until else []), "UTC"]
        )

    def _typed(self, name: str) -> datetime | None:
        text = self.used_parameters.get(name)
        if not text:
            return None
        try:
            return datetime.fromisoformat(str(text)).replace(tzinfo=UTC)
        except ValueError as error:
            raise IncorrectLookupParameters(f"{name}: {text} is no instant") from error
