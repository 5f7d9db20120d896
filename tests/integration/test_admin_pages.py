"""Every page of the admin: it stands, empty and full, counts no runs, asks no more for more."""

import uuid
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django_celery_results.models import TaskResult

from chronoproject.clock import db_now
from dag.models import Dep
from jobs.models import AuditEntry, Job, Pause
from jobs.services import job_delete
from runs.models import Alert, Lease, Misfire, Run, Worker
from tests.factories import claim_run, finish_run, make_job, make_run, make_team, make_token
from tests.integration.admin_support import body, run_ago, staff

pytestmark = pytest.mark.django_db

LISTS = [
    *(f"jobs_{name}" for name in ("job", "team", "apitoken", "jobversion", "pause", "auditentry")),
    *(f"runs_{name}" for name in ("run", "runattempt", "misfire", "lease", "worker", "alert")),
    *("dag_dep", "auth_user", "auth_group", "django_celery_results_taskresult"),
]
READ_ONLY = [
    *("runs_run", "runs_runattempt", "runs_misfire", "runs_lease", "runs_worker", "runs_alert"),
    *("jobs_jobversion", "jobs_pause", "jobs_auditentry", "dag_dep"),
]

UNCOUNTED = [
    "/admin/",
    "/admin/runs/run/",
    "/admin/runs/run/?status=dead",
    "/admin/runs/run/?status=live",
    "/admin/runs/run/?status=unwell&when=7d",
    "/admin/runs/run/?when=all&pool=default&worker_id=w-1&reason=timeout",
    "/admin/runs/run/?from=2026-01-01T00:00&to=2036-01-01T00:00&priority__exact=high",
    "/admin/runs/run/?q=job",
    "/admin/runs/runattempt/",
    "/admin/runs/runattempt/?outcome__exact=failed&when=all",
    "/admin/jobs/job/",
    "/admin/jobs/job/?o=5",
    "/admin/runs/misfire/",
    "/admin/runs/alert/",
    "/admin/jobs/auditentry/",
    "/admin/jobs/jobversion/",
    "/admin/autocomplete/?app_label=runs&model_name=run&field_name=job&term=job",
]


def fill(count: int = 1) -> None:
    """Make rows of every kind: `count` jobs, each with a dead run of two attempts."""
    team, now = make_team(), db_now()
    make_token(team)
    for number in range(count):
        job = make_job(team, name=f"job-{number}", schedule="* * * * *", retries=1)
        run = run_ago(job, timedelta(minutes=5))
        finish_run(claim_run(run), "retrying", retry_in_sec=0.0, reason="exit_code", error="boom")
        run_ago(job, timedelta(minutes=1))
        Misfire.objects.create(
            job=job,
            owner=team,
            first_tick=now,
            last_tick=now,
            tick_count=1,
            rule="coalesced",
            into_scheduled_for=run.scheduled_for,
            job_version=1,
        )
        Alert.objects.create(
            kind="run_dead",
            dedupe_key=str(number),
            job=job,
            owner=team,
            run_id=run.run_id,
            message="x",
        )
    Dep.objects.create(job=job, depends_on_job=make_job(team, name="upstream"))
    Pause.objects.create(owner=team, created_by="x")
    AuditEntry.objects.create(
        owner=team, actor="x", action="cancel", object_type="run", object_id=str(uuid.uuid4())
    )
    Lease.objects.create(name="shard-0", holder="d-1", lease_until=now)
    Worker.objects.create(
        worker_id="w-1",
        name="w",
        hostname="h",
        pid=1,
        pools=["default"],
        concurrency=1,
        version="1",
    )
    TaskResult.objects.create(task_id="t-1", status="SUCCESS", result='{"done": 1}')
    Group.objects.create(name="operators")


def test_lists_stand_empty_and_full(admin_client: Client) -> None:
    for name in LISTS:
        body(admin_client.get(reverse(f"admin:{name}_changelist")))
    fill()
    for name in LISTS:
        rows = admin_client.get(reverse(f"admin:{name}_changelist")).context["cl"].result_list
        assert len(rows) >= 1, name


