"""The life of a job over the API: bodies, rows, versions, and what stays away."""

import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from chronoproject.clock import db_now
from jobs.choices import TokenRole
from jobs.fields import instant_text
from jobs.models import Job, JobNext, JobVersion, Team
from runs.models import Misfire, Run
from tests.api.support import fields_of, problem_of
from tests.factories import claim_run, make_client, make_job, make_run, make_team, this_second

pytestmark = pytest.mark.django_db

DEFAULTS: dict[str, Any] = {
    "description": "",
    "tags": [],
    "schedule": None,
    "timezone": "UTC",
    "dstPolicy": "vixie",
    "startsAt": None,
    "endsAt": None,
    "enabled": True,
    "payload": None,
    "env": {},
    "timeoutSec": 3600,
    "killGraceSec": 10,
    "retries": 0,
    "backoff": {"baseSec": 10, "factor": 2, "maxSec": 3600, "jitter": 0.1},
    "retryOn": "all",
    "maxConcurrency": None,
    "concurrencyPolicy": "queue",
    "concurrencyKey": None,
    "misfirePolicy": "run_once",
    "misfireGraceSec": 60,
    "maxCatchup": 100,
    "dependsOn": [],
    "triggerRule": "all_success",
    "dependencyTimeoutSec": 86400,
    "priority": "normal",
    "pool": "default",
    "slaSec": None,
    "pauseReason": "",
    "nextRunAt": None,
    "lastRun": None,
    "version": 1,
    "owner": "data",
}


def test_create_fills_in_every_default(api: APIClient, team: Team) -> None:
    response = api.post("/v1/jobs", {"name": "nightly", "command": "true"}, format="json")

    assert response.status_code == 201
    body = response.json()
    job = Job.objects.get()
    at = instant_text(job.created_at)
    own = {"id": str(job.job_id), "name": "nightly", "command": "true"}
    assert body == {**DEFAULTS, **own, "createdAt": at, "updatedAt": at}
    assert response.headers["ETag"] == '"1"'
    assert response.headers["Location"] == f"/v1/jobs/{job.job_id}"
    assert api.get(response.headers["Location"]).json() == body
    assert (job.owner, job.kind, job.payload) == (team, "command", {"command": "true"})


def test_create_writes_the_first_version(api: APIClient) -> None:
    api.post("/v1/jobs", {"name": "nightly", "command": ["echo", "hi"]}, format="json")

    version = JobVersion.objects.get()
    assert (version.version, version.change, version.valid_to) == (1, "create", None)
    assert version.valid_from == Job.objects.get().created_at
    assert version.changed_by.startswith("a token (chrono_")
    assert version.definition["kind"] == "command"
    assert version.definition["payload"] == {"command": ["echo", "hi"]}
    assert "command" not in version.definition


def test_next_run_is_computed_in_the_jobs_zone(api: APIClient) -> None:
    response = api.post(
        "/v1/jobs",
        {"name": "j", "command": "x", "schedule": "30 2 * * *", "timezone": "Asia/Kolkata"},
        format="json",
    )
    following = datetime.fromisoformat(response.json()["nextRunAt"])
    assert (following.hour, following.minute, following.second) == (21, 0, 0)
    assert timedelta(0) < following - db_now() <= timedelta(days=1)


def test_an_interval_is_anchored_at_creation_in_whole_seconds(api: APIClient) -> None:
    response = api.post(
        "/v1/jobs", {"name": "j", "command": "x", "schedule": {"everySec": 90}}, format="json"
    )
    job = Job.objects.get()
    anchor = job.created_at.replace(microsecond=0)
    assert response.json()["schedule"] == {"everySec": 90, "anchor": instant_text(anchor)}
    assert job.next.next_run_at == anchor + timedelta(seconds=90)

    again = api.put(
        f"/v1/jobs/{job.job_id}",
        {"name": "j", "command": "x", "schedule": {"everySec": 90}},
        format="json",
    )
    assert again.json()["version"] == 1, "the default anchor is the creation's, also on PUT"


def test_a_local_run_at_is_resolved_in_the_zone(api: APIClient) -> None:
    body = {"name": "j", "command": "x", "timezone": "Europe/Berlin"}
    response = api.post(
        "/v1/jobs", {**body, "schedule": {"runAt": "2090-01-31T08:00:00.9"}}, format="json"
    )
    assert response.json()["schedule"] == {"runAt": "2090-01-31T07:00:00.000000Z"}
    assert response.json()["nextRunAt"] == "2090-01-31T07:00:00.000000Z"


