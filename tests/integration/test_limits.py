"""Concurrency limits: counted from rows, never beyond, never leaking."""

import pytest

from jobs.models import Job
from runs import lifecycle
from runs.explain import explain
from runs.models import Run
from runs.records import ClaimedRun, RunRef
from tests.integration import support

pytestmark = pytest.mark.django_db

HELD, QUEUED = ("waiting", "concurrency"), ("queued", "")


def test_as_many_as_the_limit_are_let_in_oldest_first() -> None:
    job = support.job(max_concurrency=2)
    lifecycle.record_ticks(support.held_runs(job, 4))
    assert support.statuses(job) == [QUEUED, QUEUED, HELD, HELD]


def test_a_finish_lets_the_next_one_in() -> None:
    job = support.job(max_concurrency=1)
    first, second, third = (run.ref for run in support.held_runs(job, 3))
    lifecycle.record_ticks(support.held_runs(job, 3))
    (claimed,) = support.claim([first])
    assert support.claim([second]) == []
    lifecycle.finish([support.result(claimed)])
    assert support.statuses(job) == [("succeeded", ""), QUEUED, HELD]
    assert support.row(third).published_at is None
    assert support.row(second).published_at is not None


def test_a_retrying_run_keeps_its_place() -> None:
    job = support.job(max_concurrency=1, max_retries=1)
    first = support.held_runs(job, 2)[0].ref
    lifecycle.record_ticks(support.held_runs(job, 2))
    (claimed,) = support.claim([first])
    lifecycle.finish([support.result(claimed, "retrying", reason="exit_code", retry_in_sec=60.0)])
    assert support.statuses(job) == [("retrying", "exit_code"), HELD]


def test_a_cancelled_queued_run_gives_its_place_up() -> None:
    job = support.job(max_concurrency=1)
    runs = support.held_runs(job, 2)
    lifecycle.record_ticks(runs)
    lifecycle.cancel([runs[0].ref])
    assert support.statuses(job) == [("cancelled", "user"), QUEUED]


def test_a_run_asked_to_stop_keeps_its_place_until_it_has() -> None:
    job = support.job(max_concurrency=1)
    runs = support.held_runs(job, 2)
    lifecycle.record_ticks(runs)
    (claimed,) = support.claim([runs[0].ref])
    lifecycle.cancel([runs[0].ref])
    assert support.statuses(job) == [("running", ""), HELD]
    lifecycle.finish([support.result(claimed, "cancelled", reason="user")])
    assert support.statuses(job) == [("cancelled", "user"), QUEUED]


def test_policy_skip_skips_what_finds_no_room() -> None:
    job = support.job(max_concurrency=1, concurrency_policy="skip")
    lifecycle.record_ticks(support.held_runs(job, 3))
    skipped = ("skipped", "concurrency")
    assert support.statuses(job) == [QUEUED, skipped, skipped]


def test_policy_cancel_running_stops_what_runs_and_keeps_the_newest() -> None:
    job = support.job(max_concurrency=1, concurrency_policy="cancel_running")
    runs = support.held_runs(job, 3)
    lifecycle.record_ticks(runs[:1])
    (claimed,) = support.claim([runs[0].ref])
    lifecycle.record_ticks(runs[1:])
    assert support.statuses(job) == [("running", "concurrency"), ("skipped", "concurrency"), HELD]
    assert support.row(runs[0].ref).cancel_requested_at is not None
    lifecycle.finish([support.result(claimed, "cancelled", reason="user")])
    assert support.statuses(job)[0] == ("cancelled", "concurrency")
    assert support.statuses(job)[-1] == QUEUED
    assert "a newer run of the job took its place" in explain(support.row(runs[0].ref))["summary"]


def replaced_attempt() -> tuple[Job, ClaimedRun]:
    """Return an attempt that a newer run of its job asks to end."""
    job = support.job(max_concurrency=1, concurrency_policy="cancel_running", max_retries=3)
    runs = support.held_runs(job, 2)
    lifecycle.record_ticks(runs[:1])
    (claimed,) = support.claim([runs[0].ref])
    lifecycle.record_ticks(runs[1:])
    assert "a newer run" in explain(support.row(runs[0].ref))["summary"]
    return job, claimed


@pytest.mark.parametrize("status", ["cancelled", "retrying"])
def test_an_attempt_that_is_replaced_ends_for_the_limit_however_it_ends(status: str) -> None:
    job, claimed = replaced_attempt()
    retry = {"retry_in_sec": 1.0} if status == "retrying" else {}
    lifecycle.finish([support.result(claimed, status, reason="exit_code", **retry)])
    assert support.statuses(job) == [("cancelled", "concurrency"), QUEUED]


