"""What the tests of the admin share."""

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, cast

from django.contrib.auth.models import Permission, User
from django.http import HttpResponse, HttpResponseBase
from django.test import Client
from django.urls import reverse

from jobs.models import Job
from runs.models import Run
from tests.factories import make_run, this_second

RUNS, JOBS = "admin:runs_run_changelist", "admin:jobs_job_changelist"


def run_ago(job: Job, ago: timedelta) -> Run:
    """Return a recorded run of the job whose tick was so long ago."""
    return make_run(job, this_second() - ago)


def staff(*permissions: str, name: str = "operator") -> Client:
    """Return a client of a user of the admin who has these permissions and no other."""
    user = User.objects.create_user(name, password="secret", is_staff=True)
    for permission in permissions:
        app_label, codename = permission.split(".")
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label=app_label, codename=codename)
        )
    client = Client()
    client.force_login(user)
    return client


def body(response: HttpResponseBase) -> str:
    """Return what a page says."""
    assert response.status_code == 200, response.status_code
    return cast("HttpResponse", response).content.decode()


def said(response: HttpResponseBase) -> list[str]:
    """Return the messages that the page after an act shows, without their markup."""
    return [
        re.sub(r"<[^>]+>", "", str(message))
        for message in response.context["messages"]  # type: ignore[attr-defined]
    ]


def shown(client: Client, url_name: str, **query: object) -> list[Any]:
    """Return the rows of a list, in order."""
    response = client.get(reverse(url_name), {name: str(value) for name, value in query.items()})
    body(response)
    return list(response.context["cl"].result_list)


def act(
    client: Client, url_name: str, action: str, keys: Iterable[object], **fields: object
) -> HttpResponseBase:
    """Run an action of a list on some rows; return the page after it."""
    query = fields.pop("query", "")
    return client.post(
        f"{reverse(url_name)}{query}",
        {"action": action, "_selected_action": [str(key) for key in keys], "index": "0", **fields},
        follow=True,
    )


def press(client: Client, url_name: str, *args: object) -> HttpResponseBase:
    """Press a button of a page; return the page after it."""
    return client.post(reverse(url_name, args=args), follow=True)
