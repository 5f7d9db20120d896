"""Dependencies over HTTP: writing edges, a job's DAG, what a run waits for."""

import uuid
from datetime import datetime, timedelta
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from chronoproject.openapi import document
from jobs.models import AuditEntry, Job, Team
from runs.models import Run
from tests.api.support import problem_of
from tests.factories import claim_run, finish_run, make_job, make_run, this_second

pytestmark = pytest.mark.django_db


def fits(name: str, body: object) -> None:
    """Fail unless the body is what the component says."""
    components = document()["components"]
    schema = {"$ref": f"#/components/schemas/{name}", "components": components}
    jsonschema.Draft202012Validator(schema).validate(body)


def below(team: Team, *upstreams: Job | dict[str, Any], **fields: Any) -> Job:  # noqa: ANN401
    edges = [up if isinstance(up, dict) else str(up.job_id) for up in upstreams]
    return make_job(team, dependsOn=edges, **fields)


def patch(api: APIClient, job: Job, **fields: object) -> Any:  # noqa: ANN401 - a test's response
    return api.patch(f"/v1/jobs/{job.job_id}", fields, format="json")


def errors_of(response: Any) -> list[dict[str, str]]:  # noqa: ANN401 - a test's response
    assert response.status_code == 422, response.content
    errors: list[dict[str, str]] = problem_of(response)["errors"]
    return errors


def test_edges_are_read_as_they_were_written(api: APIClient, team: Team) -> None:
    first, second = make_job(team), make_job(team)
    written = [
        str(first.job_id),
        {"jobId": str(second.job_id), "match": "day", "dayOffset": -1},
    ]
    body = {"name": "last", "command": "true", "dependsOn": written, "triggerRule": "all_done"}
    response = api.post("/v1/jobs", body, format="json")
    assert response.status_code == 201
    assert response.json()["dependsOn"] == written
    read = api.get(f"/v1/jobs/{response.json()['id']}").json()
    assert (read["dependsOn"], read["triggerRule"]) == (written, "all_done")


def test_many_upstreams_are_written_in_as_few_statements_as_two(team: Team) -> None:
    jobs = [make_job(team) for _ in range(40)]
    below(team, *jobs[:2])

    def statements(count: int) -> int:
        with CaptureQueriesContext(connection) as seen:
            below(team, *jobs[:count])
        return len(seen)

    assert statements(40) == statements(2)


def test_more_upstreams_than_a_thousand_are_refused(api: APIClient) -> None:
    body = {"name": "a", "command": "true", "dependsOn": [str(uuid.uuid4()) for _ in range(1001)]}
    (error,) = errors_of(api.post("/v1/jobs", body, format="json"))
    assert error["field"] == "dependsOn"
    assert "1000" in error["message"]


def test_a_cycle_is_a_422_that_names_it(api: APIClient, team: Team) -> None:
    a = make_job(team, name="a")
    b = below(team, a, name="b")
    c = below(team, b, name="c")
    assert errors_of(patch(api, a, dependsOn=[str(c.job_id)])) == [
        {"field": "dependsOn[0]", "message": "closes a cycle: a → c → b → a"}
    ]
    assert api.get(f"/v1/jobs/{a.job_id}").json()["dependsOn"] == []


def test_another_teams_job_is_no_upstream(api: APIClient, other_api: APIClient) -> None:
    body = {"name": "theirs", "command": "true"}
    foreign = other_api.post("/v1/jobs", body, format="json").json()["id"]
    response = api.post(
        "/v1/jobs", {"name": "ours", "command": "true", "dependsOn": [foreign]}, format="json"
    )
    assert [error["field"] for error in errors_of(response)] == ["dependsOn[0]"]


def test_a_scheduled_job_needs_upstreams_with_ticks(api: APIClient, team: Team) -> None:
    manual = make_job(team, name="manual")
    body = {
        "name": "nightly",
        "command": "true",
        "schedule": "0 2 * * *",
        "dependsOn": [str(manual.job_id)],
    }
    (error,) = errors_of(api.post("/v1/jobs", body, format="json"))
    assert error["field"] == "dependsOn"
    assert "'manual' has no schedule" in error["message"]


