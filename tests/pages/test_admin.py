"""The admin as a person sees it: the text on the screen, what a click does, and no complaints."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.urls import reverse

from jobs.models import Job
from runs import log_stream, storage
from runs.models import Run
from tests.factories import claim_run, finish_run, make_job, make_run, this_second
from tests.pages.browser import Page

pytestmark = pytest.mark.django_db(transaction=True)
NARROW, WIDE = (400, 900), (1600, 1000)


def write_log(run: Run, offset: int, text: bytes) -> None:
    """Put a piece of output where the run's worker would."""
    assert run.claim_id is not None
    ref = log_stream.log_prefix(run.scheduled_for, run.run_id, run.attempt, run.claim_id)
    storage.backend().storage.save(log_stream.chunk_key(ref, offset), ContentFile(text))


def dead_run(name: str = "nightly-load") -> Run:
    """Make a dead run with a log."""
    claimed = claim_run(make_run(make_job(name=name, schedule="0 2 * * *", command="./load")))
    run = finish_run(claimed, "dead", reason="exit_code", exit_code=3, error="no such table")
    write_log(run, 0, b"step 1\nstep 2 fails\n")
    return run


def test_signing_in_leads_to_the_overview(tab: Page) -> None:
    User.objects.create_superuser("operator", password="secret")
    tab.open("/admin/")
    tab.fill("[name=username]", "operator")
    tab.fill("[name=password]", "secret")
    tab.click("form [type=submit]")
    assert "Overview" in tab.text()
    assert tab.complaints() == []


def test_overview_leads_to_everything(page: Page) -> None:
    text = page.text()
    for words in ("Overview", "Jobs", "Runs", "Attempts", "Misfires", "Workers alive", "Flower"):
        assert words in text
    assert page.complaints() == []


def test_job_list_and_its_page(page: Page) -> None:
    job = make_job(name="nightly-load", schedule="0 2 * * *", timezone="Europe/Berlin")
    page.open(reverse("admin:jobs_job_changelist"))
    text = page.text()
    for words in ("nightly-load", "At 02:00, every day", "ENABLED"):
        assert words in text
    page.click("#result_list a.ch-link")
    assert "0 2 * * * (Europe/Berlin)" in page.text()
    page.click(".ch-button button")
    assert "1 disabled." in page.text()
    assert "DISABLED" in page.text()
    assert Job.objects.get(pk=job.pk).enabled is False
    assert page.complaints() == []


def test_run_list_and_an_action_on_it(page: Page) -> None:
    run = dead_run()
    page.open(reverse("admin:runs_run_changelist"))
    text = page.text()
    for words in ("DEAD", "nightly-load", "exit_code: no such table", "the last 24 hours"):
        assert words in text
    page.click("#result_list input.action-select", leads_on=False)
    page.choose("select[name=action]", "rerun_selected")
    page.click("#changelist-actions button[type=submit]")
    assert "1 running again." in page.text()
    assert Run.objects.get(pk=run.pk, scheduled_for=run.scheduled_for).status == "queued"
    assert page.complaints() == []


def test_run_page_shows_the_log(page: Page) -> None:
    run = dead_run()
    page.open(reverse("admin:runs_run_change", args=[run.pk]))
    text = page.text()
    for words in ("DEAD", "no such table", "Attempt 1", "step 2 fails", "Run again"):
        assert words in text
    assert page.complaints() == []


def test_log_of_an_earlier_attempt_is_read_when_it_is_opened(page: Page) -> None:
    claimed = claim_run(make_run(make_job(retries=1)))
    write_log(Run.objects.get(), 0, b"the first try\n")
    first = finish_run(claimed, "retrying", retry_in_sec=0.0, reason="exit_code")
    Run.objects.update(status="queued")
    finish_run(claim_run(first))
    page.open(reverse("admin:runs_run_change", args=[first.pk]))
    assert "the first try" not in page.text()
    page.click(".ch-attempt:not([open]) summary", leads_on=False)
    page.wait("document.body.innerText.includes('the first try')")
    assert page.complaints() == []


def test_run_page_follows_a_run_to_its_end(page: Page) -> None:
    claimed = claim_run(make_run(make_job()))
    run = Run.objects.get()
    write_log(run, 0, b"begun\n")
    page.open(reverse("admin:runs_run_change", args=[run.pk]))
    assert "RUNNING" in page.text()
    write_log(run, 6, b"<b>half</b> way\n")
    page.wait("document.body.innerText.includes('<b>half</b> way')")
    page.evaluate("window.chLeft = true")
    finish_run(claimed)
    page.wait_loaded()
    assert "SUCCEEDED" in page.text()
    assert "Run again" in page.text()
    assert page.complaints() == []


def test_filters_open_and_narrow(page: Page) -> None:
    dead_run()
    make_run(make_job(name="another"), this_second() - timedelta(minutes=1))
    page.open(reverse("admin:runs_run_changelist"))
    page.choose("#changelist-filter select[name=status]", "queued")
    page.click("#changelist-filter [type=submit]")
    assert "another" in page.text()
    assert "nightly-load" not in page.text()
    assert page.complaints() == []


def test_no_page_is_wider_than_the_screen(page: Page) -> None:
    name = "a-name-as-long-as-names-may-be-" * 6
    run = dead_run(name)
    for url in (
        "/admin/",
        reverse("admin:jobs_job_changelist"),
        reverse("admin:jobs_job_change", args=[run.job_id]),
        reverse("admin:jobs_job_add"),
        reverse("admin:runs_run_changelist"),
        reverse("admin:runs_run_change", args=[run.pk]),
    ):
        page.open(url)
        for size in (NARROW, WIDE):
            page.resize(*size)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0, url
    assert page.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_look_as_the_reader_prefers(page: Page, scheme: str) -> None:
    page.prefer(scheme)
    page.open(reverse("admin:jobs_job_changelist"))
    is_dark = page.evaluate("document.documentElement.classList.contains('dark')")
    assert is_dark == (scheme == "dark")
