"""Dependencies over HTTP: a job's DAG, and what one run waits for."""

from django.http import HttpResponse
from rest_framework.request import Request

from dag import selectors, services
from dag.api.openapi import AGAIN
from dag.api.represent import dag_body, upstream_body
from jobs.api.base import TeamView, object_id, reply
from jobs.api.openapi import operation, ref
from jobs.api.params import Param, instant_param, read_params
from jobs.body import check_body
from jobs.selectors import job_get
from runs.selectors import run_get

DAG_PARAMS: dict[str, Param] = {
    "logicalDate": instant_param("the date whose runs are shown; the newest run's without it")
}


class DagView(TeamView):
    """The DAG around one job."""

    @operation(
        "getDag",
        "Read a job with all above and below it, and their runs of a logical date",
        {200: ref("Dag")},
        params=DAG_PARAMS,
        path=["job_id"],
    )
    def get(self, request: Request, job_id: str) -> HttpResponse:
        """Return nodes, edges and runs."""
        wanted = read_params(request, DAG_PARAMS)
        job = job_get(self.team, object_id(job_id, "job"), with_deleted=True)
        return reply(dag_body(job, selectors.dag_of(job, wanted["logicalDate"])))


class RunUpstreamView(TeamView):
    """What one run waits for."""

    @operation(
        "listUpstream",
        "List what a run was born to wait for, and what that came to",
        {200: ref("UpstreamPage")},
        path=["run_id"],
    )
    def get(self, request: Request, run_id: str) -> HttpResponse:
        """Return all edges of the run."""
        read_params(request, {})
        run = run_get(self.team, object_id(run_id, "run"))
        results = [upstream_body(one) for one in selectors.upstreams_of(run)]
        return reply({"results": results, "next": None})


class RunDownstreamRerunView(TeamView):
    """New attempts of one run and of all below it."""

    @operation(
        "rerunDownstream",
        "Run a run and all below it again, each after its upstreams",
        {202: ref("RunsAgain")},
        body=ref("RerunDownstream"),
        path=["run_id"],
        errors=[409],
    )
    def post(self, request: Request, run_id: str) -> HttpResponse:
        """Run them again."""
        read_params(request, {})
        wanted = check_body(AGAIN, request.data)
        run = run_get(self.team, object_id(run_id, "run"))
        again = services.downstream_rerun(run, actor=self.actor, only_failed=wanted["onlyFailed"])
        return reply({"runIds": [str(one.run_id) for one in again]}, status=202)
