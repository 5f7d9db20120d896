"""The filters of the list of jobs."""

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from chronoproject.adminkit.filters import DropdownFilter, ExactTextFilter
from jobs.models import Job


class StateFilter(DropdownFilter):
    """Where a job stands; deleted ones are hidden unless asked for."""

    title = "state"
    parameter_name = "state"
    conditions: dict[str, dict[str, Any]] = {
        "enabled": {"deleted_at__isnull": True, "enabled": True},
        "disabled": {"deleted_at__isnull": True, "enabled": False},
        "quarantined": {"deleted_at__isnull": True, "next__retry_at__isnull": False},
        "deleted": {"deleted_at__isnull": False},
    }

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        """Offer each state."""
        return [(name, name.capitalize()) for name in self.conditions]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        """Narrow."""
        condition = self.conditions.get(self.value() or "", {"deleted_at__isnull": True})
        return queryset.filter(**condition)


class PoolFilter(ExactTextFilter):
    """Jobs of a pool."""

    title = "pool"
    parameter_name = "pool"


class TagFilter(ExactTextFilter):
    """Jobs with a tag."""

    title = "tag"
    parameter_name = "tag"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:
        """Narrow when something was typed."""
        value = (self.value() or "").strip()
        return queryset.filter(tags__contains=[value]) if value else queryset
