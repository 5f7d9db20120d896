"""Runs over the API: triggered, listed, cancelled, run again, explained."""

from datetime import datetime

import pytest
import redis
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings
from rest_framework.test import APIClient

from jobs.fields import optional_instant_text
from jobs.models import AuditEntry, Job, Team
from runs import lifecycle, services
from runs.execution import held_of
from runs.models import Run, Worker
from runs.selectors import run_ref
from tests.api.support import fields_of, problem_of
from tests.factories import (
    SECOND,
    claim_run,
    finish_run,
    make_job,
    make_run,
    make_team,
    read_run,
    this_second,
)

pytestmark = pytest.mark.django_db


def test_a_triggered_run_never_stands_on_a_whole_second(api: APIClient, team: Team) -> None:
    job = make_job(retries=2, priority="high", pool="gpu")

    response = api.post(f"/v1/jobs/{job.job_id}/trigger")

    assert response.status_code == 202
    run = Run.objects.get()
    body = response.json()
    assert run.scheduled_for.microsecond != 0
    assert (run.trigger, run.status, run.job_version) == ("manual", "queued", 1)
    assert (run.pool, run.priority, run.attempt_limit) == ("gpu", "high", 3)
    assert run.logical_date == run.scheduled_for
    assert response.headers["Location"] == f"/v1/runs/{run.run_id}"
    assert api.get(f"/v1/runs/{run.run_id}").json() == body
    audit = AuditEntry.objects.get()
    assert (audit.action, audit.owner, audit.object_id) == ("trigger", team, str(run.run_id))
    assert audit.detail == {"jobId": str(job.job_id)}


def test_a_trigger_is_published_after_the_commit(
    api: APIClient,
    valkey: redis.Redis,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    job = make_job()
    with django_capture_on_commit_callbacks() as callbacks:
        api.post(f"/v1/jobs/{job.job_id}/trigger")
        assert valkey.llen("default.normal") == 0
    for callback in callbacks:
        callback()
    assert valkey.llen("default.normal") == 1


def test_a_trigger_may_name_its_date_and_replace_the_payload(api: APIClient) -> None:
    job = make_job(env={"A": "a", "B": "b"})
    body = {"logicalDate": "2020-02-02T02:00:00+02:00", "payload": {"env": {"A": "z"}}}
    response = api.post(f"/v1/jobs/{job.job_id}/trigger", body, format="json")
    assert response.json()["logicalDate"] == "2020-02-02T00:00:00.000000Z"
    assert response.json()["payload"] == {"env": {"A": "z"}}
    claimed = claim_run(Run.objects.get())
    assert claimed.override == {"env": {"A": "z"}}
    assert claimed.definition["env"] == {"A": "a", "B": "b"}


def test_an_override_holds_only_what_was_given(api: APIClient) -> None:
    job = make_job(payload={"type": "http", "url": "http://example.org/", "headers": {"A": "b"}})
    body = {"payload": {"body": {"x": 1}}}
    api.post(f"/v1/jobs/{job.job_id}/trigger", body, format="json")
    assert Run.objects.get().payload == {"body": {"x": 1}}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"when": 1}, "when"),
        ({"logicalDate": "now"}, "logicalDate"),
        ({"payload": {"body": 1}}, "payload.body"),
        ({"payload": {"env": {"A": 1}}}, "payload.env.A"),
        ({"payload": 5}, "payload"),
        ({"withDownstream": "yes"}, "withDownstream"),
    ],
)
def test_a_bad_trigger_is_refused_by_name(
    api: APIClient, body: dict[str, object], named: str
) -> None:
    job = make_job()
    response = api.post(f"/v1/jobs/{job.job_id}/trigger", body, format="json")
    assert fields_of(response) == {named}
    assert not Run.objects.exists()


def test_overridden_arguments_must_fit_the_task(api: APIClient) -> None:
    job = make_job(payload={"type": "task", "task": "chrono.sleep", "args": [1]})
    path = f"/v1/jobs/{job.job_id}/trigger"
    bad = api.post(path, {"payload": {"args": [1, 2, 3]}}, format="json")
    assert fields_of(bad) == {"payload.args"}
    assert api.post(path, {"payload": {"args": [0]}}, format="json").status_code == 202


