"""What calls cost in statements: the same for one row as for many, and never a COUNT."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from tests.factories import make_job, make_run

pytestmark = pytest.mark.django_db


def statements(api: APIClient, method: str, path: str, **kwargs: object) -> list[str]:
    """Return what a call executes, without what the token costs and Django's own savepoints."""
    api.get("/v1/jobs?limit=1")  # the token's use is noted by now
    with CaptureQueriesContext(
        connection,
    ) as captured:
        response = getattr(api, method)(path, **kwargs)
    assert response.status_code < 300, response.content
    texts = [query["sql"] for query in captured.captured_queries]
    return [text for text in texts if "api_tokens" not in text and "SAVEPOINT" not in text]


@pytest.mark.parametrize(
    ("path", "most"),
    [("/v1/jobs", 3), ("/v1/runs", 1), ("/v1/jobs/{job}/runs", 2), ("/v1/jobs/{job}/versions", 2)],
)
def test_a_list_costs_the_same_whatever_it_holds(api: APIClient, path: str, most: int) -> None:
    upstream = make_job(schedule="0 0 * * *")
    for _ in range(3):
        make_run(make_job(dependsOn=[str(upstream.job_id)]))
    target = path.format(job=upstream.job_id)
    few = statements(api, "get", target)
    for _ in range(5):
        make_run(make_job(dependsOn=[str(upstream.job_id)]))
    many = statements(api, "get", target)

    assert len(few) == len(many) <= most, many
    assert not [text for text in many if "COUNT(" in text.upper()]


def test_a_create_is_a_handful_of_statements(api: APIClient) -> None:
    body = {"name": "j", "command": "true", "schedule": "* * * * *"}
    made = statements(api, "post", "/v1/jobs", data=body, format="json")
    # the clock, the row, its version, dag's look at what is scheduled, and a ring if a tick is near
    assert len(made) <= 6, made


def test_a_trigger_is_a_handful_of_statements(api: APIClient) -> None:
    job = make_job()
    made = statements(api, "post", f"/v1/jobs/{job.job_id}/trigger")
    # the job, its lock, the clock, the instant, the floor, what follows, the run, audit, read back
    assert len(made) <= 10, made


def test_a_read_is_the_row_and_its_last_run(api: APIClient) -> None:
    job = make_job()
    assert len(statements(api, "get", f"/v1/jobs/{job.job_id}")) == 2
    run = make_run(job)
    assert len(statements(api, "get", f"/v1/runs/{run.run_id}")) == 1


@pytest.mark.parametrize("path", ["/v1/runs/{run}", "/v1/runs/{run}/attempts"])
def test_a_run_is_found_in_its_days_partition_alone(api: APIClient, path: str) -> None:
    run = make_run(make_job())
    for text in statements(api, "get", path.format(run=run.run_id)):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {text}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
        day = f"{run.scheduled_for:%Y%m%d}"
        assert f"_p{day}" in plan
        assert plan.count(" on run") == 1, plan
