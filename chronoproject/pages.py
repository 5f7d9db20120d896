"""Pages that span apps: the admin's first page."""

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
