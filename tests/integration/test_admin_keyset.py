"""Pages cut by key: every row once, in both directions, with nulls where PostgreSQL sorts them."""

from datetime import timedelta

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from jobs.models import Job
from tests.factories import make_job, make_team, set_next, this_second
from tests.integration.admin_support import JOBS

pytestmark = pytest.mark.django_db
NAME, NEXT_RUN = 1, 5  # the columns of the list that it can be sorted by


@pytest.fixture(autouse=True)
def two_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of two rows."""
    monkeypatch.setattr(admin.site.get_model_admin(Job), "list_per_page", 2)


def walk(client: Client, order: str, *, back: bool = False) -> list[list[Job]]:
    """Return the pages from the first to the last, or from the last to the first."""
    url = f"{reverse(JOBS)}?o={order}"
    pages = []
    last = url
    while url:
        found = client.get(url).context["cl"]
        pages.append(found.result_list)
        last, url = url, found.older_url and f"{reverse(JOBS)}{found.older_url}"
    if not back:
        return pages
    pages, url = [], last
    while url:
        found = client.get(url).context["cl"]
        pages.append(found.result_list)
        url = found.newer_url and f"{reverse(JOBS)}{found.newer_url}"
    return pages


def some_jobs() -> None:
    """Make jobs with ties, and jobs without a next run."""
    now = this_second()
    for number, ago in enumerate((3, None, 1, 3, None, 2, None)):
        job = make_job(make_team(f"team-{number % 2}"), name=f"job-{number}")
        instant = None if ago is None else now + timedelta(hours=ago)
        set_next(job, next_run_at=instant)


@pytest.mark.parametrize(
    ("order", "ordering"),
    [
        ("", ("owner_id", "name")),
        (f"{NAME}", ("name",)),
        (f"-{NAME}", ("-name",)),
        (f"{NEXT_RUN}", ("next__next_run_at", "owner_id", "name")),
        (f"-{NEXT_RUN}", ("-next__next_run_at", "owner_id", "name")),
    ],
)
def test_each_row_is_on_one_page(
    admin_client: Client, order: str, ordering: tuple[str, ...]
) -> None:
    some_jobs()
    expected = list(Job.objects.order_by(*ordering))
    pages = walk(admin_client, order)
    assert [len(page) for page in pages] == [2, 2, 2, 1]
    assert [job for page in pages for job in page] == expected


@pytest.mark.parametrize("order", ["", f"{NEXT_RUN}", f"-{NEXT_RUN}"])
def test_the_way_back_meets_the_same_pages(admin_client: Client, order: str) -> None:
    some_jobs()
    there, back = walk(admin_client, order), walk(admin_client, order, back=True)
    assert back[::-1] == there


def test_row_that_came_meanwhile_moves_no_other(admin_client: Client) -> None:
    some_jobs()
    first = admin_client.get(reverse(JOBS)).context["cl"]
    make_job(make_team("team-0"), name="a-new-one")
    second = admin_client.get(f"{reverse(JOBS)}{first.older_url}").context["cl"]
    assert not set(first.result_list) & set(second.result_list)
    start = admin_client.get(f"{reverse(JOBS)}{second.newer_url}").context["cl"]
    assert start.result_list == first.result_list


def test_cursor_of_a_page_that_has_emptied_leads_back(admin_client: Client) -> None:
    some_jobs()
    first = admin_client.get(reverse(JOBS)).context["cl"]
    Job.objects.exclude(pk__in=[job.pk for job in first.result_list]).delete()
    empty = admin_client.get(f"{reverse(JOBS)}{first.older_url}").context["cl"]
    assert empty.result_list == []
    assert empty.newer_url == empty.first_url != ""


def test_autocomplete_pages_without_a_count(admin_client: Client) -> None:
    for number in range(25):
        make_job(name=f"job-{number:02d}")
    query = "?app_label=runs&model_name=run&field_name=job&term=job-"
    first = admin_client.get(f"/admin/autocomplete/{query}").json()
    second = admin_client.get(f"/admin/autocomplete/{query}&page=2").json()
    assert (len(first["results"]), first["pagination"]) == (20, {"more": True})
    assert (len(second["results"]), second["pagination"]) == (5, {"more": False})
