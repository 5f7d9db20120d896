"""Schedules shown before they are saved: previews, and dry runs of edits."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from rest_framework.test import APIClient

from chronoproject.clock import db_now
from jobs.models import Job, JobVersion, Team
from runs.models import Run
from tests.api.support import fields_of
from tests.factories import make_job, set_next

pytestmark = pytest.mark.django_db


def preview(api: APIClient, **body: Any) -> Any:  # noqa: ANN401 - its response
    return api.post("/v1/schedules/preview", body, format="json")


def test_a_cron_expression_with_the_change_of_the_clocks(api: APIClient) -> None:
    answer = preview(
        api,
        schedule="30 2 * * *",
        timezone="Europe/Berlin",
        count=3,
        after="2026-03-27T12:00:00Z",
    )
    assert answer.status_code == 200
    body = answer.json()
    assert body["description"] == "At 02:30, every day"
    note = "02:30 does not exist on 2026-03-29: runs at 03:00"
    assert body["ticks"] == [
        {
            "tick": "2026-03-28T01:30:00.000000Z",
            "local": "2026-03-28T02:30:00+01:00",
            "note": None,
        },
        {"tick": "2026-03-29T01:00:00.000000Z", "local": "2026-03-29T03:00:00+02:00", "note": note},
        {
            "tick": "2026-03-30T00:30:00.000000Z",
            "local": "2026-03-30T02:30:00+02:00",
            "note": None,
        },
    ]
    assert [one["text"] for one in body["notes"]] == [
        note,
        "02:30 comes twice on 2026-10-25: runs the first time only",
    ]


def test_the_other_dst_policy(api: APIClient) -> None:
    body = preview(
        api,
        schedule="30 2 * * *",
        timezone="Europe/Berlin",
        dstPolicy="skip",
        count=1,
        after="2026-03-28T12:00:00Z",
    ).json()
    assert body["ticks"][0]["tick"] == "2026-03-30T00:30:00.000000Z"
    assert body["notes"][0]["text"].endswith("does not run (dstPolicy skip)")


def test_one_instant_local_to_a_zone(api: APIClient) -> None:
    body = preview(
        api,
        schedule={"runAt": "2026-07-01T08:00:00"},
        timezone="Asia/Tokyo",
        after="2026-03-27T12:00:00Z",
    ).json()
    assert [one["tick"] for one in body["ticks"]] == ["2026-06-30T23:00:00.000000Z"]
    assert body["ticks"][0]["local"] == "2026-07-01T08:00:00+09:00"
    assert body["description"] == "Once, at 2026-06-30T23:00:00.000000Z"


def test_an_interval(api: APIClient) -> None:
    body = preview(api, schedule={"everySec": 90}, count=2, after="2026-03-27T12:00:00.5Z").json()
    ticks = [one["tick"] for one in body["ticks"]]
    assert ticks == ["2026-03-27T12:01:30.000000Z", "2026-03-27T12:03:00.000000Z"]


def test_h_is_that_of_the_job(api: APIClient, team: Team) -> None:
    job = make_job(team, schedule="H H * * *")
    body = preview(api, schedule="H H * * *", jobId=str(job.job_id), count=1).json()
    assert job.next.next_run_at is not None
    assert datetime.fromisoformat(body["ticks"][0]["tick"]) == job.next.next_run_at


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"schedule"}),
        ({"schedule": "61 * * * *"}, {"schedule"}),
        ({"schedule": "0 0 30 2 *"}, {"schedule"}),
        ({"schedule": "0 0 * * *", "timezone": "Mars/Olympus"}, {"timezone"}),
        ({"schedule": "0 0 * * *", "count": 5000, "n": 1}, {"count", "n"}),
        ({"schedule": {"everySec": 0}}, {"schedule.everySec"}),
        ({"schedule": "0 0 * * *", "after": "2026-03-27T12:00:00"}, {"after"}),
    ],
)
def test_bad_previews_are_named(api: APIClient, body: dict[str, Any], fields: set[str]) -> None:
    assert fields_of(preview(api, **body)) == fields


# --- dry runs -------------------------------------------------------------------------------


def nightly(team: Team, schedule: str, **fields: Any) -> Job:  # noqa: ANN401
    return make_job(team, schedule=schedule, timezone="Europe/Berlin", **fields)


def far_hour() -> int:
    """Return an hour of Berlin's day that neither now nor the end of the span is near."""
    return (db_now().astimezone(ZoneInfo("Europe/Berlin")).hour + 6) % 23


