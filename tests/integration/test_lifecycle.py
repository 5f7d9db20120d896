"""Every transition: what it changes, and what it refuses to."""

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from chronoproject.clock import db_now
from runs import lifecycle
from runs.models import Alert, Misfire, Run, RunAttempt
from runs.records import Expired, Held, NewMisfire, RunRef
from tests.integration import support

pytestmark = pytest.mark.django_db


def test_a_tick_is_recorded_once_however_often_it_comes() -> None:
    job = support.job()
    new = support.new_run(job)
    assert lifecycle.record_ticks([new]) == [new.ref]
    assert lifecycle.record_ticks([new]) == []
    run = Run.objects.get(job=job)
    assert (run.run_id, run.status, run.attempt) == (new.run_id, "queued", 0)
    assert run.published_at is not None


def test_a_batch_reports_only_the_ticks_that_were_new() -> None:
    job = support.job()
    now = support.this_second()
    old, new = (support.new_run(job, now - ago * support.SECOND) for ago in (1, 0))
    lifecycle.record_ticks([old])
    assert lifecycle.record_ticks([old, new]) == [new.ref]
    assert Run.objects.filter(job=job).count() == 2


def test_misfires_are_recorded_with_their_rule() -> None:
    job = support.job()
    now = support.this_second()
    misfire = NewMisfire(job.job_id, job.owner_id, now, now, 1, "coalesced", 1, now)
    assert lifecycle.record_ticks([], [misfire]) == []
    found = Misfire.objects.get(job=job)
    assert (found.rule, found.tick_count, found.into_scheduled_for) == ("coalesced", 1, now)


def test_a_claim_takes_the_run_and_a_second_one_gets_nothing() -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref], "w1")
    assert (claimed.attempt, claimed.definition["kind"]) == (1, "task")
    assert support.claim([ref], "w2") == []
    run = support.row(ref)
    assert (run.status, run.worker_id, run.attempt) == ("running", "w1", 1)
    assert run.lease_until is not None
    assert run.lease_until > db_now()


def test_a_claim_of_an_unknown_run_gets_nothing() -> None:
    assert support.claim([RunRef(uuid.uuid4(), support.this_second())]) == []
    assert support.claim([]) == []


def test_a_claim_is_read_back_by_its_own_id_only() -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref])
    assert lifecycle.read_back_claim([ref], claim_id=claimed.claim_id) == [claimed]
    assert lifecycle.read_back_claim([ref], claim_id=uuid.uuid4()) == []


def test_renewal_extends_the_lease_and_says_when_to_cancel() -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref], lease_sec=5)
    before = support.row(ref).lease_until
    (renewed,) = lifecycle.renew([support.held_by(claimed)], lease_sec=60)
    after = support.row(ref).lease_until
    assert before is not None
    assert after is not None
    assert after > before + timedelta(seconds=30)
    assert renewed.cancel_requested is False
    lifecycle.cancel([ref])
    (renewed,) = lifecycle.renew([support.held_by(claimed)], lease_sec=60)
    assert renewed.cancel_requested is True


def test_progress_comes_with_the_lease_and_the_last_one_with_the_finish() -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref])
    held = support.held_by(claimed)

    def told() -> tuple[int | None, int | None]:
        return support.row(ref).progress_done, support.row(ref).progress_total

    assert told() == (None, None)
    lifecycle.renew([replace(held, progress=(3, 10))], lease_sec=30)
    lifecycle.renew([held], lease_sec=30)  # a restarted heartbeat has nothing new to tell
    assert told() == (3, 10)
    lifecycle.renew([replace(held, progress=(2**63 - 1, 0), attempt=2)], lease_sec=30)
    assert told() == (3, 10)
    lifecycle.finish([support.result(claimed, progress=(9, 10))])
    assert told() == (9, 10)
    lifecycle.rerun([ref])
    assert told() == (None, None)


def test_a_claim_forgets_the_progress_of_the_attempt_before() -> None:
    ref = support.queued(support.job(max_retries=1))
    (claimed,) = support.claim([ref])
    lifecycle.finish(
        [support.result(claimed, "retrying", retry_in_sec=0.0, progress=(2**63 - 1, 7))]
    )
    assert support.row(ref).progress_done == 2**63 - 1
    lifecycle.promote()
    support.claim([ref])
    assert support.row(ref).progress_done is None