def test_what_is_read_can_be_written_back_unchanged(api: APIClient) -> None:
    upstream = make_job(schedule="0 4 * * *")
    body = {
        "name": "full",
        "description": "all of it",
        "tags": ["a", "b"],
        "schedule": "0 0 4 * * *",
        "timezone": "Europe/Paris",
        "payload": {"type": "http", "url": "https://example.org/x", "body": {"a": [1, None]}},
        "env": {"A": "b"},
        "backoff": {"baseSec": 1},
        "retryOn": [3, "timeout", "5xx"],
        "maxConcurrency": 2,
        "concurrencyKey": "k",
        "slaSec": 60,
        "startsAt": "2026-01-01T00:00:00+02:00",
        "endsAt": "2090-01-01T00:00:00Z",
        "dependsOn": [str(upstream.job_id)],
    }
    created = api.post("/v1/jobs", body, format="json")
    assert created.status_code == 201, created.content
    read = created.json()
    assert read["payload"]["method"] == "POST"
    assert read["startsAt"] == "2025-12-31T22:00:00.000000Z"
    assert read["dependsOn"] == [str(upstream.job_id)]

    written = api.put(f"/v1/jobs/{read['id']}", read, format="json")

    assert written.status_code == 200, written.content
    assert written.json() == read
    assert JobVersion.objects.filter(job_id=read["id"]).count() == 1


def test_put_replaces_and_ignores_what_is_read_only(api: APIClient) -> None:
    job = make_job(retries=3, tags=["x"], schedule="* * * * *")
    body = {"name": "other", "command": "false", "id": "nonsense", "version": 99, "lastRun": 1}

    response = api.put(f"/v1/jobs/{job.job_id}", body, format="json")

    assert response.status_code == 200
    read = response.json()
    assert (read["retries"], read["tags"], read["schedule"]) == (0, [], None)
    assert (read["id"], read["version"], read["nextRunAt"]) == (str(job.job_id), 2, None)
    assert response.headers["ETag"] == '"2"'


def test_patch_replaces_top_level_fields_only(api: APIClient) -> None:
    job = make_job(retries=3, backoff={"baseSec": 1, "maxSec": 5})

    response = api.patch(f"/v1/jobs/{job.job_id}", {"backoff": {"factor": 3}}, format="json")

    assert response.json()["retries"] == 3
    assert response.json()["backoff"] == {"baseSec": 10, "factor": 3, "maxSec": 3600, "jitter": 0.1}


def test_patch_of_the_payload_takes_the_commands_place(api: APIClient) -> None:
    job = make_job()
    payload = {"type": "http", "url": "http://example.org/"}

    response = api.patch(f"/v1/jobs/{job.job_id}", {"payload": payload}, format="json")

    assert response.json()["command"] is None
    assert response.json()["payload"]["url"] == "http://example.org/"
    back = api.patch(f"/v1/jobs/{job.job_id}", {"command": "true"}, format="json")
    assert (back.json()["command"], back.json()["payload"]) == ("true", None)
    neither = api.patch(f"/v1/jobs/{job.job_id}", {"command": None}, format="json")
    assert fields_of(neither) == {"command", "payload"}


def test_versions_follow_one_another_without_a_gap(api: APIClient) -> None:
    job = make_job()
    api.patch(f"/v1/jobs/{job.job_id}", {"retries": 1}, format="json")
    api.post(f"/v1/jobs/{job.job_id}/pause", {"reason": "rest"}, format="json")
    api.post(f"/v1/jobs/{job.job_id}/resume")

    body = api.get(f"/v1/jobs/{job.job_id}/versions").json()

    assert body["next"] is None
    versions = body["results"]
    assert [(v["version"], v["change"]) for v in versions] == [
        (4, "resume"),
        (3, "pause"),
        (2, "update"),
        (1, "create"),
    ]
    assert [v["validTo"] for v in versions] == [None, *(v["validFrom"] for v in versions[:-1])]
    assert [v["definition"]["enabled"] for v in versions] == [True, False, True, True]
    assert versions[0]["definition"]["command"] == "true"


