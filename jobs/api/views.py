"""Jobs over HTTP: thin, each method reads its request, calls one service and represents it."""

from collections.abc import Callable
from functools import partial

from django.http import HttpResponse
from rest_framework.request import Request

from jobs import selectors, services
from jobs.api.base import TeamView, object_id, reply
from jobs.api.openapi import IDEMPOTENCY_KEY, IF_MATCH, PAUSE, operation, ref
from jobs.api.pages import cursor_param, one_integer, page, time_and_id
from jobs.api.params import LIMIT, flag_param, read_params, text_param
from jobs.api.represent import etag, job_bodies, job_body, version_body
from jobs.api.schedules import changes_body
from jobs.body import check_body
from jobs.errors import FieldErrors
from jobs.idempotency import Answer
from jobs.models import Job
from jobs.rehearsal import rehearse
from jobs.selectors import JobFilter

LIST_PARAMS = {
    "name": text_param(200, "the job of exactly this name"),
    "enabled": flag_param("only jobs that are enabled, or paused"),
    "tag": text_param(64, "only jobs that have this tag; several: all of them", is_many=True),
    "limit": LIMIT,
    "cursor": cursor_param(time_and_id),
}
EDIT_PARAMS = {"dryRun": flag_param("only say what the edit would change", default=False)}
VERSION_PARAMS = {"limit": LIMIT, "cursor": cursor_param(one_integer)}


def if_match_of(request: Request) -> Callable[[int], bool] | None:
    """Return the check that If-Match asks for, by strong comparison; None without the header."""
    header = request.headers.get("If-Match")
    if header is None:
        return None
    tags = {tag.strip() for tag in header.split(",")}
    return lambda version: "*" in tags or f'"{version}"' in tags


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise FieldErrors([("dryRun", "must be true or false")])
    return value


class JobListView(TeamView):
    """A team's jobs."""

    @operation("listJobs", "List jobs, newest first", {200: ref("JobPage")}, params=LIST_PARAMS)
    def get(self, request: Request) -> HttpResponse:
        """Return a page of the team's jobs."""
        wanted = read_params(request, LIST_PARAMS)
        jobs = selectors.jobs_page(
            self.team,
            JobFilter(wanted["name"], wanted["enabled"], wanted["tag"]),
            after=wanted["cursor"],
            limit=wanted["limit"] + 1,
        )
        shown, following = page(
            request, jobs, wanted["limit"], lambda job: (job.created_at, job.job_id)
        )
        return reply({"results": job_bodies(self.team, shown), "next": following})

    @operation(
        "createJob",
        "Register a job",
        {201: ref("Job")},
        body=ref("JobWrite"),
        headers=[IDEMPOTENCY_KEY],
        errors=[409],
    )
    def post(self, request: Request) -> HttpResponse:
        """Make a job."""
        read_params(request, {})

        def create() -> Answer:
            job = services.job_create(self.team, request.data, actor=self.actor)
            headers = {"ETag": etag(job), "Location": f"{request.path}/{job.job_id}"}
            edges = selectors.edges_of([job]).get(job.job_id, ())
            return Answer.of(201, job_body(self.team, job, edges, None), headers)

        return self.once(request, create)


