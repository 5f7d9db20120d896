"""Runs over HTTP: thin, as the jobs' views are."""

from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from jobs.api.base import TeamView, object_id, reply
from jobs.api.openapi import IDEMPOTENCY_KEY, operation, ref
from jobs.api.pages import cursor_param, one_instant, page, time_and_id
from jobs.api.params import LIMIT, Param, check_span, choice_param, instant_param, read_params
from jobs.body import check_body
from jobs.choices import JobKind
from jobs.errors import FieldErrors
from jobs.fields import Invalid, read_time
from jobs.hooks import hooks
from jobs.idempotency import Answer
from jobs.models import Job
from jobs.payloads import OVERRIDES
from jobs.selectors import job_get
from runs import selectors, services
from runs.api.openapi import TRIGGER
from runs.api.represent import attempt_bodies, run_body, run_detail
from runs.explain import explain
from runs.models import Run
from runs.selectors import RunFilter
from runs.states import RunStatus, Trigger

FILTERS: dict[str, Param] = {
    "status": choice_param(list(RunStatus.values), "only these statuses", is_many=True),
    "trigger": choice_param(list(Trigger.values), "only runs that exist for this", is_many=True),
    "from": instant_param("scheduledFor is not before"),
    "to": instant_param("scheduledFor is before"),
    "limit": LIMIT,
}
JOB_RUN_PARAMS = {**FILTERS, "cursor": cursor_param(one_instant)}
TEAM_RUN_PARAMS = {**FILTERS, "cursor": cursor_param(time_and_id)}


def filter_of(wanted: dict[str, Any]) -> RunFilter:
    """Return the filter that read parameters state; FieldErrors for a span that ends before it
    begins."""
    check_span(wanted)
    return RunFilter(wanted["status"], wanted["trigger"], wanted["from"], wanted["to"])


class JobRunListView(TeamView):
    """The runs of one job."""

    @operation(
        "listJobRuns",
        "List a job's runs, newest tick first; a deleted job's too",
        {200: ref("RunPage")},
        params=JOB_RUN_PARAMS,
        path=["job_id"],
    )
    def get(self, request: Request, job_id: str) -> HttpResponse:
        """Return a page of the job's runs."""
        wanted = read_params(request, JOB_RUN_PARAMS)
        job = job_get(self.team, object_id(job_id, "job"), with_deleted=True)
        runs = selectors.job_runs_page(
            job, filter_of(wanted), after=wanted["cursor"], limit=wanted["limit"] + 1
        )
        shown, following = page(request, runs, wanted["limit"], lambda run: (run.scheduled_for,))
        return reply({"results": [run_body(run, job.name) for run in shown], "next": following})


class RunListView(TeamView):
    """The runs of a team."""

    @operation(
        "listRuns",
        "List the team's runs, newest tick first",
        {200: ref("RunPage")},
        params=TEAM_RUN_PARAMS,
    )
    def get(self, request: Request) -> HttpResponse:
        """Return a page of the team's runs."""
        wanted = read_params(request, TEAM_RUN_PARAMS)
        runs = selectors.team_runs_page(
            self.team, filter_of(wanted), after=wanted["cursor"], limit=wanted["limit"] + 1
        )
        shown, following = page(
            request, runs, wanted["limit"], lambda run: (run.scheduled_for, run.run_id)
        )
        bodies = [run_body(run, run.job.name) for run in shown]
        return reply({"results": bodies, "next": following})


class JobTriggerView(TeamView):
    """Runs of one job on request."""

    @operation(
        "triggerJob",
        "Make a run now, of a paused job too",
        {202: ref("RunDetail")},
        body=ref("RunTrigger"),
        headers=[IDEMPOTENCY_KEY],
        path=["job_id"],
        errors=[409],
    )
    def post(self, request: Request, job_id: str) -> HttpResponse:
        """Make a run."""
        read_params(request, {})
        wanted = check_body(TRIGGER, request.data)
        job = job_get(self.team, object_id(job_id, "job"))
        override = checked_override(job, wanted["payload"])

        def trigger() -> Answer:
            date = wanted["logicalDate"]
            run = services.run_trigger(
                job,
                actor=self.actor,
                logical_date=read_time(date) if date else None,
                payload=override,
                with_downstream=wanted["withDownstream"],
            )
            return Answer.of(202, run_detail(run), {"Location": f"/v1/runs/{run.run_id}"})

        return self.once(request, trigger)


def checked_override(job: Job, payload: Any) -> dict[str, Any] | None:  # noqa: ANN401 - any JSON
    """Return what a trigger replaces of the job's payload; FieldErrors naming payload.…"""
    if payload is None:
        return None
    kind = JobKind(job.kind)
    try:
        filled = OVERRIDES[kind](payload)
    except Invalid as error:
        errors = [(f"payload{path}", message) for path, message in error.errors]
        raise FieldErrors(errors) from None
    given = {name: value for name, value in filled.items() if name in payload}
    if kind == JobKind.TASK and hooks.check_task is not None:
        call = {**job.payload, **given}
        if refused := hooks.check_task(call["task"], call["args"], call["kwargs"]):
            raise FieldErrors([(f"payload.{field}", message) for field, message in refused])
    return given


class RunView(TeamView):
    """One run."""

    @operation("getRun", "Read a run", {200: ref("RunDetail")}, path=["run_id"])
    def get(self, request: Request, run_id: str) -> HttpResponseBase:
        """Return the run."""
        read_params(request, {})
        return reply(run_detail(self.run(run_id)))

    def run(self, run_id: str) -> Run:
        """Return the team's run of this id."""
        return selectors.run_get(self.team, object_id(run_id, "run"))


class RunAttemptsView(RunView):
    """The attempts of one run."""

    @operation(
        "listAttempts",
        "List a run's attempts, oldest first",
        {200: ref("AttemptPage")},
        path=["run_id"],
    )
    def get(self, request: Request, run_id: str) -> HttpResponse:
        """Return all attempts."""
        read_params(request, {})
        return reply({"results": attempt_bodies(self.run(run_id)), "next": None})


class RunExplainView(RunView):
    """Why one run stands where it stands."""

    @operation(
        "explainRun",
        "Say why a run has not started, or ended as it did",
        {200: ref("Explanation")},
        path=["run_id"],
    )
    def get(self, request: Request, run_id: str) -> HttpResponse:
        """Return the explanation."""
        read_params(request, {})
        return reply(explain(self.run(run_id)))


class RunCancelView(RunView):
    """The end of one run on request."""

    http_method_names = ["post", "options"]

    @operation(
        "cancelRun",
        "End a run that has not ended; a running one is asked to stop",
        {202: ref("RunDetail")},
        path=["run_id"],
        errors=[403, 409],
    )
    def post(self, request: Request, run_id: str) -> HttpResponse:
        """Cancel the run."""
        read_params(request, {})
        run = services.run_cancel(self.run(run_id), actor=self.actor)
        return reply(run_detail(run), status=202)


class RunRerunView(RunView):
    """New attempts of one run that has ended."""

    http_method_names = ["post", "options"]

    @operation(
        "rerunRun",
        "Give a run that has ended new attempts",
        {202: ref("RunDetail")},
        path=["run_id"],
        errors=[403, 409],
    )
    def post(self, request: Request, run_id: str) -> HttpResponse:
        """Run it again."""
        read_params(request, {})
        run = services.run_rerun(self.run(run_id), actor=self.actor)
        return reply(run_detail(run), status=202)