def dry_patch(api: APIClient, job: Job, **body: Any) -> Any:  # noqa: ANN401 - its response
    return api.patch(f"/v1/jobs/{job.job_id}?dryRun=true", body, format="json")


def unchanged(job: Job) -> bool:
    now = Job.objects.get(job_id=job.job_id)
    is_same = (now.version, now.schedule) == (1, job.schedule)
    is_same = is_same and now.next.next_run_at == job.next.next_run_at
    return is_same and JobVersion.objects.count() == 1 and not Run.objects.exists()


def test_an_hour_later_moves_each_tick(api: APIClient, team: Team) -> None:
    hour = far_hour()
    job = nightly(team, f"0 {hour} * * *")
    body = dry_patch(api, job, schedule=f"0 {hour + 1} * * *").json()
    assert body["counts"] in (
        {"added": 0, "removed": 0, "moved": 30, "kept": 0},
        {"added": 0, "removed": 0, "moved": 29, "kept": 1},  # the end of a gap, on that one date
    )
    moved = body["moved"][0]
    later = datetime.fromisoformat(moved["to"]) - datetime.fromisoformat(moved["from"])
    assert later == timedelta(hours=1)
    assert body["nextRunAt"] == moved["to"]
    assert (body["isComplete"], body["dryRun"], body["id"]) == (True, True, str(job.job_id))
    assert unchanged(job)


def test_more_ticks_are_added_and_what_both_have_is_kept(api: APIClient, team: Team) -> None:
    job = nightly(team, "0 12 * * *")
    counts = dry_patch(api, job, schedule="0 12,18 * * *").json()["counts"]
    assert counts == {"added": 30, "removed": 0, "moved": 0, "kept": 30}
    counts = dry_patch(api, job, schedule=None).json()["counts"]
    assert counts == {"added": 0, "removed": 30, "moved": 0, "kept": 0}
    counts = dry_patch(api, job, enabled=False).json()["counts"]
    assert counts["removed"] == 30
    assert dry_patch(api, job, description="no change").json()["counts"]["kept"] == 30
    assert unchanged(job)


def test_a_replacement_may_be_rehearsed_too(api: APIClient, team: Team) -> None:
    job = nightly(team, f"0 {far_hour()} * * *")
    definition = {"name": job.name, "command": "true", "schedule": job.schedule, "dryRun": True}
    answer = api.put(f"/v1/jobs/{job.job_id}", definition, format="json")
    assert answer.status_code == 200
    assert answer.json()["counts"]["moved"] == 30
    assert unchanged(job)
    assert (
        api.put(f"/v1/jobs/{job.job_id}", definition | {"dryRun": False}, format="json").json()[
            "timezone"
        ]
        == "UTC"
    )


def test_a_rehearsal_is_refused_as_the_edit_would_be(api: APIClient, team: Team) -> None:
    job, other = nightly(team, "0 2 * * *"), nightly(team, "0 2 * * *")
    assert fields_of(dry_patch(api, job, schedule="0 0 30 2 *")) == {"schedule"}
    assert fields_of(dry_patch(api, job, dryRun="no")) == {"dryRun"}
    assert dry_patch(api, job, name=other.name).status_code == 409
    path = f"/v1/jobs/{job.job_id}?dryRun=true"
    stale = api.patch(path, {"retries": 1}, format="json", headers={"If-Match": '"9"'})
    assert stale.status_code == 412
    assert api.patch(path.replace("true", "2"), {}, format="json").status_code == 422
    assert Job.objects.get(job_id=job.job_id).name == job.name


def test_due_ticks_are_not_settled_by_a_rehearsal(api: APIClient, team: Team) -> None:
    job = nightly(team, "0 2 * * *")
    due = db_now().replace(minute=0, second=0, microsecond=0)
    set_next(job, next_run_at=due)
    dry_patch(api, job, schedule="0 3 * * *")
    assert Job.objects.get(job_id=job.job_id).next.next_run_at == due
    assert not Run.objects.exists()