def test_first_page_shows_bounded_figures_and_alerts(admin_client: Client) -> None:
    fill()
    page = admin_client.get(reverse("admin:index"))
    figures = {card["title"]: card["value"] for card in page.context["figures"]}
    assert figures == {
        "Running": "0",
        "Queued": "1",
        "Waiting": "0",
        "Retrying": "1",
        "Dead in 24 h": "0",
        "Workers alive": "1",
        "Leases held": "0",
    }
    assert "job-0" in body(page)
    assert page.context["default_rows"] == []


def test_first_page_tells_of_rows_in_the_default_partition(admin_client: Client) -> None:
    run = make_run(make_job())
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs SET scheduled_for = scheduled_for + interval '10 years' WHERE run_id = %s",
            [run.run_id],
        )
    assert "The default partition of runs holds rows" in body(admin_client.get("/admin/"))


def test_no_page_counts_a_large_table(admin_client: Client) -> None:
    fill(3)
    run, job = Run.objects.all()[0], Job.objects.all()[0]
    pages = [
        reverse("admin:runs_run_change", args=[run.pk]),
        reverse("admin:jobs_job_change", args=[job.pk]),
        f"/admin/runs/run/?job__job_id__exact={job.pk}&owner__team_id__exact={job.owner_id}",
    ]
    for url in [*UNCOUNTED, *pages]:
        with CaptureQueriesContext(connection) as queries:
            body(admin_client.get(url))
        counts = [query["sql"] for query in queries if "count(" in query["sql"].lower()]
        assert counts == [], url


@pytest.mark.parametrize(
    "name", ["runs_run", "runs_runattempt", "jobs_job", "runs_misfire", "runs_alert"]
)
def test_list_asks_no_more_for_more_rows(admin_client: Client, name: str) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            body(admin_client.get(reverse(f"admin:{name}_changelist")))
        return len(queries)

    fill()
    few = asked()
    for number in range(5):
        job = make_job(name=f"more-{number}", schedule="* * * * *", retries=1)
        finish_run(claim_run(make_run(job)), "retrying", retry_in_sec=0.0)
    assert asked() == few


def test_lists_are_refused_without_the_permission() -> None:
    client = staff()
    for name in LISTS:
        assert client.get(reverse(f"admin:{name}_changelist")).status_code == 403, name


def test_nothing_is_added_by_hand_to_what_only_services_write(admin_client: Client) -> None:
    for name in READ_ONLY:
        assert admin_client.get(reverse(f"admin:{name}_add")).status_code == 403, name


def test_pages_say_which_upstreams_were_deleted(admin_client: Client) -> None:
    first, second = (make_job(name=name, schedule="@hourly") for name in ("gone", "there"))
    job = make_job(dependsOn=[str(first.pk), str(second.pk)])
    run = make_run(job)
    job_delete(first, actor="test")
    pages = [
        reverse("admin:jobs_job_change", args=[job.pk]),
        reverse("admin:runs_run_change", args=[run.pk]),
        reverse("admin:dag_dep_changelist"),
    ]
    for url in pages:
        page = body(admin_client.get(url))
        assert "gone</a> (deleted)" in page, url
        assert page.count("(deleted)") == 1, url


def test_navigation_shows_what_the_user_may_see() -> None:
    page = body(staff("jobs.view_job").get(reverse("admin:index")))
    assert reverse("admin:jobs_job_changelist") in page
    assert reverse("admin:runs_run_changelist") not in page
    assert "http://127.0.0.1:5555/" in page
    assert "/v1/openapi.json" in page


def test_pages_want_a_login(client: Client) -> None:
    run_id = uuid.uuid4()
    for url in (f"/admin/runs/run/{run_id}/change/", f"/admin/runs/run/{run_id}/log/1/", "/admin/"):
        assert client.get(url).status_code == 302


def test_empty_list_says_where_else_to_look(admin_client: Client) -> None:
    page = body(admin_client.get(reverse("admin:runs_run_changelist"), {"status": "dead"}))
    assert "No runs here" in page
    assert "None in the last 24 hours." in page
    assert 'href="?status=dead&amp;when=all"' in page
    other = body(admin_client.get(reverse("admin:jobs_job_changelist")))
    assert "No jobs here" in other
    assert "None in" not in other


def test_login_page_itself_leads_to_the_first_page(client: Client) -> None:
    User.objects.create_superuser("root", password="secret")
    answer = client.post("/admin/login/", {"username": "root", "password": "secret"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/")
