"""Jobs in the admin: every write goes through the services, every refusal lands on its field."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpResponseBase
from django.test import Client, RequestFactory
from django.urls import reverse

from jobs.hooks import Edge, hooks
from jobs.models import Job, JobVersion
from tests.factories import (
    claim_run,
    finish_run,
    make_job,
    make_run,
    make_team,
    set_next,
    this_second,
)
from tests.integration.admin_support import JOBS, act, body, press, run_ago, said, shown, staff

pytestmark = pytest.mark.django_db
ADD = "admin:jobs_job_add"


def form_of(job: Job | None = None, **changes: object) -> dict[str, Any]:
    """Return what the browser would send from the form as it is shown, with some changes."""
    request = RequestFactory().get("/")
    request.user = User.objects.get(username="admin")
    form_class = admin.site.get_model_admin(Job).get_form(request, job, change=job is not None)
    form = form_class() if job is None else form_class(instance=job)
    sent = {}
    for name in form.fields:
        bound = form[name]
        value = bound.value()
        typed = bound.field.widget.format_value(value)
        if value is True:
            sent[name] = "on"
        elif value is not False and typed not in (None, ""):
            sent[name] = typed[0] if isinstance(typed, list) else typed
    return {**sent, **changes}


def save(client: Client, job: Job | None = None, **changes: object) -> HttpResponseBase:
    """Send the form."""
    sent = form_of(job, **changes)
    url = reverse(ADD) if job is None else reverse("admin:jobs_job_change", args=[job.pk])
    return client.post(url, {name: value for name, value in sent.items() if value is not None})


def errors(response: HttpResponseBase) -> dict[str, list[str]]:
    """Return what the page says next to which field."""
    assert response.status_code == 200
    form = response.context["adminform"].form  # type: ignore[attr-defined]
    return {name: [str(error) for error in found] for name, found in form.errors.items()}


def versions(job: Job) -> list[tuple[int, str, str]]:
    """Return the versions of a job, oldest first."""
    rows = JobVersion.objects.filter(job=job).order_by("version")
    return list(rows.values_list("version", "change", "changed_by"))


def test_added_job_has_its_version_and_its_next_run(admin_client: Client) -> None:
    team = make_team()
    answer = save(
        admin_client,
        owner=team.pk,
        name="load",
        schedule="0 2 * * *",
        timezone="Europe/Berlin",
        command="./load --all",
        tags="etl, nightly",
        env='{"A": "1"}',
        max_retries=2,
    )
    assert answer.status_code == 302
    job = Job.objects.get()
    assert (job.owner, job.name, job.schedule, job.kind) == (team, "load", "0 2 * * *", "command")
    assert (job.payload, job.env) == ({"command": "./load --all"}, {"A": "1"})
    assert (job.tags, job.max_retries, job.backoff_base_sec) == (["etl", "nightly"], 2, 10.0)
    assert job.next.next_run_at is not None
    assert job.next.next_run_at.hour in {0, 1}  # 02:00 in Berlin
    assert versions(job) == [(1, "create", "admin:admin")]


def test_command_as_words_and_payloads(admin_client: Client) -> None:
    team = make_team()
    save(admin_client, owner=team.pk, name="words", command='["echo", "a b"]')
    save(
        admin_client, owner=team.pk, name="call", payload='{"type": "http", "url": "https://x.y/"}'
    )
    assert Job.objects.get(name="words").payload == {"command": ["echo", "a b"]}
    call = Job.objects.get(name="call")
    assert (call.kind, call.payload["url"]) == ("http", "https://x.y/")


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({"every_sec": 60}, ("every_sec", 60)),
        ({"run_at": "2040-01-02T03:04:05"}, ("run_at", "2040-01-02T03:04:05+00:00")),
    ],
)
def test_other_schedules(
    admin_client: Client, when: dict[str, Any], expected: tuple[str, object]
) -> None:
    answer = save(admin_client, owner=make_team().pk, name="x", command="true", **when)
    assert answer.status_code == 302
    value = getattr(Job.objects.get(), expected[0])
    assert (value.isoformat() if hasattr(value, "isoformat") else value) == expected[1]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"schedule": "99 * * * *"}, "schedule", "minute"),
        ({"timezone": "Mars/Olympus"}, "timezone", "Mars/Olympus"),
        ({"command": None}, "command", "exactly one"),
        ({"payload": '{"type": "http", "url": "https://x.y/"}'}, "payload", "exactly one"),
        ({"command": None, "payload": '{"type": "http", "url": "ftp://x"}'}, "payload", "http://"),
        ({"payload": "{"}, "payload", "valid JSON"),
        ({"payload": '{"type": "http", "type": "task"}'}, "payload", "'type' stands twice"),
        ({"env": '{"A": "1", "A": "2"}'}, "env", "'A' stands twice"),
        ({"env": '{"CHRONO_RUN_ID": "x"}'}, "env", "set by Chrono"),
        ({"env": "[1]"}, "env", "must be an object"),
        ({"run_at": "2001-01-01T00:00:00"}, "run_at", "in the past"),
        ({"schedule": "* * * * *", "every_sec": 5}, "schedule", "not two"),
        ({"max_retries": 101}, "max_retries", "from 0 to 100"),
        ({"backoff_factor": 0}, "backoff_factor", "must be"),
        ({"pool": "no blanks here"}, "pool", ""),
        ({"retry_on": '["never"]'}, "retry_on", "must be"),
        ({"depends_on": '["x"]'}, "depends_on", "not the id"),
        ({"starts_at": "nonsense"}, "starts_at", "valid date"),
    ],
)
def test_refusal_lands_on_its_field(
    admin_client: Client, changes: dict[str, Any], field: str, words: str
) -> None:
    sent: dict[str, Any] = {"owner": make_team().pk, "name": "x", "command": "true", **changes}
    found = errors(save(admin_client, **sent))
    assert words in " ".join(found[field]), found
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"command": None, "payload": '{"type": "http"}'},
            {"payload": ["payload.url: is required"]},
        ),
        ({"env": '{"A": 1}'}, {"env": ["env.A: must be a string"]}),
        (
            {"depends_on": '["x"]'},
            {"depends_on": ["dependsOn[0]: is not the id of a job of the team"]},
        ),
        ({"max_retries": 101}, {"max_retries": ["must be from 0 to 100"]}),
        ({"env": "[1]"}, {"env": ["must be an object"]}),
    ],
)
def test_refusal_within_a_field_says_where(
    admin_client: Client, changes: dict[str, Any], expected: dict[str, list[str]]
) -> None:
    sent: dict[str, Any] = {"owner": make_team().pk, "name": "x", "command": "true", **changes}
    assert errors(save(admin_client, **sent)) == expected


def test_name_of_another_job_is_refused(admin_client: Client) -> None:
    taken = make_job(name="load")
    found = errors(save(admin_client, owner=taken.owner_id, name="load", command="true"))
    assert found == {"name": ["is already the name of another job of the team"]}
    assert Job.objects.count() == 1


def test_edit_opens_a_version_and_moves_the_next_run(admin_client: Client) -> None:
    job = make_job(name="load", schedule="0 2 * * *", command="old", description="kept")
    answer = save(admin_client, job, command="new", schedule="*/5 * * * *")
    assert answer.status_code == 302
    after = Job.objects.get()
    assert (after.payload, after.description, after.version) == ({"command": "new"}, "kept", 2)
    assert after.next.next_run_at is not None
    assert after.next.next_run_at - after.updated_at <= timedelta(minutes=5)
    assert versions(job) == [(1, "create", "test"), (2, "update", "admin:admin")]


def test_untouched_form_changes_nothing(admin_client: Client) -> None:
    job = make_job(
        name="load",
        schedule={"everySec": 90},
        startsAt="2026-01-01T00:00:00.123456Z",
        retryOn=[75, "timeout"],
        command=["echo", "x"],
        env={"A": "b"},
        tags=["a", "b"],
        maxConcurrency=2,
    )
    assert save(admin_client, job).status_code == 302
    assert versions(job) == [(1, "create", "test")]


def test_form_of_a_version_gone_by_is_refused(admin_client: Client) -> None:
    job = make_job(name="load", command="old")
    sent = form_of(job, command="mine")
    save(admin_client, job, command="theirs")
    url = reverse("admin:jobs_job_change", args=[job.pk])
    answer = admin_client.post(url, sent)
    assert "is at version 2" in body(answer)
    assert Job.objects.get().payload == {"command": "theirs"}


def test_edges_are_edited_with_the_job(admin_client: Client) -> None:
    assert hooks.edges is not None
    upstream, job = make_job(name="up", schedule="0 2 * * *"), make_job(name="down")
    assert save(admin_client, job, depends_on=f'["{upstream.pk}"]').status_code == 302
    assert hooks.edges.edges_of([job.pk])[job.pk] == [Edge(upstream.pk)]
    assert "up" in body(admin_client.get(reverse("admin:jobs_job_change", args=[job.pk])))
    (edge,) = shown(admin_client, "admin:dag_dep_changelist", q="up")
    assert (edge.job_id, edge.depends_on_job_id) == (job.pk, upstream.pk)
    found = errors(save(admin_client, upstream, depends_on=f'["{job.pk}"]'))
    assert "cycle" in found["depends_on"][0]


def test_buttons_disable_and_enable(admin_client: Client) -> None:
    job = make_job(schedule="* * * * *")
    assert said(press(admin_client, "admin:jobs_job_disable", job.pk)) == ["1 disabled."]
    off = Job.objects.get()
    assert (off.enabled, off.next.next_run_at) == (False, None)
    assert off.pause_reason == "disabled by admin:admin"
    again = press(admin_client, "admin:jobs_job_disable", job.pk)
    assert said(again) == ["1 were disabled already."]
    assert said(press(admin_client, "admin:jobs_job_enable", job.pk)) == ["1 enabled."]
    assert Job.objects.get().next.next_run_at is not None
    assert [change for _, change, _ in versions(job)] == ["create", "pause", "resume"]


@pytest.mark.parametrize("verb", ["disable", "enable"])
def test_buttons_need_the_permission_and_a_post(admin_client: Client, verb: str) -> None:
    job = make_job()
    url = reverse(f"admin:jobs_job_{verb}", args=[job.pk])
    assert staff("jobs.view_job").post(url).status_code == 403
    assert admin_client.get(url).status_code == 405
    unknown = reverse(f"admin:jobs_job_{verb}", args=[uuid.uuid4()])
    assert admin_client.post(unknown).status_code == 404
    assert versions(job) == [(1, "create", "test")]


def test_selected_jobs_are_enabled_and_disabled() -> None:
    first, second, off = make_job(), make_job(), make_job(enabled=False)
    untouched = make_job()
    client = staff("jobs.view_job", "jobs.change_job")
    answer = act(client, JOBS, "disable_selected", [first.pk, second.pk, off.pk])
    assert said(answer) == ["2 disabled, 1 were disabled already."]
    assert set(Job.objects.filter(enabled=True)) == {untouched}
    answer = act(client, JOBS, "enable_selected", [first.pk, untouched.pk])
    assert set(said(answer)[0].rstrip(".").split(", ")) == {"1 enabled", "1 were enabled already"}
    assert set(Job.objects.filter(enabled=True)) == {untouched, first}


@pytest.mark.parametrize("key", ["nonsense", "0", "1/2", ""])
def test_what_is_no_key_is_told_and_nothing_is_done(admin_client: Client, key: str) -> None:
    job = make_job()
    answer = act(admin_client, JOBS, "disable_selected", [job.pk, key])
    assert said(answer) == [f"{key!r} is not the key of a row; nothing was done."]
    job.refresh_from_db()
    assert job.enabled


@pytest.mark.parametrize("owner", ["zz", "df37ab3b-4e61-4fcc-82bc-6ec75156eb5c", "999999"])
def test_a_team_that_is_none_is_told_in_the_form(admin_client: Client, owner: str) -> None:
    answer = admin_client.post(reverse("admin:jobs_job_add"), {"owner": owner, "name": "a"})
    assert answer.status_code == 200
    assert "owner" in answer.context["adminform"].form.errors


@pytest.mark.parametrize("action", ["disable_selected", "enable_selected", "delete_selected"])
def test_actions_need_the_permission(action: str) -> None:
    job = make_job()
    act(staff("jobs.view_job"), JOBS, action, [job.pk], post="yes")
    assert versions(job) == [(1, "create", "test")]


def test_deleted_job_keeps_its_history_and_frees_its_name(admin_client: Client) -> None:
    job = make_job(name="load")
    queued, done = make_run(job), finish_run(claim_run(run_ago(job, timedelta(minutes=1))))
    url = reverse("admin:jobs_job_delete", args=[job.pk])
    question = body(admin_client.get(url))
    assert "Delete 1 job?" in question
    assert "history stays readable" in question
    assert admin_client.post(url, {"post": "yes"}).status_code == 302
    gone = Job.objects.get()
    assert gone.deleted_at is not None
    queued.refresh_from_db()
    done.refresh_from_db()
    assert (queued.status, queued.reason, done.status) == ("cancelled", "job_deleted", "succeeded")
    assert shown(admin_client, JOBS) == []
    assert shown(admin_client, JOBS, state="deleted") == [gone]
    make_job(name="load")
    change = reverse("admin:jobs_job_change", args=[job.pk])
    assert 'name="_save"' not in body(admin_client.get(change))
    assert admin_client.post(change, {"name": "back"}).status_code == 403
    assert admin_client.post(url, {"post": "yes"}).status_code == 403


def test_selected_jobs_are_deleted_after_a_question(admin_client: Client) -> None:
    first, second, third = make_job(name="a"), make_job(name="b"), make_job(name="c")
    question = act(admin_client, JOBS, "delete_selected", [first.pk, second.pk])
    assert "Delete 2 jobs?" in body(question)
    assert Job.objects.filter(deleted_at__isnull=True).count() == 3
    answer = act(admin_client, JOBS, "delete_selected", [first.pk, second.pk], post="yes")
    assert said(answer) == ["2 deleted."]
    assert list(Job.objects.filter(deleted_at__isnull=True)) == [third]


def test_list_tells_schedule_next_and_last_run(admin_client: Client) -> None:
    job = make_job(name="load", schedule="0 2 * * *", timezone="Asia/Tokyo")
    finish_run(claim_run(run_ago(job, timedelta(hours=1))), "dead", reason="timeout")
    late = make_job(name="never-ran", schedule="0 2 * * *")
    set_next(late, next_run_at=this_second() - timedelta(minutes=2))
    make_job(name="on-request")
    page = body(admin_client.get(reverse(JOBS)))
    for text in (
        "At 02:00, every day",
        "02:00:00 JST",
        "dead",
        "60 min ago",
        "When triggered",
        "overdue",
    ):
        assert text in page, text


def test_list_finds_and_narrows(admin_client: Client) -> None:
    make_team()
    rivals = make_team("rivals")
    load = make_job(name="load-orders", tags=["etl"], schedule="0 3 * * *")
    off = make_job(name="report", enabled=False, priority="high")
    call = make_job(
        rivals, name="call", pool="gpu", payload={"type": "http", "url": "https://x.y/"}
    )
    sick = make_job(name="sick", schedule="0 1 * * *")
    soon = sick.created_at + timedelta(hours=1)
    set_next(sick, retry_at=sick.created_at, quarantine_reason="poison", next_run_at=soon)
    set_next(load, next_run_at=soon + timedelta(hours=1))
    cases: list[tuple[dict[str, object], list[Job]]] = [
        ({}, [load, off, sick, call]),
        ({"q": "ORDER"}, [load]),
        ({"q": call.pk}, [call]),
        ({"state": "disabled"}, [off]),
        ({"state": "quarantined"}, [sick]),
        ({"owner__team_id__exact": rivals.pk}, [call]),
        ({"kind__exact": "http"}, [call]),
        ({"pool": "gpu"}, [call]),
        ({"priority__exact": "high"}, [off]),
        ({"tag": "etl"}, [load]),
        ({"o": "5"}, [sick, load, off, call]),
    ]
    for query, expected in cases:
        found = shown(admin_client, JOBS, **query)
        if "o" in query:  # those without a next run come last, in any order
            assert found[:2] == expected[:2]
            assert set(found) == set(expected)
        else:
            assert found == expected, query


def test_viewer_reads_the_page_but_has_no_form() -> None:
    job = make_job(name="load", command="secret-ish")
    page = body(staff("jobs.view_job").get(reverse("admin:jobs_job_change", args=[job.pk])))
    assert "secret-ish" in page
    assert 'name="_save"' not in page
    assert "Disable" not in page
    assert "Trigger now" not in page


def test_version_tells_what_changed(admin_client: Client) -> None:
    job = make_job(name="load", command="old")
    save(admin_client, job, command="new")
    second = JobVersion.objects.get(job=job, version=2)
    page = body(admin_client.get(reverse("admin:jobs_jobversion_change", args=[second.pk])))
    assert "&quot;command&quot;: &quot;old&quot;" in page
    assert "&quot;command&quot;: &quot;new&quot;" in page
    assert [row.version for row in shown(admin_client, "admin:jobs_jobversion_changelist")] == [
        2,
        1,
    ]