@pytest.mark.parametrize("reason", ["crashed", "drain"])
def test_an_attempt_that_is_replaced_and_lost_ends_for_the_limit(reason: str) -> None:
    job, claimed = replaced_attempt()
    lifecycle.lose([support.held_by(claimed)], reason=reason)
    assert support.statuses(job) == [("cancelled", "concurrency"), QUEUED]


def test_an_attempt_that_is_replaced_may_still_succeed() -> None:
    job, claimed = replaced_attempt()
    lifecycle.finish([support.result(claimed)])
    assert support.statuses(job) == [("succeeded", ""), QUEUED]


@pytest.mark.parametrize("first", ["user", "concurrency"])
def test_a_persons_cancel_stands_above_the_limits(first: str) -> None:
    job, claimed = replaced_attempt()
    ref = RunRef(claimed.run_id, claimed.scheduled_for)
    lifecycle.cancel([ref], reason="user")
    if first == "user":
        lifecycle.cancel([ref], reason="concurrency")
    lifecycle.finish([support.result(claimed, "cancelled", reason="user")])
    assert support.statuses(job)[0] == ("cancelled", "user")


def test_policy_cancel_running_replaces_what_has_not_started() -> None:
    job = support.job(max_concurrency=1, concurrency_policy="cancel_running")
    runs = support.held_runs(job, 2)
    lifecycle.record_ticks(runs[:1])
    lifecycle.record_ticks(runs[1:])
    assert support.statuses(job) == [("cancelled", "concurrency"), QUEUED]
    assert explain(support.row(runs[0].ref))["summary"] == (
        "Never started; cancelled: a newer run of the job took its place, by concurrencyPolicy "
        "cancel_running."
    )


def test_jobs_that_share_a_key_share_the_limit() -> None:
    jobs = [support.job(max_concurrency=1, concurrency_key="warehouse") for _ in range(2)]
    key = f"key:{jobs[0].owner_id}:warehouse"
    held = {"status": "waiting", "reason": "concurrency", "limit_key": key}
    now = support.this_second()
    lifecycle.record_ticks(
        [support.new_run(job, now + at * support.SECOND, **held) for at, job in enumerate(jobs)]
    )
    assert [support.statuses(job) for job in jobs] == [[QUEUED], [HELD]]
    (claimed,) = support.claim([support.new_run(jobs[0], now).ref])
    lifecycle.finish([support.result(claimed)])
    assert support.statuses(jobs[1]) == [QUEUED]


def test_under_a_shared_key_each_run_goes_by_its_own_jobs_maximum() -> None:
    one, three = (support.job(max_concurrency=n, concurrency_key="warehouse") for n in (1, 3))
    held = {
        "status": "waiting",
        "reason": "concurrency",
        "limit_key": f"key:{one.owner_id}:warehouse",
    }
    now = support.this_second()
    for at, job in enumerate((three, three, one, three, three)):
        lifecycle.record_ticks([support.new_run(job, now + at * support.SECOND, **held)])
    # the third run waits for its own maximum, and stands before the others of the key
    assert support.statuses(one) == [HELD]
    assert support.statuses(three) == [QUEUED, QUEUED, HELD, HELD]


def test_a_rerun_passes_the_limit_like_any_run() -> None:
    job = support.job(max_concurrency=1)
    runs = support.held_runs(job, 2)
    lifecycle.record_ticks(runs)
    (claimed,) = support.claim([runs[0].ref])
    lifecycle.finish([support.result(claimed, "dead", reason="exit_code")])
    assert support.statuses(job) == [("dead", "exit_code"), QUEUED]
    lifecycle.rerun([runs[0].ref])
    assert support.statuses(job) == [HELD, QUEUED]


def test_the_sweep_admits_what_a_finish_did_not() -> None:
    from runs.sweeps.promote import admit_held

    job = support.job(max_concurrency=1)
    runs = support.held_runs(job, 2)
    lifecycle.record_ticks(runs)
    support.set_columns(
        runs[0].ref, "status = 'succeeded', finished_at = clock_timestamp(), published_at = NULL"
    )
    assert support.statuses(job)[1] == HELD
    assert admit_held() == 1
    assert support.statuses(job)[1] == QUEUED
    assert admit_held() == 0


def test_a_job_that_lost_its_limit_lets_everything_in() -> None:
    job = support.job(max_concurrency=1)
    lifecycle.record_ticks(support.held_runs(job, 3))
    job.max_concurrency = None
    job.save()
    lifecycle.admit([f"job:{job.job_id}"])
    assert Run.objects.filter(job=job, status="queued").count() == 3