def test_a_paused_job_can_be_triggered(api: APIClient) -> None:
    job = make_job(enabled=False)
    assert api.post(f"/v1/jobs/{job.job_id}/trigger").status_code == 202


def test_triggers_in_the_same_instant_make_a_run_each() -> None:
    job = make_job()
    runs = [services.run_trigger(job, actor="test") for _ in range(20)]
    assert len({run.scheduled_for for run in runs}) == 20


def test_a_trigger_at_the_limit_waits(api: APIClient) -> None:
    job = make_job(maxConcurrency=1)
    first, second = (api.post(f"/v1/jobs/{job.job_id}/trigger").json() for _ in range(2))
    assert (first["status"], second["status"]) == ("queued", "waiting")
    assert second["reason"] == "concurrency"
    explained = api.get(f"/v1/runs/{second['id']}/explain").json()
    assert explained["hasStarted"] is False
    assert "as many runs" in explained["summary"]


# --- lists ----------------------------------------------------------------------------------


def test_a_jobs_runs_are_paged_newest_tick_first(api: APIClient) -> None:
    job = make_job()
    newest = this_second()
    made = [make_run(job, newest - back * SECOND) for back in range(5)]
    make_run(make_job())

    seen, target = [], f"/v1/jobs/{job.job_id}/runs?limit=2"
    sizes = []
    while target:
        body = api.get(target).json()
        sizes.append(len(body["results"]))
        seen += [run["id"] for run in body["results"]]
        target = body["next"]

    assert sizes == [2, 2, 1]
    assert seen == [str(run.run_id) for run in made]


def test_a_teams_runs_are_paged_also_where_ticks_are_the_same(
    api: APIClient, other_api: APIClient
) -> None:
    tick = this_second()
    made = {str(make_run(make_job(), tick).run_id) for _ in range(5)}
    foreign = make_run(make_job(make_team("rivals")), tick)

    seen, target = [], "http://testserver/v1/runs?limit=2&status=queued"
    while target:
        body = api.get(target).json()
        seen += [run["id"] for run in body["results"]]
        target = body["next"]

    assert len(seen) == 5
    assert set(seen) == made
    assert [run["id"] for run in other_api.get("/v1/runs").json()["results"]] == [
        str(foreign.run_id)
    ]


def test_runs_are_narrowed_by_status_trigger_and_time(api: APIClient) -> None:
    job = make_job()
    now = this_second()
    ticks = [make_run(job, now - back * SECOND) for back in (30, 20, 10)]
    finish_run(claim_run(ticks[0]))
    manual = services.run_trigger(job, actor="test")
    path = f"/v1/jobs/{job.job_id}/runs"

    def ids(query: str) -> list[str]:
        return [run["id"] for run in api.get(f"{path}?{query}").json()["results"]]

    first, second, third = (str(run.run_id) for run in ticks)
    assert ids("status=succeeded") == [first]
    assert ids("status=succeeded,dead&status=waiting") == [first]
    assert ids("trigger=manual") == [str(manual.run_id)]
    assert ids("trigger=schedule") == [third, second, first]
    since = ticks[1].scheduled_for.isoformat().replace("+", "%2B")
    until = ticks[2].scheduled_for.isoformat()
    assert ids(f"from={since}&to={until}") == [second], "to is exclusive, a bare + is understood"
    assert ids("status=&limit=") == [str(manual.run_id), third, second, first]


# --- one ------------------------------------------------------------------------------------


def test_another_teams_run_is_no_run(api: APIClient, other_api: APIClient) -> None:
    run = make_run(make_job())
    path = f"/v1/runs/{run.run_id}"
    answers = [other_api.get(path + part) for part in ("", "/attempts", "/explain", "/logs")]
    answers += [other_api.post(f"{path}/{verb}") for verb in ("cancel", "rerun")]
    assert {problem_of(answer)["detail"] for answer in answers} == {"There is no such run."}
    assert read_run(run_ref(run)).status == "queued"