def test_a_stale_attempt_can_neither_renew_nor_finish() -> None:
    ref = support.queued(support.job())
    (first,) = support.claim([ref])
    lifecycle.lose([support.held_by(first)], reason="drain")
    (second,) = support.claim([ref], "w2")
    assert lifecycle.renew([support.held_by(first)], lease_sec=30) == []
    assert lifecycle.finish([support.result(first)]) == []
    run = support.row(ref)
    assert (run.status, run.attempt, run.claim_id) == ("running", 2, second.claim_id)


def test_success_ends_the_run_and_archives_nothing() -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref])
    finished = support.result(claimed, exit_code=0, output_ref="logs/x", output={"rows": 3})
    (moved,) = lifecycle.finish([finished])
    assert (moved.status, moved.ref) == ("succeeded", ref)
    run = support.row(ref)
    assert (run.status, run.exit_code, run.output_ref) == ("succeeded", 0, "logs/x")
    assert run.output == {"rows": 3}
    assert run.lease_until is None
    assert run.finished_at is not None
    assert not RunAttempt.objects.exists()
    assert lifecycle.finish([finished]) == []
    assert [run.status for run in lifecycle.read_back_finish([finished])] == ["succeeded"]


def test_a_failed_attempt_is_archived_and_comes_back_when_its_backoff_is_over() -> None:
    ref = support.queued(support.job(max_retries=1))
    (claimed,) = support.claim([ref])
    failed = support.result(
        claimed, "retrying", reason="exit_code", exit_code=2, error="exit 2", retry_in_sec=60
    )
    lifecycle.finish([failed])
    run = support.row(ref)
    assert (run.status, run.reason, run.finished_at) == ("retrying", "exit_code", None)
    assert run.available_at > db_now() + timedelta(seconds=50)
    attempt = RunAttempt.objects.get(run_id=ref.run_id)
    assert (attempt.attempt, attempt.outcome, attempt.exit_code) == (1, "failed", 2)
    assert lifecycle.promote() == []
    support.set_columns(ref, "available_at = clock_timestamp()")
    assert [moved.ref for moved in lifecycle.promote()] == [ref]
    assert support.row(ref).status == "queued"
    (again,) = support.claim([ref])
    assert again.attempt == 2


def test_a_dead_run_leaves_one_alert() -> None:
    job = support.job()
    ref = support.queued(job)
    (claimed,) = support.claim([ref])
    lifecycle.finish([support.result(claimed, "dead", reason="exit_code", exit_code=1)])
    alert = Alert.objects.get()
    assert (alert.kind, alert.run_id, alert.job_id) == ("run_dead", ref.run_id, job.job_id)
    assert alert.owner_id == job.owner_id


def test_success_leaves_no_alert() -> None:
    (claimed,) = support.claim([support.queued(support.job())])
    lifecycle.finish([support.result(claimed)])
    assert not Alert.objects.exists()


def test_a_cancel_that_was_asked_for_stands_above_a_retry() -> None:
    ref = support.queued(support.job(max_retries=5))
    (claimed,) = support.claim([ref])
    assert [moved.status for moved in lifecycle.cancel([ref])] == ["running"]
    lifecycle.finish([support.result(claimed, "retrying", retry_in_sec=1.0)])
    run = support.row(ref)
    assert (run.status, run.reason) == ("cancelled", "user")
    assert run.finished_at is not None


def test_work_that_succeeded_in_spite_of_a_cancel_has_succeeded() -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref])
    lifecycle.cancel([ref])
    lifecycle.finish([support.result(claimed)])
    assert support.row(ref).status == "succeeded"


@pytest.mark.parametrize(
    ("reason", "status", "lost_count"),
    [("drain", "queued", 0), ("crashed", "retrying", 1), ("worker_lost", "retrying", 1)],
)
def test_an_attempt_that_was_lost_uses_no_retry(reason: str, status: str, lost_count: int) -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref])
    (moved,) = lifecycle.lose([support.held_by(claimed)], reason=reason)
    run = support.row(ref)
    assert (moved.status, run.status, run.lost_count) == (status, status, lost_count)
    assert (run.attempt, run.attempt_limit) == (1, 2)
    attempt = RunAttempt.objects.get(run_id=ref.run_id)
    assert attempt.outcome == ("drained" if reason == "drain" else reason)