class JobView(TeamView):
    """One job."""

    @operation("getJob", "Read a job", {200: ref("Job")}, path=["job_id"])
    def get(self, request: Request, job_id: str) -> HttpResponse:
        """Return the job."""
        read_params(request, {})
        return self.shown(selectors.job_get(self.team, object_id(job_id, "job")))

    @operation(
        "replaceJob",
        "Replace a job's definition",
        {200: {"oneOf": [ref("Job"), ref("JobDryRun")]}},
        body=ref("JobWrite"),
        params=EDIT_PARAMS,
        headers=[IF_MATCH],
        path=["job_id"],
        errors=[409, 412],
    )
    def put(self, request: Request, job_id: str) -> HttpResponse:
        """Replace the definition; read-only fields are ignored."""
        return self.edited(request, job_id, services.job_replace)

    @operation(
        "patchJob",
        "Replace some of a job's fields",
        {200: {"oneOf": [ref("Job"), ref("JobDryRun")]}},
        body=ref("JobPatch"),
        params=EDIT_PARAMS,
        headers=[IF_MATCH],
        path=["job_id"],
        errors=[409, 412],
    )
    def patch(self, request: Request, job_id: str) -> HttpResponse:
        """Replace the top-level fields that are given."""
        return self.edited(request, job_id, services.job_patch)

    def edited(self, request: Request, job_id: str, write: Callable[..., Job]) -> HttpResponse:
        """Make the edit and represent the job; of a dry run, what it would change."""
        is_dry_run = read_params(request, EDIT_PARAMS)["dryRun"]
        body, identity = request.data, object_id(job_id, "job")
        if isinstance(body, dict) and "dryRun" in body:
            is_dry_run |= _flag(body["dryRun"])
            body = {name: value for name, value in body.items() if name != "dryRun"}
        edit = partial(
            write, identity, self.team, body, actor=self.actor, if_match=if_match_of(request)
        )
        if is_dry_run:
            return reply(changes_body(*rehearse(identity, self.team, edit)))
        return self.shown(edit())

    @operation(
        "deleteJob",
        "Delete a job: what has not started is cancelled, its history stays readable",
        {204: None},
        headers=[IF_MATCH],
        path=["job_id"],
        errors=[403, 412],
    )
    def delete(self, request: Request, job_id: str) -> HttpResponse:
        """Delete the job."""
        read_params(request, {})
        job = selectors.job_get(self.team, object_id(job_id, "job"))
        services.job_delete(job, actor=self.actor, if_match=if_match_of(request))
        return HttpResponse(status=204)

    def shown(self, job: Job) -> HttpResponse:
        """Represent the job, with its ETag."""
        (body,) = job_bodies(self.team, [job])
        return reply(body, headers={"ETag": etag(job)})


class JobPauseView(JobView):
    """The pause of one job."""

    http_method_names = ["post", "options"]

    @operation(
        "pauseJob",
        "Stop a job's ticks",
        {200: ref("Job")},
        body=ref("JobPause"),
        headers=[IF_MATCH],
        path=["job_id"],
        errors=[412],
    )
    def post(self, request: Request, job_id: str) -> HttpResponse:
        """Pause the job; one that is paused stays so."""
        read_params(request, {})
        reason = check_body(PAUSE, request.data)["reason"]
        job = selectors.job_get(self.team, object_id(job_id, "job"))
        return self.shown(
            services.job_pause(job, actor=self.actor, reason=reason, if_match=if_match_of(request))
        )


class JobResumeView(JobView):
    """The end of a job's pause."""

    http_method_names = ["post", "options"]

    @operation(
        "resumeJob",
        "Start a job's ticks again, with the first one after now",
        {200: ref("Job")},
        headers=[IF_MATCH],
        path=["job_id"],
        errors=[403, 412],
    )
    def post(self, request: Request, job_id: str) -> HttpResponse:
        """Resume the job; one that is not paused stays as it is."""
        read_params(request, {})
        job = selectors.job_get(self.team, object_id(job_id, "job"))
        return self.shown(services.job_resume(job, actor=self.actor, if_match=if_match_of(request)))


class JobVersionListView(TeamView):
    """What was in force when, and who changed it."""

    @operation(
        "listJobVersions",
        "List a job's versions, newest first; a deleted job's too",
        {200: ref("JobVersionPage")},
        params=VERSION_PARAMS,
        path=["job_id"],
    )
    def get(self, request: Request, job_id: str) -> HttpResponse:
        """Return a page of the job's versions."""
        wanted = read_params(request, VERSION_PARAMS)
        job = selectors.job_get(self.team, object_id(job_id, "job"), with_deleted=True)
        versions = selectors.versions_page(job, below=wanted["cursor"], limit=wanted["limit"] + 1)
        shown, following = page(
            request, versions, wanted["limit"], lambda version: (version.version,)
        )
        return reply({"results": [version_body(one) for one in shown], "next": following})