def test_pause_and_resume_are_repeatable(api: APIClient) -> None:
    job = make_job(schedule="* * * * *")
    for _ in range(2):
        paused = api.post(f"/v1/jobs/{job.job_id}/pause", {"reason": "rest"}, format="json")
        assert paused.status_code == 200
    body = paused.json()
    assert (body["enabled"], body["nextRunAt"], body["pauseReason"]) == (False, None, "rest")
    assert body["version"] == 2

    edited = api.patch(f"/v1/jobs/{job.job_id}", {"retries": 2}, format="json").json()
    assert (edited["enabled"], edited["nextRunAt"], edited["pauseReason"]) == (False, None, "rest")

    body = {"name": job.name, "command": "false", "schedule": "0 * * * *"}
    put = api.put(f"/v1/jobs/{job.job_id}", body, format="json").json()
    assert (put["enabled"], put["nextRunAt"], put["pauseReason"]) == (False, None, "rest")

    for _ in range(2):
        resumed = api.post(f"/v1/jobs/{job.job_id}/resume").json()
    assert (resumed["enabled"], resumed["version"], resumed["pauseReason"]) == (True, 5, "")
    assert datetime.fromisoformat(resumed["nextRunAt"]) > db_now()


def test_an_edit_settles_the_ticks_of_the_version_in_force(api: APIClient) -> None:
    job = make_job(schedule="* * * * * *")
    now = db_now().replace(microsecond=0)
    JobNext.objects.filter(job=job).update(next_run_at=now - timedelta(seconds=2))

    response = api.patch(f"/v1/jobs/{job.job_id}", {"schedule": "0 0 1 1 *"}, format="json")

    versions = set(Run.objects.filter(job=job).values_list("job_version", "trigger"))
    assert versions == {(1, "schedule")}
    changed_at = datetime.fromisoformat(response.json()["updatedAt"])
    ticks = set(Run.objects.filter(job=job).values_list("scheduled_for", flat=True))
    assert {now - timedelta(seconds=back) for back in (0, 1, 2)} <= ticks
    assert max(ticks) <= changed_at
    assert datetime.fromisoformat(response.json()["nextRunAt"]) > changed_at


def test_ticks_of_a_pause_are_recorded_as_paused(api: APIClient) -> None:
    job = make_job(schedule="* * * * * *")
    api.post(f"/v1/jobs/{job.job_id}/pause")
    long_ago = db_now() - timedelta(seconds=30)
    JobVersion.objects.filter(job=job, version=2).update(valid_from=long_ago)

    api.post(f"/v1/jobs/{job.job_id}/resume")

    misfire = Misfire.objects.get(job=job, tick_count__gte=29)
    assert (misfire.rule, misfire.job_version) == ("paused", 2)


def test_if_match_lets_only_the_present_version_through(api: APIClient) -> None:
    job = make_job()
    path = f"/v1/jobs/{job.job_id}"
    stale = api.patch(path, {"retries": 1}, format="json", headers={"If-Match": '"7"'})
    assert stale.status_code == 412
    assert stale.headers["ETag"] == '"1"'
    problem_of(stale)
    weak = api.put(path, {"name": "x"}, format="json", headers={"If-Match": 'W/"1"'})
    assert weak.status_code == 422, "what is wrong with the body is told first"
    assert api.delete(path, headers={"If-Match": 'W/"1"'}).status_code == 412
    assert Job.objects.get().version == 1

    fresh = api.patch(path, {"retries": 1}, format="json", headers={"If-Match": '"0", "1"'})
    assert (fresh.status_code, fresh.headers["ETag"]) == (200, '"2"')
    assert api.post(f"{path}/pause", headers={"If-Match": '"1"'}).status_code == 412
    assert api.delete(path, headers={"If-Match": "*"}).status_code == 204


def test_a_name_is_unique_in_the_team_only(api: APIClient, other_api: APIClient) -> None:
    body = {"name": "same", "command": "true"}
    assert api.post("/v1/jobs", body, format="json").status_code == 201
    assert other_api.post("/v1/jobs", body, format="json").status_code == 201

    again = api.post("/v1/jobs", body, format="json")
    assert again.status_code == 409
    assert problem_of(again)["errors"][0]["field"] == "name"
    other = make_job()
    renamed = api.patch(f"/v1/jobs/{other.job_id}", {"name": "same"}, format="json")
    assert renamed.status_code == 409
    assert Job.objects.filter(name="same").count() == 2


def test_delete_ends_what_has_not_started_and_keeps_the_history(api: APIClient) -> None:
    job = make_job(name="gone", schedule="* * * * *")
    now = this_second()
    running = make_run(job, now - timedelta(minutes=2))
    claim_run(running)
    queued = make_run(job, now - timedelta(minutes=1))
    path = f"/v1/jobs/{job.job_id}"

    response = api.delete(path)

    assert (response.status_code, response.content) == (204, b"")
    assert api.delete(path).status_code == 404
    assert api.get(path).status_code == 404
    assert api.put(path, {"name": "x", "command": "x"}, format="json").status_code == 404
    assert api.patch(path, {"retries": 1}, format="json").status_code == 404
    assert api.post(f"{path}/trigger").status_code == 404
    assert api.post(f"{path}/pause").status_code == 404
    runs = api.get(f"{path}/runs").json()["results"]
    assert [(run["id"], run["status"], run["reason"]) for run in runs] == [
        (str(queued.run_id), "cancelled", "job_deleted"),
        (str(running.run_id), "running", ""),
    ]
    assert api.get(f"{path}/versions").json()["results"][0]["change"] == "delete"
    assert api.get("/v1/jobs?name=gone").json()["results"] == []
    assert api.post("/v1/jobs", {"name": "gone", "command": "x"}, format="json").status_code == 201