def test_a_run_that_is_lost_for_the_fourth_time_is_dead() -> None:
    ref = support.queued(support.job())
    for _ in range(3):
        (claimed,) = support.claim([ref])
        lifecycle.lose([support.held_by(claimed)], reason="crashed")
        support.set_columns(ref, "available_at = clock_timestamp()")
        lifecycle.promote()
    (claimed,) = support.claim([ref])
    lifecycle.lose([support.held_by(claimed)], reason="crashed")
    run = support.row(ref)
    assert (run.status, run.reason, run.attempt) == ("dead", "crashed", 4)
    assert Alert.objects.filter(run_id=ref.run_id).count() == 1


def test_only_the_lease_that_was_seen_expired_is_reaped() -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref], lease_sec=0)
    held = support.held_by(claimed)
    seen = support.row(ref).lease_until
    assert seen is not None
    lifecycle.renew([held], lease_sec=30)
    stale = Expired(held.run_id, held.scheduled_for, held.attempt, held.claim_id, seen)
    assert lifecycle.expire([stale]) == []
    assert support.row(ref).status == "running"
    support.set_columns(ref, "lease_until = clock_timestamp() - interval '1 second'")
    now_seen = support.row(ref).lease_until
    assert now_seen is not None
    overdue = Expired(held.run_id, held.scheduled_for, held.attempt, held.claim_id, now_seen)
    assert [moved.status for moved in lifecycle.expire([overdue])] == ["retrying"]
    assert support.row(ref).reason == "worker_lost"


def test_a_lost_run_that_was_to_be_cancelled_is_cancelled() -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref])
    lifecycle.cancel([ref])
    lifecycle.lose([support.held_by(claimed)], reason="worker_lost")
    assert (support.row(ref).status, support.row(ref).reason) == ("cancelled", "user")


@pytest.mark.parametrize("stage", ["queued", "waiting", "retrying"])
def test_what_has_not_started_is_cancelled_at_once(stage: str) -> None:
    job = support.job(max_retries=1)
    if stage == "waiting":
        new = support.new_run(job, status="waiting", reason="dependency")
        (ref,) = lifecycle.record_ticks([new])
    else:
        ref = support.queued(job)
    if stage == "retrying":
        (claimed,) = support.claim([ref])
        lifecycle.finish([support.result(claimed, "retrying", retry_in_sec=60.0)])
    assert [moved.status for moved in lifecycle.cancel([ref])] == ["cancelled"]
    assert (support.row(ref).status, support.row(ref).reason) == ("cancelled", "user")
    assert support.claim([ref]) == []


def test_a_terminal_run_cannot_be_cancelled() -> None:
    ref = support.queued(support.job())
    (claimed,) = support.claim([ref])
    lifecycle.finish([support.result(claimed)])
    assert lifecycle.cancel([ref]) == []
    assert support.row(ref).status == "succeeded"


def test_a_rerun_keeps_the_old_attempt_and_gives_new_ones() -> None:
    job = support.job(max_retries=2)
    ref = support.queued(job)
    (claimed,) = support.claim([ref])
    lifecycle.finish([support.result(claimed, "dead", reason="exit_code", exit_code=1)])
    assert lifecycle.rerun([ref]) == [ref]
    run = support.row(ref)
    assert (run.status, run.attempt, run.attempt_limit) == ("queued", 1, 4)
    assert (run.exit_code, run.error, run.finished_at) == (None, "", None)
    assert list(RunAttempt.objects.values_list("attempt", "outcome")) == [(1, "failed")]
    (again,) = support.claim([ref])
    assert again.attempt == 2


def test_only_terminal_runs_of_living_jobs_are_rerun() -> None:
    job = support.job()
    ref = support.queued(job)
    assert lifecycle.rerun([ref]) == []
    lifecycle.cancel([ref])
    job.deleted_at = db_now()
    job.save()
    assert lifecycle.rerun([ref]) == []
    assert support.row(ref).status == "cancelled"


def test_a_retry_of_a_deleted_job_is_cancelled_instead() -> None:
    job = support.job(max_retries=1)
    ref = support.queued(job)
    (claimed,) = support.claim([ref])
    lifecycle.finish([support.result(claimed, "retrying", retry_in_sec=0.0)])
    job.deleted_at = db_now()
    job.save()
    lifecycle.promote()
    assert (support.row(ref).status, support.row(ref).reason) == ("cancelled", "job_deleted")


def test_held_is_compared_by_value() -> None:
    instant, claim_id = support.this_second(), uuid.uuid4()
    run_id = uuid.uuid4()
    assert Held(run_id, instant, 1, claim_id) == Held(run_id, instant, 1, claim_id)
