"""Teams and their tokens."""

from typing import Any

from django.contrib import admin
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import ChronoAdmin, actor_of, read_at
from chronoproject.adminkit.bulk import act_on_each
from chronoproject.adminkit.display import column, instant, link
from chronoproject.adminkit.filters import AutocompleteSelectFilter, ChoicesDropdownFilter
from jobs import auth
from jobs.choices import TokenRole
from jobs.models import ApiToken, AuditEntry, Team

REVOKED, ALREADY_REVOKED = "revoked", "were revoked already"


@admin.register(Team)
class TeamAdmin(ChronoAdmin[Team]):
    """Teams; one that owns anything stays."""

    list_display = ("slug", "name", "created", "jobs", "tokens", "runs")
    search_fields = ("slug", "name")
    search_help_text = "Part of a team's name"
    fields = ("slug", "name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        """Add the time of reading."""
        return super().get_queryset(request).annotate(read_at=Now())

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401
        """Refuse: jobs, runs and tokens hang on it."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Team | None = None) -> list[str]:
        """Keep the slug: clients and dashboards name the team by it."""
        return ["slug"] if obj else []

    @column("created", ordering="created_at")
    def created(self, team: Team) -> SafeString | str:
        """Return when it was made."""
        return instant(team.created_at, read_at(team))

    @column("jobs")
    def jobs(self, team: Team) -> SafeString:
        """Link to its jobs."""
        return _of_team("admin:jobs_job_changelist", team, "jobs")

    @column("tokens")
    def tokens(self, team: Team) -> SafeString:
        """Link to its tokens."""
        url = reverse("admin:jobs_apitoken_changelist")
        return link(f"{url}?team__team_id__exact={team.pk}", "tokens")

    @column("runs")
    def runs(self, team: Team) -> SafeString:
        """Link to its runs."""
        return _of_team("admin:runs_run_changelist", team, "runs")


def _of_team(url_name: str, team: Team, text: str) -> SafeString:
    return link(f"{reverse(url_name)}?owner__team_id__exact={team.pk}", text)


@admin.register(ApiToken)
class ApiTokenAdmin(ChronoAdmin[ApiToken]):
    """Tokens: the secret is shown once, when one is made; only its hash is kept."""

    list_display = ("name", "team", "prefix", "role", "state", "created", "last_used")
    list_filter = (("team", AutocompleteSelectFilter), ("role", ChoicesDropdownFilter))
    list_select_related = ("team",)
    search_fields = ("name", "prefix")
    search_help_text = "A token's name, or how it begins"
    autocomplete_fields = ("team",)
    fields = ("team", "name", "role")
    actions = ("revoke_selected",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        """Add the time of reading."""
        return super().get_queryset(request).annotate(read_at=Now())

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401
        """Refuse: a token is made and revoked, never altered."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401
        """Refuse: a revoked token stays, as a record."""
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Let those revoke who may change tokens."""
        return request.user.has_perm("jobs.change_apitoken")

    def save_model(
        self,
        request: HttpRequest,
        obj: ApiToken,
        form: ModelForm[ApiToken],
        change: Any,  # noqa: ANN401 - Django's signature
    ) -> None:
        """Make the token; its secret lives until the answer is written."""
        made, secret = auth.token_create(obj.team, obj.name, role=TokenRole(obj.role))
        _record(request, "create", made)
        vars(obj).update(vars(made))
        request.chrono_secret = secret  # type: ignore[attr-defined]

    def response_add(
        self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the secret, this once: it is in no message, session or log."""
        context = {
            **self.admin_site.each_context(request),
            "title": "Token made",
            "opts": self.opts,
            "token": obj,
            "secret": request.chrono_secret,  # type: ignore[attr-defined]
        }
        response = TemplateResponse(request, "admin/jobs/apitoken/made.html", context)
        response["Cache-Control"] = "no-store"
        return response

    @admin.action(description="Revoke the selected tokens", permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """Revoke at once: the next request with such a token is refused."""

        def revoke(token: ApiToken) -> str:
            alive = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True)
            with transaction.atomic():
                if not alive.update(revoked_at=Now()):
                    return ALREADY_REVOKED
                _record(request, "revoke", token)
            return REVOKED

        act_on_each(request, queryset.select_related("team"), revoke, done=[REVOKED])

    @column("state", label={"active": "success", "revoked": "danger"})
    def state(self, token: ApiToken) -> str:
        """Return whether it opens anything."""
        return "revoked" if token.revoked_at else "active"

    @column("created", ordering="created_at")
    def created(self, token: ApiToken) -> SafeString | str:
        """Return when it was made."""
        return instant(token.created_at, read_at(token))

    @column("last used", ordering="last_used_at")
    def last_used(self, token: ApiToken) -> SafeString | str:
        """Return when it was used last."""
        return instant(token.last_used_at, read_at(token))


def _record(request: HttpRequest, action: str, token: ApiToken) -> None:
    AuditEntry.objects.create(
        owner=token.team,
        actor=actor_of(request),
        action=f"token_{action}",
        object_type="token",
        object_id=str(token.pk),
        detail={"name": token.name, "prefix": token.prefix, "role": token.role},
    )
