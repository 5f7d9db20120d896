"""What an operator does to runs: cancel, re-run; and trigger a job."""

import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.urls import URLPattern, path
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from chronoproject.adminkit.base import actor_of
from chronoproject.adminkit.bulk import (
    act_on_each,
    busy_told,
    hand_over,
    is_across,
    selected_keys,
    selection,
)
from chronoproject.adminkit.display import link
from chronoproject.errors import ChronoError, Conflict
from jobs.admin.extension import Button, extension
from jobs.models import Job
from runs import operations, services
from runs.admin import logs
from runs.admin.common import job_url, run_url
from runs.admin.run_filters import uuid_of
from runs.admin.run_page import RunPage
from runs.ids import millisecond_of
from runs.models import Run
from runs.states import TERMINAL, RunStatus

LINKS_SHOWN = 10
OPERATE, TRIGGER = "runs.change_run", "runs.add_run"
CANCELLED, ASKED, FINISHED = "cancelled", "running and asked to stop", "were already finished"
AGAIN, NOT_ENDED, OF_DELETED = "running again", "have not ended yet", "belong to a deleted job"


def send(action: str, actor: str) -> Callable[[list[Any]], str]:
    """Return what hands the keys to a Celery operation and tells its id."""
    return lambda keys: str(operations.hand_over(action, keys, actor).id)


def cancel(run: Run, actor: str) -> str:
    """Cancel a run and say what became of it."""
    try:
        after = services.run_cancel(run, actor=actor)
    except Conflict:
        return FINISHED
    return CANCELLED if after.status == RunStatus.CANCELLED else ASKED


def rerun(run: Run, actor: str) -> str:
    """Run an ended run again and say what became of it."""
    try:
        services.run_rerun(run, actor=actor)
    except Conflict:
        return OF_DELETED if run.status in TERMINAL else NOT_ENDED
    return AGAIN


class RunActions(RunPage):
    """The verbs of a run's page and of the list."""

    actions = ("cancel_selected", "rerun_selected")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Let those operate runs who may change them."""
        return request.user.has_perm(OPERATE)

    # --- the list -------------------------------------------------------------------------

    @admin.action(description="Cancel the selected runs", permissions=["operate"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Cancel few at once, many by an operation."""
        chosen = selection(narrowed(request, queryset))
        actor = actor_of(request)
        if chosen.is_large:
            hand_over(request, send("cancel", actor), chosen, "runs")
            return
        runs = Run.objects.filter(pk__in=chosen.keys)
        act_on_each(
            request,
            pruned(runs, chosen.keys),
            lambda run: cancel(run, actor),
            done=[CANCELLED, ASKED],
        )

    @admin.action(description="Run the selected runs again", permissions=["operate"])
    def rerun_selected(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Re-run few at once, many by an operation."""
        chosen = selection(narrowed(request, queryset))
        actor = actor_of(request)
        if chosen.is_large:
            hand_over(request, send("rerun", actor), chosen, "runs")
            return
        runs = Run.objects.filter(pk__in=chosen.keys)
        act_on_each(request, pruned(runs, chosen.keys), lambda run: rerun(run, actor), done=[AGAIN])

    # --- one run --------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        """Add what the page's buttons post to, and its log."""
        wrap = self.admin_site.admin_view
        return [
            path("<uuid:run_id>/cancel/", wrap(self.cancel_view), name="runs_run_cancel"),
            path("<uuid:run_id>/rerun/", wrap(self.rerun_view), name="runs_run_rerun"),
            path("trigger/<uuid:job_id>/", wrap(self.trigger_view), name="runs_job_trigger"),
            path("<uuid:run_id>/status/", wrap(logs.status_view), name="runs_run_status"),
            path("<uuid:run_id>/log/<int:attempt>/", wrap(logs.log_view), name="runs_run_log"),
            *super().get_urls(),
        ]

    def cancel_view(self, request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
        """Cancel one run."""
        return self._act(request, run_id, cancel, done=[CANCELLED, ASKED])

    def rerun_view(self, request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
        """Run one run again."""
        return self._act(request, run_id, rerun, done=[AGAIN])

    def _act(
        self,
        request: HttpRequest,
        run_id: uuid.UUID,
        act: Callable[[Run, str], str],
        *,
        done: Sequence[str],
    ) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_operate_permission(request):
            raise PermissionDenied
        run = self.get_object(request, str(run_id))
        if run is None:
            raise Http404("There is no such run.")
        actor = actor_of(request)
        act_on_each(request, [run], lambda one: act(one, actor), done=done)
        return HttpResponseRedirect(run_url(run_id))

    def trigger_view(self, request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
        """Make a run of a job now, and show it."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not request.user.has_perm(TRIGGER):
            raise PermissionDenied
        job = Job.objects.filter(job_id=job_id, deleted_at__isnull=True).first()
        if job is None:
            raise Http404("There is no such job.")
        try:
            with busy_told():
                run = services.run_trigger(job, actor=actor_of(request))
        except ChronoError as refused:
            messages.error(request, refused.detail)
            return HttpResponseRedirect(job_url(job_id))
        messages.success(request, "Triggered: this is its run.")
        return HttpResponseRedirect(run_url(run.run_id))


def narrowed(request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
    """Cut what was ticked down to the partitions that its ids name."""
    if is_across(request):
        return queryset
    ids = [found for text in selected_keys(request) if (found := uuid_of(text))]
    return pruned(queryset, ids)


def pruned(queryset: QuerySet[Run], ids: Sequence[Any]) -> QuerySet[Run]:
    """Cut to the span of time that the ids name; a run_id begins with its milliseconds."""
    if not ids:
        return queryset.none()
    instants = [millisecond_of(run_id) for run_id in ids]
    return queryset.filter(
        scheduled_for__gte=min(instants),
        scheduled_for__lt=max(instants) + timedelta(milliseconds=1),
    )


@admin.action(description="Trigger the selected jobs", permissions=["trigger"])
def trigger_selected(
    model_admin: admin.ModelAdmin[Job], request: HttpRequest, queryset: QuerySet[Job]
) -> None:
    """Trigger few at once, many by an operation."""
    actor = actor_of(request)
    chosen = selection(queryset.filter(deleted_at__isnull=True))
    if chosen.is_large:
        hand_over(request, send("trigger", actor), chosen, "jobs")
        return

    made: list[SafeString] = []

    def trigger(job: Job) -> str:
        run = services.run_trigger(job, actor=actor)
        made.append(link(run_url(run.run_id), job.name))
        return "triggered"

    act_on_each(request, Job.objects.filter(pk__in=chosen.keys), trigger, done=["triggered"])
    if made:
        links = format_html_join(", ", "{}", ((text,) for text in made[:LINKS_SHOWN]))
        messages.info(request, format_html("Their runs: {}", links))


extension.actions.insert(0, trigger_selected)
extension.buttons.append(Button("Trigger now", "bolt", "admin:runs_job_trigger", TRIGGER))
