"""Pages that span apps: the admin's first page and its navigation."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import OperationalError
from django.db.models import Prefetch
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse

from chronoproject.adminkit.base import read_at
from chronoproject.adminkit.display import EMPTY, instant, link
from chronoproject.adminkit.keyset import QUERY_CANCELED, time_limit
from chronoproject.sql import load, sqlstate
from jobs.models import Job
from runs import partitions
from runs.admin.common import job_url, run_url, runs_url
from runs.admin.fleet import BEATS_MISSED
from runs.models import Alert, RunFloor

SQL = load(Path(__file__).parent / "sql")
MOST = 1000
ALERTS_SHOWN = 15
LIVE_TABS = ("running", "queued", "retrying", "waiting", "succeeded")
OPENAPI = "/v1/openapi.json"


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add what an operator looks at first: bounded looks into partial indexes, no count."""
    if not request.user.has_perm("runs.view_run"):
        return context
    try:
        with time_limit():
            figures = _figures()
            alerts = _alerts()
    except OperationalError as error:
        if sqlstate(error) != QUERY_CANCELED:
            raise
        return context | {"chrono_slow": True}
    full = [table for table, holds in partitions.default_partition_rows().items() if holds]
    return context | {"figures": figures, "alerts": alerts, "default_rows": full}


def _figures() -> list[dict[str, str]]:
    floor = RunFloor.objects.values_list("floor", flat=True).first()
    found = SQL["figures"].dicts(
        floor=floor,
        most=MOST + 1,
        alive_sec=BEATS_MISSED * settings.CHRONO_HEARTBEAT_SEC + 1,
    )[0]
    workers, leases = (
        reverse("admin:runs_worker_changelist"),
        reverse("admin:runs_lease_changelist"),
    )
    return [
        _card("Running", found["running"], runs_url(status="running"), "info"),
        _card("Queued", found["queued"], runs_url(status="queued"), "primary"),
        _card("Waiting", found["waiting"], runs_url(status="waiting"), "default"),
        _card("Retrying", found["retrying"], runs_url(status="retrying"), "warning"),
        _card("Dead in 24 h", found["dead"], runs_url(status="dead"), "danger"),
        _card("Workers alive", found["workers"], workers, "success", bad=not found["workers"]),
        _card("Leases held", found["leases"], leases, "success", bad=not found["leases"]),
    ]


def _card(title: str, value: int, url: str, kind: str, *, bad: bool = False) -> dict[str, str]:
    shown = f"{MOST:,}+" if value > MOST else f"{value:,}"
    is_quiet = not value and not bad
    return {
        "title": title,
        "value": shown,
        "url": url,
        "kind": "danger" if bad else "quiet" if is_quiet else kind,
    }


def _alerts() -> dict[str, Any]:
    """Return the newest alerts; a dead run is one of them."""
    jobs = Prefetch("job", Job.objects.only("job_id", "name"))
    newest = Alert.objects.annotate(read_at=Now()).prefetch_related(jobs).order_by("-created_at")
    return {
        "title": "Newest alerts",
        "more_url": reverse("admin:runs_alert_changelist"),
        "headers": ["raised", "kind", "job", "what"],
        "rows": [
            [
                instant(alert.created_at, read_at(alert)),
                alert.kind,
                link(job_url(alert.job.job_id), alert.job.name) if alert.job else EMPTY,
                link(_about(alert), alert.message),
            ]
            for alert in newest[:ALERTS_SHOWN]
        ],
    }


def _about(alert: Alert) -> str:
    if alert.run_id:
        return run_url(alert.run_id)
    return reverse("admin:runs_alert_change", args=[alert.pk])


def tabs(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the views of the list of runs that an operator changes between."""
    chosen = request.GET.get("status", "")
    url = reverse("admin:runs_run_changelist")
    views = [
        ("", "All"),
        ("dead", "Dead"),
        ("live", "Live"),
        *((name, name.capitalize()) for name in LIVE_TABS),
    ]
    items = [
        {
            "title": title,
            "link": f"{url}?status={name}" if name else url,
            "active": request.path == url and chosen == name,
        }
        for name, title in views
    ]
    return [{"models": ["runs.run"], "items": items}]


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the side bar, less what the user may not see."""
    groups = [
        ("", [_page("Overview", "dashboard", "admin:index", "")]),
        (
            "What and when",
            [
                _page("Jobs", "event_repeat", "admin:jobs_job_changelist", "jobs.view_job"),
                _page("Edges", "account_tree", "admin:dag_dep_changelist", "dag.view_dep"),
                _page("Teams", "groups", "admin:jobs_team_changelist", "jobs.view_team"),
                _page("Tokens", "key", "admin:jobs_apitoken_changelist", "jobs.view_apitoken"),
            ],
        ),
        (
            "What happened",
            [
                _page("Runs", "play_circle", "admin:runs_run_changelist", "runs.view_run"),
                _page(
                    "Attempts", "replay", "admin:runs_runattempt_changelist", "runs.view_runattempt"
                ),
                _page(
                    "Misfires", "event_busy", "admin:runs_misfire_changelist", "runs.view_misfire"
                ),
                _page("Alerts", "notifications", "admin:runs_alert_changelist", "runs.view_alert"),
            ],
        ),
        (
            "Operations",
            [
                _page("Workers", "dns", "admin:runs_worker_changelist", "runs.view_worker"),
                _page("Leases", "lock_clock", "admin:runs_lease_changelist", "runs.view_lease"),
                _page("Pauses", "pause_circle", "admin:jobs_pause_changelist", "jobs.view_pause"),
                _page(
                    "Versions",
                    "history",
                    "admin:jobs_jobversion_changelist",
                    "jobs.view_jobversion",
                ),
                _page(
                    "Audit",
                    "fact_check",
                    "admin:jobs_auditentry_changelist",
                    "jobs.view_auditentry",
                ),
                _page(
                    "Large operations",
                    "stacks",
                    "admin:django_celery_results_taskresult_changelist",
                    "django_celery_results.view_taskresult",
                ),
            ],
        ),
        (
            "Elsewhere",
            [
                _elsewhere("Flower", "local_florist", settings.CHRONO_FLOWER_URL),
                _elsewhere("API (OpenAPI)", "api", OPENAPI),
                _page("Users", "person", "admin:auth_user_changelist", "auth.view_user"),
                _page("Groups", "group", "admin:auth_group_changelist", "auth.view_group"),
            ],
        ),
    ]
    allowed = [
        (title, [item for item in items if _may_see(request, item)]) for title, items in groups
    ]
    return [
        {"title": title, "separator": bool(title), "items": items}
        for title, items in allowed
        if items
    ]


def _page(title: str, icon: str, url_name: str, permission: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse(url_name), "needs": permission}


def _elsewhere(title: str, icon: str, url: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": url, "active": False}


def _may_see(request: HttpRequest, item: dict[str, Any]) -> bool:
    needs = item.pop("needs", "")
    return not needs or request.user.has_perm(needs)
