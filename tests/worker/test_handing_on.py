"""Outputs go down a DAG through a real worker; a task's progress is seen while it runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chronoproject.clock import db_now
from jobs.demo import demo_jobs
from jobs.models import Job
from jobs.services import job_create
from runs import execution, log_stream
from runs.executors.base import Work
from runs.models import Run
from tests.factories import claim_run, finish_run, make_client, make_job, make_run, make_team
from tests.worker import sample_tasks  # noqa: F401 - registers tasks
from tests.worker.harness import eventually
from tests.worker.workers import RunningWorker, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_url")]


def below(pool: str, *upstreams: Job, **fields: Any) -> Job:  # noqa: ANN401 - fields of a job
    return make_job(pool=pool, dependsOn=[str(one.job_id) for one in upstreams], **fields)


def test_outputs_go_down_a_chain_of_commands_tasks_and_calls(shared_worker: RunningWorker) -> None:
    pool = shared_worker.pool
    first = make_job(name="first", pool=pool, command="echo '{\"n\": 1}' > $CHRONO_OUTPUT")
    payload = {"type": "task", "task": "sample.inputs", "args": ["x"]}
    second = below(pool, first, name="second", payload=payload)
    last = below(pool, first, second, name="last", command="cat $CHRONO_INPUTS")
    run = make_run(first)
    done = until(Run.objects.get(job=last), "succeeded", "dead", "skipped")
    of_second: Any = Run.objects.get(job=second).output
    given = of_second["keyword"]
    assert until(run, "succeeded").output == {"n": 1}
    assert given["first"]["output"] == {"n": 1}
    assert given["first"]["id"] == str(run.run_id)
    assert of_second["run"] == given
    seen = json.loads(log_stream.read(done.output_ref))
    assert seen["first"] == given["first"]
    assert seen["second"]["output"] == of_second


def test_a_command_whose_output_is_no_json_fails_for_that(shared_worker: RunningWorker) -> None:
    run = until(shared_worker.runs("echo no > $CHRONO_OUTPUT"), "succeeded", "dead")
    assert (run.status, run.reason, run.exit_code) == ("dead", "output", 0)
    assert run.error.startswith("$CHRONO_OUTPUT is not JSON")


def given_to(run: Run) -> tuple[Work, int]:
    """Return the work as an attempt gets it, and how many statements that took."""
    claimed = claim_run(run)
    work = execution.prepare(claimed)
    with CaptureQueriesContext(connection) as queries:
        work = execution.with_inputs(claimed, work)
    return work, len(queries)


def test_only_those_who_can_use_inputs_pay_for_them() -> None:
    upstream = make_job(pool="nobody", name="upstream")
    call = below("nobody", upstream, payload={"type": "http", "url": "http://example.org/"})
    command = below("nobody", upstream)
    run = make_run(upstream)
    claimed = claim_run(run)
    finish_run(claimed, output=[5])
    work, count = given_to(Run.objects.get(job=command))
    assert work.inputs is not None
    assert (work.inputs["upstream"]["output"], count) == ([5], 2)
    work, count = given_to(Run.objects.get(job=call))
    assert (work.inputs, count) == (None, 0)
    work, count = given_to(make_run(make_job(pool="nobody")))
    assert (work.inputs, count) == (None, 0)


def test_progress_shows_while_a_task_runs_and_the_last_one_afterwards(
    shared_worker: RunningWorker, tmp_path: Path
) -> None:
    api, gate = make_client(), tmp_path / "go on"
    run = shared_worker.calls("sample.progress", str(gate))

    def seen() -> tuple[str, Any]:
        body = api.get(f"/v1/runs/{run.run_id}").json()
        return body["status"], body["progress"]

    eventually(lambda: seen() == ("running", {"done": 3, "total": 10}))
    assert "progress" not in api.get("/v1/runs").json()["results"][0]
    gate.touch()
    until(run, "succeeded")
    assert seen() == ("succeeded", {"done": 10, "total": 10})
    raised = until(shared_worker.calls("sample.progress_and_raise"), "dead")
    assert (raised.progress_done, raised.progress_total) == (2**63 - 1, 0)
    quiet = until(shared_worker.calls("chrono.noop"), "succeeded")
    assert api.get(f"/v1/runs/{quiet.run_id}").json()["progress"] is None


def test_progress_of_a_task_that_is_killed_is_kept(shared_worker: RunningWorker) -> None:
    run = shared_worker.calls("sample.progress_then_stubborn", timeoutSec=1, killGraceSec=0)
    ended = until(run, "dead")
    assert (ended.reason, ended.progress_done, ended.progress_total) == ("timeout", 4, 5)


def test_the_demo_dag_reports_what_it_extracted(shared_worker: RunningWorker) -> None:
    team, ids = make_team(), dict[str, str]()
    for definition in demo_jobs(8000, db_now()):
        if definition["name"] in {"demo-extract", "demo-transform", "demo-report"}:
            edges = [ids[name] for name in definition.get("dependsOn", [])]
            fields = definition | {"dependsOn": edges, "pool": shared_worker.pool}
            ids[definition["name"]] = str(job_create(team, fields, actor="test").job_id)
    extracted = until(make_run(Job.objects.get(job_id=ids["demo-extract"])), "succeeded")
    report = until(Run.objects.get(job_id=ids["demo-report"]), "succeeded", "dead", "skipped")
    log = log_stream.read(report.output_ref).decode()
    _, _, text = log.partition("\n")
    seen = {name: given["output"] for name, given in json.loads(text).items()}
    assert extracted.output == seen["demo-extract"]
    rows = seen["demo-extract"]["rows"]
    assert seen["demo-transform"] == {"rows": rows, "perSecond": rows // 60}
