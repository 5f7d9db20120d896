"""The pages of other people's models, in our look: users, groups, results of operations."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django_celery_results.models import GroupResult, TaskResult

from chronoproject.adminkit.base import ChronoAdmin, ReadOnlyKeysetAdmin, read_at
from chronoproject.adminkit.display import clipped, column, elapsed, instant
from chronoproject.adminkit.filters import ChoicesDropdownFilter

if TYPE_CHECKING:
    from django.contrib.auth.forms import (
        AdminPasswordChangeForm,
        UserChangeForm,
        UserCreationForm,
    )
else:  # unfold ships no types
    from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

STATE_LABELS = {
    "SUCCESS": "success",
    "FAILURE": "danger",
    "STARTED": "info",
    "PENDING": "default",
    "RETRY": "warning",
    "REVOKED": "default",
}

admin.site.index_title = "Overview"

for model in (User, Group, TaskResult, GroupResult):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


@admin.register(User)
class UserAdmin(DjangoUserAdmin[User], ChronoAdmin[User]):
    """Who may sign in here."""

    form = UserChangeForm  # type: ignore[assignment]  # Django's stubs leave its model open
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ChronoAdmin[Group]):
    """Roles of those who may sign in."""


@admin.register(TaskResult)
class TaskResultAdmin(ReadOnlyKeysetAdmin[Any]):
    """What became of large operations that were handed to Celery."""

    list_display = ("state", "task_id", "task_name", "outcome", "began", "took", "worker")
    list_display_links = ("task_id",)
    list_filter = (("status", ChoicesDropdownFilter),)
    list_before_template = "admin/chrono/operations_note.html"
    search_fields = ("task_id",)
    search_help_text = "The id of an operation"
    keyset = ("-id",)
    actions = None
    fields = ("state", "task_id", "task_name", "outcome", "began", "took", "worker", "traceback")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Add the time of reading."""
        rows: QuerySet[Any] = super().get_queryset(request).annotate(read_at=Now())
        return rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find one by its id."""
        term = search_term.strip()
        return (queryset.filter(task_id=term) if term else queryset), False

    @column("state", label=STATE_LABELS)
    def state(self, result: Any) -> str:  # noqa: ANN401 - the package has no types
        """Return Celery's word for where it stands."""
        return str(result.status)

    @column("outcome")
    def outcome(self, result: Any) -> SafeString | str:  # noqa: ANN401
        """Return what it returned."""
        return clipped(str(result.result or ""))

    @column("began")
    def began(self, result: Any) -> SafeString | str:  # noqa: ANN401
        """Return when it began."""
        return instant(result.date_started or result.date_created, read_at(result))

    @column("took")
    def took(self, result: Any) -> str:  # noqa: ANN401
        """Return how long it took."""
        return elapsed(result.date_started, result.date_done)
