"""The ledger and backfill over the API."""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from kombu.exceptions import OperationalError
from pytest_django import Settings
from rest_framework.test import APIClient

from chronoproject.clock import db_now
from jobs.choices import TokenRole
from jobs.fields import instant_text
from jobs.models import Job, Team
from jobs.services import job_delete, job_pause
from runs import backfill, operations
from runs.ids import run_id_of
from runs.models import Run
from tests.api.support import fields_of
from tests.factories import make_client, make_job

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def this_hour() -> datetime:
    return db_now().replace(minute=0, second=0, microsecond=0)


def post_backfill(api: APIClient, job: Job, **body: Any) -> Any:  # noqa: ANN401 - its response
    return api.post(f"/v1/jobs/{job.job_id}/backfill", body, format="json")


def span(hours: int) -> dict[str, str]:
    now = this_hour()
    return {"from": instant_text(now - hours * HOUR), "to": instant_text(now)}


def hourly(team: Team) -> tuple[Job, list[datetime]]:
    """A job that has just been made, and its three ticks before."""
    return make_job(team, schedule="0 * * * *"), [this_hour() - n * HOUR for n in (3, 2, 1)]


def test_backfill_makes_the_missing_ticks_and_the_ledger_has_them(
    api: APIClient, team: Team
) -> None:
    job, ticks = hourly(team)
    answer = post_backfill(api, job, **span(3))
    assert answer.status_code == 202
    body = answer.json()
    assert body["ticks"] == [
        {"tick": instant_text(tick), "runId": str(run_id_of(job.job_id, tick))} for tick in ticks
    ]
    assert (body["count"], body["dryRun"], body["operationId"]) == (3, False, None)
    runs = Run.objects.filter(job=job, trigger="backfill", priority="low")
    assert list(runs.order_by("scheduled_for").values_list("scheduled_for", flat=True)) == ticks
    listed = api.get(f"/v1/jobs/{job.job_id}/ticks", span(3)).json()
    assert listed["results"] == [
        {
            "tick": instant_text(tick),
            "fate": "run",
            "runId": str(run_id_of(job.job_id, tick)),
            "detail": "",
        }
        for tick in ticks
    ]
    assert listed["next"] is None


def test_a_dry_run_makes_nothing_and_says_the_same(api: APIClient, team: Team) -> None:
    job, _ = hourly(team)
    dry = post_backfill(api, job, **span(3), dryRun=True)
    assert dry.status_code == 202
    assert not Run.objects.exists()
    real = post_backfill(api, job, **span(3)).json()
    assert dry.json() | {"dryRun": False} == real
    assert post_backfill(api, job, **span(3)).json()["count"] == 0


def test_a_repeat_with_its_key_gets_the_first_answer(api: APIClient, team: Team) -> None:
    job, _ = hourly(team)
    headers = {"Idempotency-Key": "once"}
    path, body = f"/v1/jobs/{job.job_id}/backfill", span(3)
    first = api.post(path, body, format="json", headers=headers)
    again = api.post(path, body, format="json", headers=headers)
    assert first.json() == again.json()
    assert first.json()["count"] == 3


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (lambda body: body | {"from": "2001-01-01T00:00:00Z"}, {"from"}),
        (lambda body: body | {"to": body["from"]}, {"to"}),
        (lambda body: {"to": body["to"]}, {"from"}),
        (lambda body: body | {"from": "2030-01-01T00:00:00"}, {"from"}),
        (lambda body: body | {"until": body["to"], "dryRun": "yes"}, {"until", "dryRun"}),
    ],
)
def test_bad_spans_are_named(
    api: APIClient,
    team: Team,
    change: Callable[[dict[str, str]], dict[str, Any]],
    fields: set[str],
) -> None:
    job, _ = hourly(team)
    assert fields_of(post_backfill(api, job, **change(span(3)))) == fields
    assert not Run.objects.exists()


@pytest.mark.parametrize("dry", [False, True])
def test_a_job_without_ticks_of_its_own_is_not_backfilled(
    api: APIClient, team: Team, dry: bool
) -> None:
    top, ticks = hourly(team)
    driven, alone = make_job(team, dependsOn=[str(top.job_id)]), make_job(team)
    for job, instead in ((driven, "backfill the job that drives it"), (alone, "trigger it")):
        answer = post_backfill(api, job, **span(3), dryRun=dry)
        assert fields_of(answer) == {"schedule"}
        assert instead in answer.json()["errors"][0]["message"]
    assert not Run.objects.exists()
    assert post_backfill(api, top, **span(3)).json()["count"] == len(ticks)
    assert Run.objects.filter(job=driven).count() == len(ticks)


