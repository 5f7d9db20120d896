"""The list of runs and a run's page: which rows, in which order, from which partitions."""

import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.core.files.base import ContentFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from chronoproject.clock import db_now
from jobs.models import Job
from runs import lifecycle, log_stream, storage
from runs.admin import logs
from runs.decisions import new_run
from runs.ids import run_id_of
from runs.models import Misfire, Run, RunAttempt
from runs.settling import as_due
from tests.factories import claim_run, finish_run, make_job, make_run, make_team
from tests.integration.admin_support import RUNS, body, run_ago, shown, staff
from tests.integration.support import held_by

pytestmark = pytest.mark.django_db
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> None:
    """A log store of the test's own."""
    settings.CHRONO_STORAGE_URL = f"file://{tmp_path}/store"
    settings.CHRONO_SPOOL_DIR = tmp_path / "spool"


def page_of(client: Client, run: Run) -> str:
    """Return a run's page."""
    return body(client.get(reverse("admin:runs_run_change", args=[run.run_id])))


def write_log(run: Run, text: bytes, attempt: int | None = None) -> str:
    """Put a log where the attempt's worker would; return its output_ref."""
    number = attempt or run.attempt
    claim_id = run.claim_id or RunAttempt.objects.get(run_id=run.run_id).run_attempt_id
    ref = log_stream.log_prefix(run.scheduled_for, run.run_id, number, claim_id)
    storage.backend().storage.save(log_stream.chunk_key(ref, 0), ContentFile(text))
    return ref


def run_queries(queries: CaptureQueriesContext) -> list[str]:
    """Return the statements that read runs."""
    return [query["sql"] for query in queries if 'FROM "runs"' in query["sql"]]