def test_the_schedule_that_others_wait_for_cannot_be_taken_away(api: APIClient, team: Team) -> None:
    hourly = make_job(team, schedule="@hourly", name="hourly")
    driven = below(team, hourly, name="driven")
    below(team, driven, schedule="@daily", name="nightly")
    (error,) = errors_of(patch(api, hourly, schedule=None))
    assert error["field"] == "schedule"
    assert "'nightly'" in error["message"]
    assert patch(api, hourly, schedule="@daily").status_code == 200


def test_a_driven_job_that_is_given_a_schedule_needs_ticks_above(
    api: APIClient, team: Team
) -> None:
    driven = below(team, make_job(team))
    assert [error["field"] for error in errors_of(patch(api, driven, schedule="@daily"))] == [
        "dependsOn"
    ]


def run_at(job: Job, at: datetime) -> Run:
    return Run.objects.get(job=job, scheduled_for=at)


def test_a_dag_shows_nodes_edges_and_the_runs_of_a_date(api: APIClient, team: Team) -> None:
    first = make_job(team, schedule="@hourly", name="1 first")
    second = below(team, first, name="2 second")
    third = below(team, second, name="3 third")
    elsewhere = make_job(team, name="elsewhere")
    at = this_second()
    make_run(first, at)
    finish_run(claim_run(run_at(first, at)))
    text = at.isoformat().replace("+00:00", "Z")

    response = api.get(f"/v1/dags/{second.job_id}", {"logicalDate": text})
    assert response.status_code == 200
    body = response.json()
    fits("Dag", body)
    assert [(node["jobName"], node["run"]["status"]) for node in body["nodes"]] == [
        ("1 first", "succeeded"),
        ("2 second", "queued"),
        ("3 third", "waiting"),
    ]
    assert {(edge["dependsOn"], edge["jobId"]) for edge in body["edges"]} == {
        (str(first.job_id), str(second.job_id)),
        (str(second.job_id), str(third.job_id)),
    }
    assert str(elsewhere.job_id) not in str(body)
    assert api.get(f"/v1/dags/{third.job_id}").json()["nodes"] == body["nodes"]


def test_a_dag_of_two_cadences_follows_the_edges(api: APIClient, team: Team) -> None:
    early = make_job(team, schedule="0 2 * * *", name="early")
    late = below(team, early, schedule="0 3 * * *", name="late")
    at = this_second() - timedelta(hours=1)
    at = at.replace(minute=0, second=0)
    make_run(early, at)
    make_run(late, at + timedelta(minutes=1))
    runs = [
        {node["jobName"]: node["run"] for node in api.get(f"/v1/dags/{one.job_id}").json()["nodes"]}
        for one in (early, late)
    ]
    for shown in runs:
        assert shown["late"]["scheduledFor"] > shown["early"]["scheduledFor"]


def test_a_dag_before_its_first_run_has_none(api: APIClient, team: Team) -> None:
    job = make_job(team)
    body = api.get(f"/v1/dags/{job.job_id}").json()
    fits("Dag", body)
    assert (body["logicalDate"], [node["run"] for node in body["nodes"]]) == (None, [None])


def test_a_run_tells_what_it_waits_for(api: APIClient, team: Team) -> None:
    good, bad = (make_job(team, schedule="@hourly", name=name) for name in ("bad", "good"))
    last = below(team, good, bad, triggerRule="all_done", name="last")
    at = this_second()
    make_run(good, at)
    waiting = run_at(last, at)
    response = api.get(f"/v1/runs/{waiting.run_id}/upstream")
    assert response.status_code == 200
    body = response.json()
    fits("UpstreamPage", body)
    assert [edge["jobName"] for edge in body["results"]] == ["bad", "good"]
    (first, second) = body["results"]
    assert first["outcomes"]["pending"] == 1
    assert [run["id"] for run in first["runs"]] == [str(run_at(good, at).run_id)]
    assert (first["match"], first["from"], first["until"]) == ("tick", first["from"], first["from"])
    assert second["runs"] == []