def test_a_queued_run_is_cancelled_at_once(api: APIClient) -> None:
    run = make_run(make_job())
    response = api.post(f"/v1/runs/{run.run_id}/cancel")
    assert response.status_code == 202
    assert (response.json()["status"], response.json()["reason"]) == ("cancelled", "user")
    again = api.post(f"/v1/runs/{run.run_id}/cancel")
    assert problem_of(again)["status"] == 409
    assert AuditEntry.objects.filter(action="cancel").count() == 1


def test_a_running_run_is_asked_to_stop(api: APIClient) -> None:
    run = make_run(make_job())
    claim_run(run)
    for _ in range(2):
        response = api.post(f"/v1/runs/{run.run_id}/cancel")
        assert (response.status_code, response.json()["status"]) == (202, "running")
    assert read_run(run_ref(run)).cancel_requested_at is not None
    assert "cancel was asked" in api.get(f"/v1/runs/{run.run_id}/explain").json()["summary"]


def test_a_dead_run_is_run_again_with_new_attempts(api: APIClient) -> None:
    run = make_run(make_job(retries=1))
    finish_run(claim_run(run), "dead", reason="exit_code", exit_code=3, error="exit code 3")

    response = api.post(f"/v1/runs/{run.run_id}/rerun")

    body = response.json()
    assert (response.status_code, body["status"], body["attempt"]) == (202, "queued", 1)
    assert body["maxAttempts"] == 3
    assert (body["exitCode"], body["finishedAt"]) == (None, None)
    attempts = api.get(f"/v1/runs/{run.run_id}/attempts").json()["results"]
    assert [(one["attempt"], one["outcome"], one["exitCode"]) for one in attempts] == [
        (1, "failed", 3)
    ]
    assert problem_of(api.post(f"/v1/runs/{run.run_id}/rerun"))["status"] == 409
    assert AuditEntry.objects.filter(action="rerun").count() == 1


def test_a_deleted_jobs_run_is_not_run_again(api: APIClient) -> None:
    run = make_run(make_job())
    finish_run(claim_run(run))
    api.delete(f"/v1/jobs/{run.job_id}")
    refused = api.post(f"/v1/runs/{run.run_id}/rerun")
    assert "deleted" in problem_of(refused)["detail"]
    assert api.get(f"/v1/runs/{run.run_id}").status_code == 200


def test_attempts_tell_each_try_once(api: APIClient) -> None:
    run = make_run(make_job(retries=2))
    path = f"/v1/runs/{run.run_id}/attempts"
    assert api.get(path).json() == {"results": [], "next": None}
    finish_run(claim_run(run), "retrying", reason="exit_code", exit_code=1, retry_in_sec=0.0)
    assert [one["outcome"] for one in api.get(path).json()["results"]] == ["failed"]
    lifecycle.promote()
    claimed = claim_run(run, worker_id="worker-2")
    running = api.get(path).json()["results"]
    assert [(one["attempt"], one["outcome"]) for one in running] == [(1, "failed"), (2, None)]
    finish_run(claimed, "dead", outcome="timeout", reason="timeout")
    ended = api.get(path).json()["results"]
    assert [(one["attempt"], one["outcome"], one["workerId"]) for one in ended] == [
        (1, "failed", "worker-1"),
        (2, "timeout", "worker-2"),
    ]
    assert all(datetime.fromisoformat(one["finishedAt"]) for one in ended)


def test_a_finished_run_shows_what_it_gave_back(api: APIClient) -> None:
    run = make_run(make_job())
    finish_run(claim_run(run), output={"rows": 3}, output_ref="logs/x/", exit_code=0)
    body = api.get(f"/v1/runs/{run.run_id}").json()
    assert (body["output"], body["exitCode"], body["outputRef"]) == ({"rows": 3}, 0, "logs/x/")
    assert body["jobName"] == Job.objects.get().name
    assert "output" not in api.get("/v1/runs").json()["results"][0]


