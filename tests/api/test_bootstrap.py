"""manage.py bootstrap: repeatable, and a new installation has something to look at in a minute."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from chronoproject.clock import db_now
from jobs.models import ApiToken, Job, Team

pytestmark = pytest.mark.django_db
CREDENTIALS = {
    "team": "Demo Team",
    "api_token": "chrono_of-the-file",
    "admin_user": "root",
    "admin_password": "of the file",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A credentials file."""
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(CREDENTIALS))
    return path


def bootstrap(path: Path, *flags: str) -> dict[str, Any]:
    out = StringIO()
    call_command("bootstrap", "--credentials", str(path), *flags, stdout=out)
    (line,) = out.getvalue().splitlines()
    answer: dict[str, Any] = json.loads(line)
    return answer


def test_it_makes_team_token_admin_and_demo_jobs(path: Path) -> None:
    assert bootstrap(path) == {**CREDENTIALS, "demo_jobs": 7}
    assert Team.objects.get().slug == "demo-team"
    admin = get_user_model().objects.get(username="root")
    assert admin.is_superuser
    assert admin.check_password("of the file")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {CREDENTIALS['api_token']}")
    jobs = client.get("/v1/jobs").json()["results"]
    assert sorted(job["name"] for job in jobs) == [
        "demo-always-fails",
        "demo-extract",
        "demo-hello",
        "demo-http-healthz",
        "demo-python-task",
        "demo-report",
        "demo-transform",
    ]
    soon = db_now() + timedelta(seconds=60)
    scheduled = Job.objects.filter(has_upstreams=False)
    assert all(job.next.next_run_at and job.next.next_run_at <= soon for job in scheduled)
    names = {job["id"]: job["name"] for job in jobs}
    edges = {job["name"]: [names[up] for up in job["dependsOn"]] for job in jobs}
    assert {name: above for name, above in edges.items() if above} == {
        "demo-transform": ["demo-extract"],
        "demo-report": ["demo-extract", "demo-transform"],
    }


def test_a_second_time_changes_nothing(path: Path) -> None:
    bootstrap(path)
    user = get_user_model().objects.get()
    user.set_password("changed by a person")
    user.save()
    Job.objects.filter(name="demo-hello").update(deleted_at=db_now())

    assert bootstrap(path)["demo_jobs"] == 0

    user.refresh_from_db()
    assert user.check_password("changed by a person")
    assert (Team.objects.count(), ApiToken.objects.count(), Job.objects.count()) == (1, 1, 7)


def test_no_demo_makes_the_rest(path: Path) -> None:
    assert bootstrap(path, "--no-demo")["demo_jobs"] == 0
    assert (Team.objects.count(), Job.objects.count()) == (1, 0)


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{}", json.dumps(CREDENTIALS | {"api_token": ""})]
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "credentials.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CommandError, match=r"credentials\.json: "):
        bootstrap(path)
    assert not Team.objects.exists()