def test_a_run_tells_which_of_its_upstreams_were_deleted(api: APIClient, team: Team) -> None:
    first, second = (make_job(team, schedule="@hourly", name=name) for name in ("a", "b"))
    run = make_run(below(team, first, second))
    assert api.delete(f"/v1/jobs/{second.job_id}").status_code == 204
    body = api.get(f"/v1/runs/{run.run_id}/upstream").json()
    fits("UpstreamPage", body)
    assert [(edge["jobName"], edge["isDeleted"]) for edge in body["results"]] == [
        ("a", False),
        ("b", True),
    ]


def test_a_run_without_upstreams_waits_for_none(api: APIClient, team: Team) -> None:
    run = make_run(make_job(team))
    assert api.get(f"/v1/runs/{run.run_id}/upstream").json() == {"results": [], "next": None}


def test_others_see_nothing(other_api: APIClient, team: Team) -> None:
    job = make_job(team)
    run = make_run(job)
    assert other_api.get(f"/v1/dags/{job.job_id}").status_code == 404
    assert other_api.get(f"/v1/runs/{run.run_id}/upstream").status_code == 404


def test_a_trigger_takes_its_downstream_along(api: APIClient, team: Team) -> None:
    first = make_job(team, name="first")
    second = below(team, first, name="second")
    third = below(team, {"jobId": str(second.job_id), "match": "day", "dayOffset": 0}, name="third")
    date = "2025-06-01T00:00:00Z"
    response = api.post(
        f"/v1/jobs/{first.job_id}/trigger",
        {"withDownstream": True, "logicalDate": date},
        format="json",
    )
    assert response.status_code == 202
    at = Run.objects.get(job=first).scheduled_for
    assert at.microsecond
    for job, status in ((first, "queued"), (second, "waiting"), (third, "waiting")):
        (run,) = Run.objects.filter(job=job)
        assert (run.scheduled_for, run.status) == (at, status)
        assert run.logical_date == datetime.fromisoformat(date)
    finish_run(claim_run(run_at(first, at)))
    assert run_at(second, at).status == "queued"
    finish_run(claim_run(run_at(second, at)), "dead")
    assert (run_at(third, at).status, run_at(third, at).reason) == ("skipped", "upstream_failed")


def test_a_trigger_alone_takes_nobody_along(api: APIClient, team: Team) -> None:
    first = make_job(team)
    second = below(team, first)
    assert api.post(f"/v1/jobs/{first.job_id}/trigger", {}, format="json").status_code == 202
    assert not Run.objects.filter(job=second).exists()


def test_all_below_a_run_is_run_again_in_order(api: APIClient, team: Team) -> None:
    first = make_job(team, schedule="@hourly")
    second = below(team, first)
    third = below(team, second)
    at = this_second()
    make_run(first, at)
    for job in (first, second, third):
        finish_run(claim_run(run_at(job, at)))
    head = run_at(first, at)
    response = api.post(f"/v1/runs/{head.run_id}/downstream/rerun", {}, format="json")
    assert response.status_code == 202
    fits("RunsAgain", response.json())
    assert len(response.json()["runIds"]) == 3
    statuses = [run_at(job, at).status for job in (first, second, third)]
    assert statuses == ["queued", "waiting", "waiting"]
    finish_run(claim_run(head))
    assert run_at(second, at).status == "queued"
    assert AuditEntry.objects.filter(action="rerun").count() == 3


def test_only_what_failed_below_a_run_is_run_again(api: APIClient, team: Team) -> None:
    first = make_job(team, schedule="@hourly")
    good, bad = below(team, first), below(team, first)
    last = below(team, good, bad)
    at = this_second()
    make_run(first, at)
    for job, status in ((first, "succeeded"), (good, "succeeded"), (bad, "dead")):
        finish_run(claim_run(run_at(job, at)), status)
    url = f"/v1/runs/{run_at(first, at).run_id}/downstream/rerun"
    with TestCase.captureOnCommitCallbacks(execute=True):
        response = api.post(url, {"onlyFailed": True}, format="json")
    assert response.status_code == 202
    statuses = [run_at(job, at).status for job in (first, good, bad, last)]
    assert statuses == ["succeeded", "succeeded", "queued", "waiting"]
    finish_run(claim_run(run_at(bad, at)))
    assert run_at(last, at).status == "queued"
    assert api.post(url, {"onlyFailed": True}, format="json").status_code == 409