def test_explain_says_who_could_take_a_queued_run(api: APIClient) -> None:
    run = make_run(make_job(pool="gpu"))
    path = f"/v1/runs/{run.run_id}/explain"
    assert "no live worker serves the pool gpu" in api.get(path).json()["summary"]
    Worker.objects.create(
        worker_id="w", name="w", hostname="h", pid=1, pools=["gpu"], concurrency=1, version="0"
    )
    assert "waiting for a free worker" in api.get(path).json()["summary"]
    Run.objects.update(published_at=None)
    assert "about to be published" in api.get(path).json()["summary"]


def test_explain_says_how_a_run_ended(api: APIClient) -> None:
    run = make_run(make_job(retries=1))
    path = f"/v1/runs/{run.run_id}/explain"
    finish_run(claim_run(run), "retrying", reason="timeout", retry_in_sec=60.0)
    assert "next is due at" in api.get(path).json()["summary"]
    api.post(f"/v1/runs/{run.run_id}/cancel")
    assert api.get(path).json()["summary"] == (
        "Ended cancelled after attempt 1: it was cancelled on request."
    )


def test_explain_tells_a_lost_attempt_that_is_tried_again_from_the_last_one(
    api: APIClient, settings: Settings
) -> None:
    settings.CHRONO_MAX_LOST = 1
    for reason, words in (
        ("crashed", "its process died"),
        ("worker_lost", "its worker stopped renewing the lease"),
    ):
        run = make_run(make_job())
        path = f"/v1/runs/{run.run_id}/explain"
        lifecycle.lose([held_of(claim_run(run))], reason=reason)
        due = optional_instant_text(read_run(run_ref(run)).available_at)
        assert api.get(path).json()["summary"] == (
            f"Attempt 1 did not succeed ({words}); the next is due at {due}."
        )
        Run.objects.filter(run_id=run.run_id).update(available_at=run.created_at)
        lifecycle.promote()
        lifecycle.lose([held_of(claim_run(run))], reason=reason)
        assert api.get(path).json()["summary"] == (
            f"Ended dead after attempt 2: {words}, more often than is tried again."
        )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("definition", "its definition cannot be executed"),
        ("exception", "its task raised an exception"),
        ("http_status", "its call was answered with a status that expectStatus does not name"),
        ("connection", "its call got no whole answer"),
        ("address_refused", "its call goes to an address that jobs may not call"),
        ("output", "its output cannot be kept"),
        ("internal", "the worker failed on it"),
    ],
)
def test_explain_carries_the_error_that_a_reason_stands_for(
    api: APIClient, reason: str, words: str
) -> None:
    run = make_run(make_job(retries=1))
    path = f"/v1/runs/{run.run_id}/explain"
    finish_run(claim_run(run), "retrying", reason=reason, error="what\nwas said", retry_in_sec=0)
    due = optional_instant_text(read_run(run_ref(run)).available_at)
    assert api.get(path).json()["summary"] == (
        f"Attempt 1 did not succeed ({words}: what was said); the next is due at {due}."
    )
    lifecycle.promote()
    finish_run(claim_run(run), "dead", reason=reason, error="Host: 'x' is no host.")
    assert api.get(path).json()["summary"] == (
        f"Ended dead after attempt 2: {words}: Host: 'x' is no host."
    )


# --- many -----------------------------------------------------------------------------------


def test_many_are_triggered_cancelled_and_run_again_in_sets() -> None:
    jobs = [make_job() for _ in range(3)]
    ids = [job.job_id for job in jobs]
    assert services.jobs_trigger([*ids, *ids], actor="ops") == 3
    run_ids = list(Run.objects.values_list("run_id", flat=True))
    assert services.runs_rerun(run_ids, actor="ops") == 0
    assert services.runs_cancel(run_ids, actor="ops") == 3
    assert services.runs_cancel(run_ids, actor="ops") == 0
    assert services.runs_rerun(run_ids, actor="ops") == 3
    assert services.runs_cancel([], actor="ops") == 0
    acts = list(AuditEntry.objects.order_by("audit_id").values_list("action", "actor"))
    assert acts == [(act, "ops") for act in ("trigger", "cancel", "rerun") for _ in range(3)]
    assert set(Run.objects.values_list("status", flat=True)) == {"queued"}
