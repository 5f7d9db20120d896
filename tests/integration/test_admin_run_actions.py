"""What an operator does to runs: exactly the rows it is about, and what is said of them."""

import base64
import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from django.http import HttpResponseBase
from django.test import Client
from django.urls import reverse
from kombu.exceptions import OperationalError as BrokerError

from chronoproject.clock import db_now
from jobs.models import AuditEntry, Job
from runs import lifecycle, operations
from runs.decisions import new_run
from runs.models import Run
from runs.settling import as_due
from tests.factories import claim_run, finish_run, make_job, make_run
from tests.integration.admin_support import JOBS, RUNS, act, press, run_ago, said, staff

pytestmark = pytest.mark.django_db


@pytest.fixture
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than two rows are a large selection."""
    monkeypatch.setattr("chronoproject.adminkit.bulk.AT_ONCE", 2)


def again(run: Run) -> Run:
    """Return the row as it is now."""
    return Run.objects.get(run_id=run.run_id, scheduled_for=run.scheduled_for)


def counted(response: HttpResponseBase) -> set[str]:
    """Return the parts of the one message after an act on several runs."""
    (told,) = said(response)
    return set(told.rstrip(".").split(", "))


def audited() -> list[tuple[str, str, str]]:
    """Return who did what to which run, oldest first."""
    entries = AuditEntry.objects.order_by("audit_id")
    return list(entries.values_list("actor", "action", "object_id"))


def many_runs(job: Job, count: int) -> list[Run]:
    """Return queued runs, one a second."""
    newest = db_now().replace(microsecond=0)
    ticks = [newest - timedelta(seconds=number) for number in range(count)]
    lifecycle.record_ticks([new_run(as_due(job), tick, priority="normal") for tick in ticks])
    return list(Run.objects.order_by("-run_id"))


def operation(valkey: redis.Redis) -> dict[str, Any]:
    """Return the one operation that was handed over: its task, its id and its arguments."""
    (message,) = valkey.lrange("chrono.operations", 0, -1)
    envelope = json.loads(message)
    args, _, _ = json.loads(base64.b64decode(envelope["body"]))
    return {"task": envelope["headers"]["task"], "id": envelope["headers"]["id"], "args": args}


def test_cancel_selected_ends_the_live_and_leaves_the_ended() -> None:
    job = make_job()
    queued, untouched = make_run(job), run_ago(job, timedelta(minutes=1))
    running = make_run(make_job())
    claim_run(running)
    done = finish_run(claim_run(make_run(make_job())))
    client = staff("runs.view_run", "runs.change_run")
    answer = act(client, RUNS, "cancel_selected", [queued.pk, running.pk, done.pk])
    assert counted(answer) == {
        "1 cancelled",
        "1 running and asked to stop",
        "1 were already finished",
    }
    assert (again(queued).status, again(queued).reason) == ("cancelled", "user")
    assert again(running).status == "running"
    assert again(running).cancel_requested_at is not None
    assert again(done).status == "succeeded"
    assert again(untouched).status == "queued"
    assert sorted(audited()) == sorted(
        ("admin:operator", "cancel", str(run.pk)) for run in (queued, running)
    )


def test_rerun_selected_gives_new_attempts_to_the_ended_alone() -> None:
    dead = finish_run(claim_run(make_run(make_job(retries=2))), "dead", reason="exit_code")
    queued = make_run(make_job())
    orphan = finish_run(claim_run(make_run(make_job())))
    Job.objects.filter(pk=orphan.job_id).update(deleted_at=orphan.created_at)
    client = staff("runs.view_run", "runs.change_run")
    answer = act(client, RUNS, "rerun_selected", [dead.pk, queued.pk, orphan.pk])
    assert counted(answer) == {
        "1 running again",
        "1 have not ended yet",
        "1 belong to a deleted job",
    }
    assert (again(dead).status, again(dead).attempt, again(dead).attempt_limit) == ("queued", 1, 4)
    assert (again(queued).status, again(queued).attempt) == ("queued", 0)
    assert again(orphan).status == "succeeded"
    assert audited() == [("admin:operator", "rerun", str(dead.pk))]


@pytest.mark.parametrize("action", ["cancel_selected", "rerun_selected"])
def test_actions_need_the_permission(action: str) -> None:
    run = make_run(make_job())
    dead = finish_run(claim_run(make_run(make_job())), "dead")
    answer = act(staff("runs.view_run"), RUNS, action, [run.pk, dead.pk])
    assert answer.status_code == 200
    assert (again(run).status, again(dead).status) == ("queued", "dead")
    assert audited() == []


@pytest.mark.parametrize("verb", ["cancel", "rerun"])
def test_buttons_need_the_permission_and_a_post(admin_client: Client, verb: str) -> None:
    run = make_run(make_job())
    url = reverse(f"admin:runs_run_{verb}", args=[run.pk])
    assert staff("runs.view_run").post(url).status_code == 403
    assert admin_client.get(url).status_code == 405
    assert Client().post(url).status_code == 302
    assert (
        admin_client.post(reverse(f"admin:runs_run_{verb}", args=[uuid.uuid4()])).status_code == 404
    )
    assert again(run).status == "queued"


def test_buttons_are_safe_from_forged_requests() -> None:
    run = make_run(make_job())
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root", password="secret"))
    assert client.post(reverse("admin:runs_run_cancel", args=[run.pk])).status_code == 403
    assert again(run).status == "queued"


def test_buttons_of_a_run(admin_client: Client) -> None:
    run = make_run(make_job())
    assert said(press(admin_client, "admin:runs_run_cancel", run.pk)) == ["1 cancelled."]
    assert said(press(admin_client, "admin:runs_run_cancel", run.pk)) == [
        "1 were already finished."
    ]
    assert said(press(admin_client, "admin:runs_run_rerun", run.pk)) == ["1 running again."]
    assert said(press(admin_client, "admin:runs_run_rerun", run.pk)) == ["1 have not ended yet."]
    assert [entry[1] for entry in audited()] == ["cancel", "rerun"]


def test_trigger_makes_a_run_and_shows_it(admin_client: Client) -> None:
    job = make_job(name="load")
    answer = press(admin_client, "admin:runs_job_trigger", job.pk)
    (run,) = Run.objects.all()
    assert (run.job_id, run.trigger, run.status) == (job.pk, "manual", "queued")
    assert answer.redirect_chain[-1][0] == reverse("admin:runs_run_change", args=[run.pk])  # type: ignore[attr-defined]
    assert audited() == [("admin:admin", "trigger", str(run.pk))]


def test_trigger_needs_the_permission_a_post_and_a_living_job(admin_client: Client) -> None:
    job = make_job()
    url = reverse("admin:runs_job_trigger", args=[job.pk])
    assert staff("jobs.view_job", "jobs.change_job").post(url).status_code == 403
    assert admin_client.get(url).status_code == 405
    Job.objects.filter(pk=job.pk).update(deleted_at=job.created_at)
    assert admin_client.post(url).status_code == 404
    assert not Run.objects.exists()


def test_trigger_selected_jobs() -> None:
    first, second, third = make_job(), make_job(), make_job()
    client = staff("jobs.view_job", "runs.add_run", "runs.view_run")
    answer = act(client, JOBS, "trigger_selected", [first.pk, second.pk])
    counts, links = said(answer)
    assert counts == "2 triggered."
    assert set(links.removeprefix("Their runs: ").split(", ")) == {first.name, second.name}
    runs = Run.objects.values_list("job_id", "trigger")
    assert sorted(runs) == sorted([(first.pk, "manual"), (second.pk, "manual")])
    refused = staff("jobs.view_job", "jobs.change_job", name="editor")
    act(refused, JOBS, "trigger_selected", [third.pk])
    assert Run.objects.count() == 2


@pytest.mark.usefixtures("two_at_once")
def test_large_selection_is_handed_to_an_operation(
    admin_client: Client, valkey: redis.Redis
) -> None:
    runs = many_runs(make_job(), 5)
    old = run_ago(make_job(), timedelta(days=2))
    fields = {"select_across": "1"}
    answer = act(admin_client, RUNS, "cancel_selected", [runs[0].pk], **fields)
    sent = operation(valkey)
    assert said(answer) == ["5 runs were handed to an operation: its result."]
    link = reverse("admin:django_celery_results_taskresult_changelist")
    assert f"{link}?q={sent['id']}" in str(next(iter(answer.context["messages"])))  # type: ignore[attr-defined]
    assert sent["task"] == "chrono.operations.cancel_runs"
    assert sent["args"] == [[str(run.pk) for run in runs], "admin:admin"]
    assert again(runs[0]).status == "queued"
    assert operations.cancel_runs(*sent["args"]) == {"asked": 5, "done": 5}
    assert {run.status for run in Run.objects.exclude(pk=old.pk)} == {"cancelled"}
    assert again(old).status == "queued"  # outside of the list's window


def test_selection_across_pages_keeps_to_the_filters(
    admin_client: Client, valkey: redis.Redis
) -> None:
    wanted, other = make_job(), make_job()
    run, rest = make_run(wanted), make_run(other)
    query = f"?job__job_id__exact={wanted.pk}"
    answer = act(admin_client, RUNS, "cancel_selected", [run.pk], select_across="1", query=query)
    assert said(answer) == ["1 cancelled."]
    assert (again(run).status, again(rest).status) == ("cancelled", "queued")
    assert valkey.llen("chrono.operations") == 0


@pytest.mark.usefixtures("two_at_once")
def test_selection_of_more_than_an_operation_takes_is_cut_and_told(
    admin_client: Client, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = many_runs(make_job(), 5)
    monkeypatch.setattr("chronoproject.adminkit.bulk.AT_MOST", 3)
    answer = act(admin_client, RUNS, "rerun_selected", [runs[0].pk], select_across="1")
    assert said(answer) == [
        "3 runs were handed to an operation: its result.",
        "More than 3 match; run the action again for those left.",
    ]
    assert operation(valkey)["args"][0] == [str(run.pk) for run in runs[:3]]


@pytest.mark.usefixtures("two_at_once")
def test_operation_is_not_claimed_when_redis_is_away(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = many_runs(make_job(), 3)

    def refuse(*_: object) -> None:
        raise BrokerError("refused")

    monkeypatch.setattr(operations, "hand_over", refuse)
    answer = act(admin_client, RUNS, "cancel_selected", [runs[0].pk], select_across="1")
    assert said(answer) == ["Redis does not answer, so nothing was handed over; try again."]


def test_large_trigger_is_handed_to_an_operation(
    admin_client: Client, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chronoproject.adminkit.bulk.AT_ONCE", 1)
    jobs = [make_job(name="a"), make_job(name="b")]
    act(admin_client, JOBS, "trigger_selected", [jobs[0].pk], select_across="1")
    sent = operation(valkey)
    assert sent["task"] == "chrono.operations.trigger_jobs"
    assert sent["args"] == [[str(job.pk) for job in jobs], "admin:admin"]
    assert not Run.objects.exists()