def test_a_job_that_once_had_a_schedule_has_ticks_of_that_time(api: APIClient, team: Team) -> None:
    job = make_job(team, schedule="* * * * *")
    api.patch(f"/v1/jobs/{job.job_id}", {"schedule": None}, format="json")
    assert post_backfill(api, job, **span(1)).status_code == 202


def test_a_large_backfill_is_handed_to_the_workers(
    api: APIClient, team: Team, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(backfill, "INLINE_TICKS", 2)

    def apply_async(*, args: list[str], queue: str) -> Any:  # noqa: ANN401 - stands for Celery's handle
        assert queue == operations.QUEUE
        sent.append(args)
        return type("Handle", (), {"id": "op-1"})

    monkeypatch.setattr(operations.backfill_job, "apply_async", apply_async)
    job, ticks = hourly(team)
    body = post_backfill(api, job, **span(3)).json()
    assert (body["count"], body["operationId"]) == (3, "op-1")
    assert not Run.objects.exists()
    (args,) = sent
    assert operations.backfill_job(*args) == {"made": 3}
    assert Run.objects.filter(job=job).count() == len(ticks)


def test_a_large_backfill_without_a_broker_is_told(
    api: APIClient, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "INLINE_TICKS", 2)

    def refuse(**options: object) -> None:
        raise OperationalError("no broker")

    monkeypatch.setattr(operations.backfill_job, "apply_async", refuse)
    assert post_backfill(api, hourly(team)[0], **span(3)).status_code == 503


def test_backfill_is_for_editors_of_the_team(
    other_api: APIClient, api: APIClient, team: Team
) -> None:
    job, _ = hourly(team)
    assert post_backfill(other_api, job, **span(3)).status_code == 404
    viewer = make_client(team, role=TokenRole.VIEWER)
    assert post_backfill(viewer, job, **span(3)).status_code == 403
    job_delete(job, actor="test")
    assert post_backfill(api, job, **span(3)).status_code == 404


# --- the ledger -----------------------------------------------------------------------------


def ticks_of(api: APIClient, job: Job, **params: Any) -> Any:  # noqa: ANN401 - its response
    return api.get(f"/v1/jobs/{job.job_id}/ticks", params)


def test_ticks_to_come_are_due_and_those_of_a_pause_paused(api: APIClient, team: Team) -> None:
    job = make_job(team, schedule="* * * * *")
    to = instant_text(db_now() + 5 * MINUTE)
    results = ticks_of(api, job, to=to).json()["results"]
    assert {one["fate"] for one in results} == {"due"}
    assert len(results) in {4, 5}
    job_pause(job, actor="test")
    assert {one["fate"] for one in ticks_of(api, job, to=to).json()["results"]} == {"paused"}


def test_pages_follow_one_another_oldest_first(api: APIClient, team: Team) -> None:
    job = make_job(team, schedule="* * * * *")
    post_backfill(api, job, **span(1))
    url: str | None = f"/v1/jobs/{job.job_id}/ticks?limit=25&to={instant_text(this_hour())}"
    found: list[str] = []
    pages = 0
    while url is not None:
        body = api.get(url).json()
        found += [one["tick"] for one in body["results"]]
        url, pages = body["next"], pages + 1
    assert pages == 3
    assert found == [instant_text(this_hour() - HOUR + n * MINUTE) for n in range(60)]


def test_a_deleted_job_s_ledger_stays_readable(api: APIClient, team: Team) -> None:
    job, ticks = hourly(team)
    post_backfill(api, job, **span(3))
    job_delete(job, actor="test")
    assert len(ticks_of(api, job).json()["results"]) == len(ticks)


def test_other_teams_ledgers_and_bad_parameters(
    api: APIClient, other_api: APIClient, team: Team
) -> None:
    job, _ = hourly(team)
    assert ticks_of(other_api, job).status_code == 404
    assert api.get(f"/v1/jobs/{uuid.uuid4()}/ticks").status_code == 404
    assert fields_of(ticks_of(api, job, **{"from": "now", "status": "run"})) == {"from", "status"}
    reversed_span = {"from": span(1)["to"], "to": span(1)["from"]}
    assert fields_of(ticks_of(api, job, **reversed_span)) == {"to"}
    before_retention = {"from": "2001-01-01T00:00:00Z", "to": "2001-01-02T00:00:00Z"}
    assert ticks_of(api, job, **before_retention).json() == {"results": [], "next": None}
