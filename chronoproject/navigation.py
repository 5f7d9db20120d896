"""The side bar of the admin, and the views of its list of runs."""

from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse


class Page(NamedTuple):
    """A page of the admin: its title, icon, URL's name, and who may see it."""

    title: str
    icon: str
    url_name: str
    permission: str = ""


class Elsewhere(NamedTuple):
    """A page of another service."""

    title: str
    icon: str
    url: str


GROUPS: tuple[tuple[str, tuple[Page | Elsewhere, ...]], ...] = (
    ("", (Page("Overview", "dashboard", "index"),)),
    (
        "What and when",
        (
            Page("Jobs", "event_repeat", "jobs_job_changelist", "jobs.view_job"),
            Page("Edges", "account_tree", "dag_dep_changelist", "dag.view_dep"),
            Page("Teams", "groups", "jobs_team_changelist", "jobs.view_team"),
            Page("Tokens", "key", "jobs_apitoken_changelist", "jobs.view_apitoken"),
        ),
    ),
    (
        "What happened",
        (
            Page("Runs", "play_circle", "runs_run_changelist", "runs.view_run"),
            Page("Attempts", "replay", "runs_runattempt_changelist", "runs.view_runattempt"),
            Page("Misfires", "event_busy", "runs_misfire_changelist", "runs.view_misfire"),
            Page("Alerts", "notifications", "runs_alert_changelist", "runs.view_alert"),
        ),
    ),
    (
        "Operations",
        (
            Page("Workers", "dns", "runs_worker_changelist", "runs.view_worker"),
            Page("Dispatch", "monitoring", "runs_figure_changelist", "runs.view_figure"),
            Page("Leases", "lock_clock", "runs_lease_changelist", "runs.view_lease"),
            Page("Pauses", "pause_circle", "jobs_pause_changelist", "jobs.view_pause"),
            Page("Versions", "history", "jobs_jobversion_changelist", "jobs.view_jobversion"),
            Page("Audit", "fact_check", "jobs_auditentry_changelist", "jobs.view_auditentry"),
            Page(
                "Large operations",
                "stacks",
                "django_celery_results_taskresult_changelist",
                "django_celery_results.view_taskresult",
            ),
        ),
    ),
    (
        "Elsewhere",
        (
            Elsewhere("Flower", "local_florist", settings.CHRONO_FLOWER_URL),
            Elsewhere("API (OpenAPI)", "api", "/v1/openapi.json"),
            Page("Users", "person", "auth_user_changelist", "auth.view_user"),
            Page("Groups", "group", "auth_group_changelist", "auth.view_group"),
        ),
    ),
)
RUN_VIEWS = ("", "dead", "live", "running", "queued", "retrying", "waiting", "succeeded")


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups, less what the user may not see."""
    groups = [
        (title, [_item(page) for page in pages if _may_see(request, page)])
        for title, pages in GROUPS
    ]
    return [
        {"title": title, "separator": bool(title), "items": items}
        for title, items in groups
        if items
    ]


def _may_see(request: HttpRequest, page: Page | Elsewhere) -> bool:
    needs = page.permission if isinstance(page, Page) else ""
    return not needs or request.user.has_perm(needs)


def _item(page: Page | Elsewhere) -> dict[str, Any]:
    if isinstance(page, Elsewhere):
        return {"title": page.title, "icon": page.icon, "link": page.url, "active": False}
    return {"title": page.title, "icon": page.icon, "link": reverse(f"admin:{page.url_name}")}


def tabs(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the views of the list of runs that an operator changes between."""
    chosen = request.GET.get("status", "")
    url = reverse("admin:runs_run_changelist")
    items = [
        {
            "title": name.capitalize() or "All",
            "link": f"{url}?status={name}" if name else url,
            "active": request.path == url and chosen == name,
        }
        for name in RUN_VIEWS
    ]
    return [{"models": ["runs.run"], "items": items}]