def partitions_read(statement: str) -> set[str]:
    """Return the partitions that PostgreSQL would scan for a statement."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
        plan: list[dict[str, Any]] = cursor.fetchone()[0]
    found: set[str] = set()
    nodes = [plan[0]["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if "Relation Name" in node:
            found.add(node["Relation Name"])
    return found


def test_runs_of_a_day_newest_tick_first(admin_client: Client) -> None:
    job = make_job()
    newest, older = make_run(job), run_ago(job, 5 * MINUTE)
    other = run_ago(make_job(), 2 * MINUTE)
    old = run_ago(job, DAY + MINUTE)
    assert shown(admin_client, RUNS) == [newest, other, older]
    assert shown(admin_client, RUNS, when="7d") == [newest, other, older, old]
    assert shown(admin_client, RUNS, when="1h", job__job_id__exact=job.job_id) == [newest, older]
    # everything of one job, whenever it was
    assert shown(admin_client, RUNS, job__job_id__exact=job.job_id) == [newest, older, old]


def test_window_between_two_instants(admin_client: Client) -> None:
    job = make_job()
    runs = [run_ago(job, number * 10 * MINUTE) for number in range(4)]
    since = runs[2].scheduled_for.strftime("%Y-%m-%dT%H:%M:%S")
    until = runs[0].scheduled_for.strftime("%Y-%m-%dT%H:%M:%S")
    assert shown(admin_client, RUNS, **{"from": since, "to": until}) == [runs[1], runs[2]]
    assert shown(admin_client, RUNS, **{"from": since}) == runs[:3]
    refused = admin_client.get(reverse(RUNS), {"from": "yesterday"})
    assert refused.headers["Location"] == f"{reverse(RUNS)}?e=1"


def test_filters_narrow_to_exact_rows(admin_client: Client) -> None:
    job, rival = make_job(), make_job(make_team("rivals"), pool="gpu", priority="high", retries=1)
    dead = finish_run(claim_run(run_ago(job, MINUTE)), "dead", reason="timeout")
    done = finish_run(claim_run(run_ago(job, 2 * MINUTE), worker_id="w-9"))
    queued = run_ago(rival, 3 * MINUTE)
    running = run_ago(rival, 4 * MINUTE)
    claim_run(running, worker_id="w-9")
    cases: list[tuple[dict[str, object], list[Run]]] = [
        ({"status": "dead"}, [dead]),
        ({"status": "succeeded"}, [done]),
        ({"status": "live"}, [queued, running]),
        ({"status": "unwell"}, [dead]),
        ({"status": "running", "worker_id": "w-9"}, [running]),
        ({"worker_id": "w-9"}, [done, running]),
        ({"owner__team_id__exact": rival.owner_id}, [queued, running]),
        ({"pool": "gpu"}, [queued, running]),
        ({"pool": "gp"}, []),
        ({"priority__exact": "high"}, [queued, running]),
        ({"trigger__exact": "manual"}, []),
        ({"reason": "timeout"}, [dead]),
    ]
    for query, expected in cases:
        assert shown(admin_client, RUNS, **query) == expected, query


def test_live_run_of_days_ago_is_not_hidden_by_the_window(admin_client: Client) -> None:
    stuck = run_ago(make_job(), 3 * DAY)
    assert shown(admin_client, RUNS) == []
    assert shown(admin_client, RUNS, status="queued") == [stuck]


def test_search_by_run_job_and_beginning_of_a_name(admin_client: Client) -> None:
    load, report = make_job(name="load-orders"), make_job(name="report")
    old, run, other = run_ago(load, 3 * DAY), make_run(load), run_ago(report, MINUTE)
    assert shown(admin_client, RUNS, q=old.run_id) == [old]
    assert shown(admin_client, RUNS, q=f" {str(run.run_id).upper()} ") == [run]
    assert shown(admin_client, RUNS, q=report.job_id) == [other]
    assert shown(admin_client, RUNS, q="load") == [run]
    assert shown(admin_client, RUNS, q="orders") == []
    assert shown(admin_client, RUNS, q="ffffffff-ffff-8fff-bfff-ffffffffffff") == []


def test_opening_a_run_reads_one_partition(admin_client: Client) -> None:
    job = make_job()
    run = make_run(job)
    with CaptureQueriesContext(connection) as queries:
        page_of(admin_client, run)
    partition = f"runs_p{run.scheduled_for:%Y%m%d}"
    assert [partitions_read(sql) for sql in run_queries(queries)] == [{partition}]


def test_ticked_runs_are_sought_in_their_own_partitions(admin_client: Client) -> None:
    run = make_run(make_job())
    with CaptureQueriesContext(connection) as queries:
        admin_client.post(
            reverse(RUNS),
            {"action": "cancel_selected", "_selected_action": str(run.run_id), "index": "0"},
        )
    chosen = [sql for sql in run_queries(queries) if "LIMIT 100001" in sql]
    assert [partitions_read(sql) for sql in chosen] == [{f"runs_p{run.scheduled_for:%Y%m%d}"}]


def test_pages_meet_without_a_gap_forward_and_back(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin.site.get_model_admin(Run), "list_per_page", 3)
    job = make_job()
    newest = db_now().replace(microsecond=0)
    ticks = [newest - timedelta(seconds=number) for number in range(8)]
    lifecycle.record_ticks([new_run(as_due(job), tick, priority="normal") for tick in ticks])
    runs = list(Run.objects.order_by("-scheduled_for"))
    assert len(runs) == 8
    for query in ({}, {"job__job_id__exact": str(job.job_id)}):
        first = admin_client.get(reverse(RUNS), query).context["cl"]
        second = admin_client.get(reverse(RUNS) + first.older_url).context["cl"]
        third = admin_client.get(reverse(RUNS) + second.older_url).context["cl"]
        assert first.result_list + second.result_list + third.result_list == runs
        assert (first.newer_url, third.older_url) == ("", "")
        back = admin_client.get(reverse(RUNS) + third.newer_url).context["cl"]
        assert back.result_list == second.result_list
        start = admin_client.get(reverse(RUNS) + back.newer_url).context["cl"]
        assert start.result_list == first.result_list
        assert start.newer_url == ""


@pytest.mark.parametrize("cursor", ["x", "-", "WyJ4Il0", "bnVsbA", "%00", "1"])
def test_cursor_that_is_none_shows_the_first_page(admin_client: Client, cursor: str) -> None:
    run = make_run(make_job())
    assert shown(admin_client, RUNS, p=cursor) == [run]


def test_list_that_takes_too_long_says_so(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(make_job())
    original = Run.objects.get_queryset

    def slow() -> Any:  # noqa: ANN401 - a queryset
        return original().extra(where=["pg_sleep(5) IS NOT NULL"])

    monkeypatch.setattr("chronoproject.adminkit.keyset.LIST_TIMEOUT_MS", 50)
    monkeypatch.setattr(Run._default_manager, "get_queryset", slow)
    page = body(admin_client.get(reverse(RUNS)))
    assert "This search took longer than" in page


def test_page_shows_facts_attempts_and_log(admin_client: Client) -> None:
    job = make_job(name="load", timezone="Europe/Berlin", retries=1, command="exit 3")
    claimed = claim_run(make_run(job), worker_id="w-1")
    first = finish_run(
        claimed,
        "retrying",
        retry_in_sec=0.0,
        reason="exit_code",
        exit_code=3,
        error="first <b>boom",
    )
    Run.objects.filter(pk=first.pk, scheduled_for=first.scheduled_for).update(status="queued")
    run = finish_run(claim_run(first, worker_id="w-2"), "dead", reason="timeout", error="too slow")
    ref = write_log(run, b"step 1\nstep 2 <script>x</script>\n")
    Run.objects.filter(pk=run.pk, scheduled_for=run.scheduled_for).update(output_ref=ref)
    page = page_of(admin_client, run)
    for text in (
        "Attempt 1",
        "Attempt 2",
        "w-1",
        "w-2",
        "exit code 3",
        "first &lt;b&gt;boom",
        "too slow",
        "timeout",
        "step 2 &lt;script&gt;x&lt;/script&gt;",
        "exit 3",
        "Run again",
        "2 of 2",
    ):
        assert text in page, text
    assert "<script>x" not in page
    assert "CET" in page or "CEST" in page
    assert reverse("admin:runs_run_cancel", args=[run.run_id]) not in page


def test_page_shows_what_was_coalesced_into_the_run(admin_client: Client) -> None:
    run = make_run(make_job())
    Misfire.objects.create(
        job=run.job,
        owner=run.owner,
        first_tick=run.scheduled_for - 59 * MINUTE,
        last_tick=run.scheduled_for - MINUTE,
        tick_count=59,
        rule="coalesced",
        into_scheduled_for=run.scheduled_for,
        job_version=1,
    )
    assert "59 coalesced" in page_of(admin_client, run)


def test_page_of_no_run_leads_to_the_first_page(admin_client: Client) -> None:
    unknown = [
        run_id_of(uuid.uuid4(), make_run(make_job()).scheduled_for),
        "ffffffff-ffff-8fff-bfff-ffffffffffff",
        "nonsense",
    ]
    for run_id in unknown:
        answer = admin_client.get(reverse("admin:runs_run_change", args=[run_id]))
        assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/")


def test_page_stands_while_the_log_store_does_not_answer(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finish_run(claim_run(make_run(make_job())))

    def refuse(*_: object) -> bytes:
        raise log_stream.LogsUnavailableError("refused")

    monkeypatch.setattr(log_stream, "read", refuse)
    monkeypatch.setattr(log_stream, "size", refuse)
    assert "The log store does not answer" in page_of(admin_client, run)
    answer = admin_client.get(reverse("admin:runs_run_log", args=[run.run_id, 1]))
    assert (answer.status_code, answer.content.decode()) == (503, logs.UNAVAILABLE)
    state = admin_client.get(reverse("admin:runs_run_status", args=[run.run_id])).json()
    assert state["problem"] == logs.UNAVAILABLE


def test_whole_log_is_plain_text_that_no_browser_runs(admin_client: Client) -> None:
    run = finish_run(claim_run(make_run(make_job())))
    whole = b"<script>alert(1)</script>\n" + b"0123456789abcdef" * 40_000
    ref = write_log(run, whole)
    Run.objects.filter(pk=run.pk, scheduled_for=run.scheduled_for).update(output_ref=ref)
    url = reverse("admin:runs_run_log", args=[run.run_id, 1])
    answer = admin_client.get(url)
    assert answer.getvalue() == whole
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert admin_client.get(url, {"tail": "1"}).content == whole[-64 * 1024 :]
    assert admin_client.get(reverse("admin:runs_run_log", args=[run.run_id, 7])).status_code == 404


def test_status_tells_what_came_since_the_offset(admin_client: Client) -> None:
    claimed = claim_run(make_run(make_job()))
    run = Run.objects.get(run_id=claimed.run_id, scheduled_for=claimed.scheduled_for)
    url = reverse("admin:runs_run_status", args=[run.run_id])
    assert admin_client.get(url).json() == {
        "status": "running",
        "attempt": 1,
        "isLive": True,
        "progress": "-",
        "text": "",
        "end": 0,
        "problem": "",
    }
    write_log(run, b"hello world")
    lifecycle.renew([replace(held_by(claimed), progress=(3, 10))], lease_sec=30)
    assert admin_client.get(url).json()["progress"] == "3 of 10"
    assert '<span id="ch-progress">3 of 10</span>' in page_of(admin_client, run)
    state = admin_client.get(url, {"attempt": "1", "offset": "6"}).json()
    assert (state["text"], state["end"]) == ("world", 11)
    finish_run(claimed)
    assert admin_client.get(url, {"offset": "x"}).json()["isLive"] is False


def test_log_is_refused_to_who_may_not_see_runs() -> None:
    run = finish_run(claim_run(make_run(make_job())))
    client = staff("jobs.view_job")
    pages: dict[str, list[Any]] = {
        "log": [run.run_id, 1],
        "status": [run.run_id],
        "change": [run.run_id],
    }
    for name, args in pages.items():
        assert client.get(reverse(f"admin:runs_run_{name}", args=args)).status_code == 403


def test_run_of_a_deleted_job_stays_readable(admin_client: Client) -> None:
    run = finish_run(claim_run(make_run(make_job(name="gone"))))
    Job.objects.filter(pk=run.job_id).update(deleted_at=run.created_at)
    assert "gone" in page_of(admin_client, run)
    assert shown(admin_client, RUNS) == [run]


def test_attempts_list_leads_to_the_run(admin_client: Client) -> None:
    claimed = claim_run(make_run(make_job(name="load", retries=1)))
    run = finish_run(claimed, "retrying", retry_in_sec=0.0, reason="exit_code", error="boom")
    make_run(make_job())
    answer = admin_client.get(reverse("admin:runs_runattempt_changelist"), {"q": str(run.run_id)})
    (row,) = answer.context["cl"].result_list
    assert (row.run_id, row.attempt, row.outcome) == (run.run_id, 1, "failed")
    assert reverse("admin:runs_run_change", args=[run.run_id]) in body(answer)
    assert "exit_code: boom" in body(answer)
    found = admin_client.get(reverse("admin:runs_runattempt_changelist"), {"q": "nonsense"})
    assert found.context["cl"].result_list == []
