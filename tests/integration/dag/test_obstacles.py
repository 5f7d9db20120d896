"""What explain says of upstreams that a run waits for, or was skipped for."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.models import Job
from jobs.services import job_delete, job_pause
from runs.explain import explain
from runs.models import Run
from runs.selectors import run_ref
from tests.factories import make_job
from tests.integration.dag.support import end, tick
from tests.integration.support import claim, this_second

pytestmark = pytest.mark.django_db


def up(name: str, **fields: Any) -> Job:  # noqa: ANN401 - any field of a job
    return make_job(name=name, schedule="* * * * * *", **fields)


def down(*upstreams: Job, **fields: Any) -> Job:  # noqa: ANN401 - any field of a job
    edges = [str(one.job_id) for one in upstreams]
    return make_job(schedule="* * * * * *", dependsOn=edges, **fields)


def told(job: Job) -> str:
    return str(explain(run_of(job))["summary"])


def run_of(job: Job) -> Run:
    """Return the run of the test's tick; an edit records those that were due before it."""
    return Run.objects.select_related("job").filter(job=job).latest("scheduled_for")


@pytest.fixture
def at() -> datetime:
    """Return a tick after the jobs of the test were made."""
    return this_second() + timedelta(seconds=2)


def test_a_deleted_upstream_is_named(at: datetime) -> None:
    first = up("up")
    job = down(first)
    job_delete(first, actor="test")
    tick(at, job)
    assert (run_of(job).status, run_of(job).reason) == ("skipped", "upstream_failed")
    assert told(job) == "Never started; skipped: the job it depends on, 'up', was deleted."


def test_an_upstream_whose_run_went_with_its_job_was_deleted(at: datetime) -> None:
    first = up("up")
    job = down(first, triggerRule="all_done")
    later = down(first)
    tick(at, first, job, later)
    job_delete(first, actor="test")
    Run.objects.filter(job=later).update(status="skipped", reason="upstream_failed")
    assert run_of(first).reason == "job_deleted"
    assert told(later) == "Never started; skipped: the job it depends on, 'up', was deleted."


def test_a_paused_upstream_is_named(at: datetime) -> None:
    first = up("up")
    job = down(first)
    job_pause(first, actor="test", reason="holidays")
    tick(at, job)
    assert (run_of(job).status, run_of(job).reason) == ("skipped", "upstream_failed")
    assert told(job) == "Never started; skipped: 'up' is paused."


@pytest.mark.parametrize(("how", "word"), [("dead", "died"), ("cancelled", "was cancelled")])
def test_a_failed_upstream_is_named_with_its_run(at: datetime, how: str, word: str) -> None:
    first, good = up("up"), up("good")
    job = down(first, good)
    tick(at, first, good, job)
    end(good, at)
    end(first, at, how)
    run_id = run_of(first).run_id
    assert told(job) == f"Never started; skipped: 'up' {word} (run {run_id})."


def test_a_waiting_run_tells_for_whom(at: datetime) -> None:
    first, second, done = up("a"), up("b"), up("done")
    job = down(first, second, done)
    tick(at, first, done, job)
    end(done, at)
    (run,) = Run.objects.filter(job=first)
    assert told(job) == (
        "Not started: it waits for runs of the jobs it depends on: "
        f"'a' is queued (run {run.run_id}); 'b' has not had its tick yet."
    )
    claim([run_ref(run)])
    assert f"'a' is running (run {run.run_id})" in told(job)


def test_a_few_are_named_the_deleted_first(at: datetime) -> None:
    jobs = [up(name) for name in "abcdef"]
    job = down(*jobs)
    job_delete(jobs[4], actor="test")
    for one in (jobs[0], jobs[5]):
        job_pause(one, actor="test", reason="")
    tick(at, *jobs[1:4], job)
    for one in jobs[1:4]:
        end(one, at)
    assert told(job) == (
        "Never started; skipped: the job it depends on, 'e', was deleted; 'a' is paused; "
        "'f' is paused."
    )


def test_more_than_three_are_counted(at: datetime) -> None:
    jobs = [up(name) for name in "abcde"]
    job = down(*jobs)
    for one in jobs:
        job_pause(one, actor="test", reason="")
    tick(at, job)
    assert told(job).endswith("'a' is paused; 'b' is paused; 'c' is paused; and 2 more.")


def test_an_upstream_that_never_had_a_tick_is_named(at: datetime) -> None:
    first = up("up", startsAt="2099-01-01T00:00:00Z")
    job = down(first)
    tick(at, job)
    assert run_of(job).reason == "no_upstream_tick"
    assert told(job) == "Never started; skipped: 'up' has no tick to wait for."


def test_a_skip_that_no_upstream_explains_any_more_keeps_its_sentence(at: datetime) -> None:
    first = up("up")
    job = down(first)
    tick(at, first, job)
    end(first, at, "dead")
    Run.objects.filter(job=first).update(status="succeeded", reason="")
    assert told(job) == "Never started; skipped: a run that it depends on did not succeed."