def test_last_run_is_the_newest_tick(api: APIClient) -> None:
    job = make_job()
    now = this_second()
    make_run(job, now - timedelta(minutes=2))
    newest = make_run(job, now - timedelta(minutes=1))
    other = make_job()

    listed = {one["id"]: one for one in api.get("/v1/jobs").json()["results"]}

    assert listed[str(job.job_id)]["lastRun"]["id"] == str(newest.run_id)
    assert listed[str(job.job_id)]["lastRun"]["jobName"] == job.name
    assert listed[str(other.job_id)]["lastRun"] is None


def test_a_past_run_at_is_accepted_only_where_it_stood_before(api: APIClient) -> None:
    late = {"runAt": "2020-01-01T00:00:00Z"}
    body = {"name": "j", "command": "x", "schedule": late}
    assert fields_of(api.post("/v1/jobs", body, format="json")) == {"schedule.runAt"}
    job = make_job(schedule={"runAt": "2090-01-01T00:00:00Z"})
    past = db_now().replace(microsecond=0) - timedelta(days=1)
    Job.objects.filter(pk=job.pk).update(run_at=past)
    JobNext.objects.filter(job=job).update(next_run_at=None)
    path = f"/v1/jobs/{job.job_id}"

    patched = api.patch(path, {"retries": 1}, format="json")
    assert (patched.status_code, patched.json()["nextRunAt"]) == (200, None)
    put = api.put(path, {**patched.json(), "retries": 2}, format="json")
    assert put.status_code == 200
    assert fields_of(api.patch(path, {"schedule": late}, format="json")) == {"schedule.runAt"}


def test_upstreams_must_be_jobs_of_the_team(api: APIClient) -> None:
    mine, gone = make_job(), make_job()
    foreign = make_job(make_team("rivals"))
    api.delete(f"/v1/jobs/{gone.job_id}")
    wanted = [mine, foreign, gone]
    edges = [str(job.job_id) for job in wanted] + [str(uuid.uuid4())]

    response = api.post(
        "/v1/jobs", {"name": "d", "command": "x", "dependsOn": edges}, format="json"
    )

    assert fields_of(response) == {"dependsOn[1]", "dependsOn[2]", "dependsOn[3]"}
    assert not Job.objects.filter(name="d").exists()
    path = f"/v1/jobs/{mine.job_id}"
    changed = api.patch(path, {"dependsOn": [{"jobId": str(foreign.job_id)}]}, format="json")
    assert fields_of(changed) == {"dependsOn[0]"}


def test_another_teams_job_is_no_job(api: APIClient, other_api: APIClient) -> None:
    job = make_job()
    path = f"/v1/jobs/{job.job_id}"
    answers = [
        other_api.get(path),
        other_api.put(path, {"name": "x", "command": "x"}, format="json"),
        other_api.patch(path, {"retries": 1}, format="json"),
        other_api.delete(path),
        *(other_api.post(f"{path}/{verb}") for verb in ("pause", "resume", "trigger")),
        *(other_api.get(f"{path}/{part}") for part in ("runs", "versions")),
    ]
    assert {answer.status_code for answer in answers} == {404}
    for answer in answers:
        assert problem_of(answer)["detail"] == "There is no such job."
    assert other_api.get("/v1/jobs").json() == {"results": [], "next": None}
    assert Job.objects.get().version == 1


def test_a_viewer_reads_only(team: Team) -> None:
    viewer = make_client(team, role=TokenRole.VIEWER)
    job = make_job(team)
    path = f"/v1/jobs/{job.job_id}"
    assert viewer.get(path).status_code == 200
    refused = [
        viewer.post("/v1/jobs", {"name": "x", "command": "x"}, format="json"),
        viewer.patch(path, {"retries": 1}, format="json"),
        viewer.delete(path),
        viewer.post(f"{path}/trigger"),
    ]
    assert {problem_of(answer)["status"] for answer in refused} == {403}
    assert Job.objects.get().version == 1
