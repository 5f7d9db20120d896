"""How the admin writes jobs: through jobs.services, so that versions and settling hold."""

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.contrib.admin.actions import delete_selected
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.urls import URLPattern, path, reverse

from chronoproject.adminkit.base import KeysetAdmin, actor_of
from chronoproject.adminkit.bulk import AT_ONCE, act_on_each, busy_told
from chronoproject.errors import ChronoError, FieldError
from jobs import services
from jobs.admin.extension import extension
from jobs.admin.job_form import JobForm
from jobs.admin.job_page import page_context
from jobs.models import Job

MAX_EACH = 1000
REFUSALS = "chrono_refusals"
ENABLED, ALREADY_ENABLED = "enabled", "were enabled already"
DISABLED, ALREADY_DISABLED = "disabled", "were disabled already"
DELETED = "deleted"


class JobWriting(KeysetAdmin[Job]):
    """The verbs of a job's page and of the list; no way around the services."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401
        """Let nobody edit a deleted job."""
        deleted = isinstance(obj, Job) and obj.deleted_at is not None
        return not deleted and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401
        """Let nobody delete a job twice."""
        deleted = isinstance(obj, Job) and obj.deleted_at is not None
        return not deleted and super().has_delete_permission(request, obj)

    def has_trigger_permission(self, request: HttpRequest) -> bool:
        """Let those trigger who may make runs."""
        return request.user.has_perm("runs.add_run")

    # --- the form -------------------------------------------------------------------------

    def get_readonly_fields(self, request: HttpRequest, obj: Job | None = None) -> list[str]:
        """Keep a job with its team."""
        return ["owner"] if obj else []

    def get_form(
        self,
        request: HttpRequest,
        obj: Job | None = None,
        change: bool = False,
        **kwargs: Any,  # noqa: ANN401
    ) -> type[ModelForm[Job]]:
        """Give the form what the services refused a moment ago."""
        made = super().get_form(request, obj, change, **kwargs)
        refusals: Sequence[FieldError] = getattr(request, REFUSALS, ())
        return type(made.__name__, (made,), {"refusals": refusals})

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Save, or show the form again with what the services refused on the fields."""
        try:
            with busy_told():
                return super().changeform_view(request, object_id, form_url, extra_context)
        except ChronoError as refused:
            # the transaction is gone; the same request again, to be shown with its errors
            setattr(request, REFUSALS, refused.errors or [FieldError("", refused.detail)])
            return super().changeform_view(request, object_id, form_url, extra_context)

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Job | None = None,
    ) -> HttpResponse:
        """Add what stands around the form."""
        context["show_save_and_add_another"] = False
        if obj is not None:
            context.update(page_context(request, obj))
        return super().render_change_form(request, context, add, change, form_url, obj)

    def save_model(
        self,
        request: HttpRequest,
        obj: Job,
        form: Any,  # noqa: ANN401 - Django's signature; ours is a JobForm
        change: Any,  # noqa: ANN401
    ) -> None:
        """Write through the services; `obj` becomes what they wrote."""
        assert isinstance(form, JobForm)  # noqa: S101 - get_form makes nothing else
        actor, body = actor_of(request), form.definition()
        if change:
            seen = form.cleaned_data.get("version")
            written = services.job_replace(
                obj.job_id,
                obj.owner,
                body,
                actor=actor,
                if_match=lambda version: seen in (None, version),
            )
        else:
            written = services.job_create(form.cleaned_data["owner"], body, actor=actor)
        vars(obj).update(vars(written))

    # --- deleting -------------------------------------------------------------------------

    def get_deleted_objects(
        self,
        objs: Any,  # noqa: ANN401 - a list or a queryset
        request: HttpRequest,
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Name the jobs alone: their history stays readable."""
        names = [str(job) for job in objs[:AT_ONCE]]
        return names, {"jobs": len(names)}, set(), []

    def delete_model(self, request: HttpRequest, obj: Job) -> None:
        """Delete through the services: what has not started is cancelled, the history stays."""
        services.job_delete(obj, actor=actor_of(request))

    def delete_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        """Ask first; then delete each through the services."""
        jobs = self._few(request, queryset)
        if not request.POST.get("post"):
            few = self.get_queryset(request).filter(pk__in=[job.pk for job in jobs])
            return delete_selected(self, request, few)
        actor = actor_of(request)

        def delete(job: Job) -> str:
            services.job_delete(job, actor=actor)
            return DELETED

        act_on_each(request, jobs, delete, done=[DELETED])
        return None

    delete_selected.short_description = "Delete the selected jobs"  # type: ignore[attr-defined]
    delete_selected.allowed_permissions = ("delete",)  # type: ignore[attr-defined]

    # --- enabling -------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        """Add the addresses that the page's buttons post to."""
        wrap = self.admin_site.admin_view
        return [
            path("<uuid:job_id>/disable/", wrap(self.disable_view), name="jobs_job_disable"),
            path("<uuid:job_id>/enable/", wrap(self.enable_view), name="jobs_job_enable"),
            *super().get_urls(),
        ]

    def disable_view(self, request: HttpRequest, job_id: Any) -> HttpResponse:  # noqa: ANN401
        """Disable one job."""
        return self._switch(request, job_id, enable=False)

    def enable_view(self, request: HttpRequest, job_id: Any) -> HttpResponse:  # noqa: ANN401
        """Enable one job."""
        return self._switch(request, job_id, enable=True)

    def _switch(self, request: HttpRequest, job_id: Any, *, enable: bool) -> HttpResponse:  # noqa: ANN401
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        job = self.get_object(request, str(job_id))
        if not self.has_change_permission(request, job):
            raise PermissionDenied
        if job is None:
            raise Http404("There is no such job.")
        self._switch_each(request, [job], enable=enable)
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job_id]))

    def _switch_each(self, request: HttpRequest, jobs: Any, *, enable: bool) -> None:  # noqa: ANN401
        actor = actor_of(request)
        done, already = (ENABLED, ALREADY_ENABLED) if enable else (DISABLED, ALREADY_DISABLED)

        def switch(job: Job) -> str:
            if enable:
                written = services.job_resume(job, actor=actor)
            else:
                written = services.job_pause(job, actor=actor, reason=f"disabled by {actor}")
            return already if written.version == job.version else done

        act_on_each(request, jobs, switch, done=[done])

    def enable_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Start the ticks of the selected jobs again."""
        self._switch_each(request, self._few(request, queryset), enable=True)

    def disable_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Stop the ticks of the selected jobs."""
        self._switch_each(request, self._few(request, queryset), enable=False)

    for _action, _words in ((enable_selected, "Enable"), (disable_selected, "Disable")):
        _action.short_description = f"{_words} the selected jobs"  # type: ignore[attr-defined]
        _action.allowed_permissions = ("change",)  # type: ignore[attr-defined]

    def _few(self, request: HttpRequest, queryset: QuerySet[Job]) -> list[Job]:
        """Return as many of the selected jobs as one request can edit; say so when not all."""
        jobs = list(queryset.select_related("owner")[: MAX_EACH + 1])
        if len(jobs) > MAX_EACH:
            messages.warning(request, f"Only the first {MAX_EACH:,} were taken; repeat the action.")
        return jobs[:MAX_EACH]


extension.actions[:0] = ["enable_selected", "disable_selected", "delete_selected"]
