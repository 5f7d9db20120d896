"""What a job's page shows around the form."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from chronoproject.adminkit.display import clock, instant, link
from chronoproject.clock import db_now
from jobs.admin.extension import extension
from jobs.admin.words import (
    STATE_LABELS,
    payload_in_words,
    schedule_as_written,
    schedule_in_words,
    state_of,
)
from jobs.models import Job, JobVersion

VERSIONS_SHOWN = 10
Fact = tuple[str, SafeString | str]
FIELDSETS: list[tuple[str | None, dict[str, Any]]] = [
    (None, {"fields": [("owner", "name"), "description", "tags", "version"]}),
    (
        "When",
        {
            "classes": ["tab"],
            "fields": [
                ("schedule", "timezone"),
                ("run_at", "dst_policy"),
                ("every_sec", "anchor"),
                ("starts_at", "ends_at"),
                "enabled",
            ],
        },
    ),
    ("What", {"classes": ["tab"], "fields": ["command", "payload", "env"]}),
    (
        "Retries and time limits",
        {
            "classes": ["tab"],
            "fields": [
                ("timeout_sec", "kill_grace_sec"),
                ("max_retries", "retry_on"),
                ("backoff_base_sec", "backoff_factor"),
                ("backoff_max_sec", "backoff_jitter"),
            ],
        },
    ),
    (
        "After other jobs",
        {
            "classes": ["tab"],
            "fields": ["depends_on", ("trigger_rule", "dependency_timeout_sec")],
        },
    ),
    (
        "Limits and misfires",
        {
            "classes": ["tab"],
            "fields": [
                ("max_concurrency", "concurrency_policy"),
                "concurrency_key",
                ("misfire_policy", "misfire_grace_sec"),
                "max_catchup",
            ],
        },
    ),
    ("Where", {"classes": ["tab"], "fields": [("pool", "priority"), "sla_sec"]}),
]


def page_context(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Return what the template shows of a job besides its form."""
    panels = [
        {"title": panel.title, "template": panel.template, "before_form": panel.before_form}
        | dict(panel.context(request, job))
        for panel in extension.panels
    ]
    return {
        "job": job,
        "state": state_of(job),
        "state_label": STATE_LABELS[state_of(job)],
        "facts": _facts(job),
        "buttons": _buttons(request, job),
        "panels_before": [panel for panel in panels if panel["before_form"]],
        "panels_after": [panel for panel in panels if not panel["before_form"]],
        "versions_panel": _versions(request, job),
    }


def _facts(job: Job) -> list[list[Fact]]:
    """Return when it runs, and what it is."""
    now = db_now()
    when: list[Fact] = [
        ("Schedule", schedule_in_words(job)),
        ("As written", schedule_as_written(job)),
        ("Next run", instant(job.next.next_run_at if job.enabled else None, now, job.timezone)),
    ]
    facts: list[Fact] = [
        ("Runs", payload_in_words(job)),
        ("Job id", str(job.job_id)),
        ("Version", f"{job.version}, of {clock(job.updated_at)}"),
    ]
    if job.pause_reason and not job.enabled:
        facts.append(("Disabled because", job.pause_reason))
    if job.next.retry_at:
        facts.append(("Quarantined because", job.next.quarantine_reason))
        facts.append(("Tried again", instant(job.next.retry_at, now)))
    if job.deleted_at:
        facts.append(("Deleted", instant(job.deleted_at, now)))
    return [when, facts]


def _buttons(request: HttpRequest, job: Job) -> list[dict[str, str]]:
    """Return what this user may do to the job; each posts."""
    if job.deleted_at:
        return []
    user, buttons = request.user, []
    if user.has_perm("jobs.change_job"):
        verb = (
            ("disable", "Disable", "pause") if job.enabled else ("enable", "Enable", "play_arrow")
        )
        url = reverse(f"admin:jobs_job_{verb[0]}", args=[job.job_id])
        buttons.append({"url": url, "title": verb[1], "icon": verb[2]})
    return buttons + [
        {
            "url": reverse(button.url_name, args=[job.job_id]),
            "title": button.title,
            "icon": button.icon,
        }
        for button in extension.buttons
        if user.has_perm(button.permission)
    ]


def _versions(request: HttpRequest, job: Job) -> dict[str, Any] | None:
    """Return the newest versions as a panel."""
    if not request.user.has_perm("jobs.view_jobversion"):
        return None
    now = db_now()
    newest = JobVersion.objects.filter(job=job).defer("definition").order_by("-version")
    return {
        "title": "Versions",
        "more_url": f"{reverse('admin:jobs_jobversion_changelist')}?q={job.job_id}",
        "headers": ["version", "change", "by", "in force from"],
        "rows": [
            [
                _version_link(version),
                version.change,
                version.changed_by,
                instant(version.valid_from, now),
            ]
            for version in newest[:VERSIONS_SHOWN]
        ],
    }


def _version_link(version: JobVersion) -> SafeString:
    url = reverse("admin:jobs_jobversion_change", args=[version.pk])
    return link(url, f"v{version.version}")
