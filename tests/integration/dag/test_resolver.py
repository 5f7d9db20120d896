"""What becomes of waiting runs when their upstreams end."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError

from dag import resolver, sweeps
from dag.models import RunDep
from jobs.models import AuditEntry, Job
from runs import lifecycle
from runs.models import Run
from runs.signals import run_finished
from tests.integration.dag import support
from tests.integration.dag.support import after, end, job, status, this_second, tick
from tests.integration.support import set_columns

pytestmark = pytest.mark.django_db

WAITING, QUEUED = ("waiting", "dependency"), ("queued", "")
FAILED = ("skipped", "upstream_failed")


def scheduled(**values: object) -> Job:
    return job(schedule="* * * * *", **values)


def chain(length: int) -> list[Job]:
    """Return a scheduled job and those driven by it, one after the other."""
    jobs = [scheduled()]
    for _ in range(length - 1):
        jobs.append(after(job(), jobs[-1]))
    return jobs


def test_a_chain_is_born_with_its_tick_and_waits() -> None:
    first, second, third = chain(3)
    at = this_second()
    tick(at, first)
    assert [status(one, at) for one in (first, second, third)] == [QUEUED, WAITING, WAITING]
    rows = Run.objects.filter(job__in=[second, third])
    assert set(rows.values_list("trigger", "logical_date")) == {("dependency", at)}
    waits = RunDep.objects.order_by("run_dep_id")
    assert {(dep.job_id, dep.depends_on_job_id, dep.span_from) for dep in waits} == {
        (second.job_id, first.job_id, at),
        (third.job_id, second.job_id, at),
    }


def test_a_success_releases_only_the_next_one() -> None:
    first, second, third = chain(3)
    at = this_second()
    tick(at, first)
    end(first, at)
    assert [status(one, at) for one in (second, third)] == [QUEUED, WAITING]
    released = Run.objects.get(job=second, scheduled_for=at)
    assert released.published_at is not None


def test_a_dead_upstream_skips_everything_below_at_once() -> None:
    first, *rest = chain(6)
    at = this_second()
    tick(at, first)
    end(first, at, "dead")
    assert {status(one, at) for one in rest} == {FAILED}


def test_a_failed_attempt_that_is_tried_again_moves_nothing() -> None:
    first, second = chain(2)
    at = this_second()
    tick(at, first)
    ref = support.ref_of(first, at)
    (claimed,) = support.claim([ref])
    lifecycle.finish([support.result(claimed, "retrying", retry_in_sec=60.0)])
    assert status(second, at) == WAITING


def test_a_scheduled_job_waits_for_the_same_instant() -> None:
    first = scheduled()
    second = after(scheduled(), first)
    at = this_second()
    tick(at, first, second)
    assert status(second, at) == WAITING
    end(first, at)
    assert status(second, at) == QUEUED


def test_a_run_whose_upstream_has_finished_before_is_released_at_birth() -> None:
    first = scheduled()
    at = this_second().replace(second=0)
    second = after(scheduled(), first)
    tick(at, first)
    end(first, at)
    tick(at + timedelta(seconds=1), second)
    assert status(second, at + timedelta(seconds=1)) == QUEUED


def test_a_fan_in_waits_for_the_last() -> None:
    root = scheduled()
    middle = [after(job(), root) for _ in range(3)]
    last = after(job(), *middle)
    at = this_second()
    tick(at, root)
    end(root, at)
    for one in middle:
        assert status(last, at) == WAITING
        end(one, at)
    assert status(last, at) == QUEUED


def test_a_rerun_that_succeeds_revives_what_was_skipped() -> None:
    first, second, third = chain(3)
    at = this_second()
    tick(at, first)
    end(first, at, "dead")
    with support.committed():
        lifecycle.rerun([support.ref_of(first, at)])
    assert [status(one, at) for one in (second, third)] == [FAILED, FAILED]
    end(first, at)
    assert [status(one, at) for one in (second, third)] == [QUEUED, WAITING]
    assert set(Run.objects.filter(job__in=[second, third]).values_list("priority")) == {("low",)}
    revived = AuditEntry.objects.filter(action="revive")
    assert {entry.object_id for entry in revived} == {
        str(support.ref_of(one, at).run_id) for one in (second, third)
    }
    end(second, at)
    assert status(third, at) == QUEUED


def test_a_revival_looks_at_every_edge() -> None:
    first, other = scheduled(), scheduled()
    last = after(job(), first, other)
    at = this_second()
    tick(at, first, other)
    end(first, at, "dead")
    end(other, at, "dead")
    with support.committed():
        lifecycle.rerun([support.ref_of(first, at)])
    end(first, at)
    assert status(last, at) == FAILED


def test_only_what_upstreams_had_skipped_is_revived() -> None:
    first, second = chain(2)
    at = this_second()
    tick(at, first)
    lifecycle.skip([support.ref_of(second, at)], ["dependency_timeout"])
    end(first, at, "dead")
    with support.committed():
        lifecycle.rerun([support.ref_of(first, at)])
    end(first, at)
    assert status(second, at) == ("skipped", "dependency_timeout")


def test_a_released_run_still_has_to_find_room_at_its_limit() -> None:
    first = scheduled()
    second = after(job(max_concurrency=1), first)
    at = this_second() - timedelta(minutes=2)
    later = at + timedelta(minutes=1)
    for instant in (at, later):
        tick(instant, first)
        end(first, instant)
    assert [status(second, at), status(second, later)] == [QUEUED, ("waiting", "concurrency")]


def test_the_sweep_does_what_every_signal_would_have() -> None:
    first, second, third = chain(3)
    at = this_second()
    tick(at, first)
    receivers, run_finished.receivers = run_finished.receivers, []
    run_finished.sender_receivers_cache.clear()
    try:
        end(first, at, "dead")
        assert status(second, at) == WAITING
        assert (
            support.look(partial(sweeps.resolve_waiting, sweeps.Walk("page_waiting", pages=1))) == 2
        )
    finally:
        run_finished.receivers = receivers
        run_finished.sender_receivers_cache.clear()
    assert [status(one, at) for one in (second, third)] == [FAILED, FAILED]


def test_an_endless_wait_ends() -> None:
    first, second, third = chain(3)
    at = this_second() - timedelta(days=1, minutes=5)
    tick(at, first)
    set_columns(support.ref_of(second, at), "available_at = now() - interval '24 hours 1 minute'")
    assert support.look(sweeps.end_long_waits) == 1
    assert status(second, at) == ("skipped", "dependency_timeout")
    assert status(third, at) == FAILED


def test_runs_that_wait_for_one_another_wait_for_their_time_to_be_up() -> None:
    """Edges that were turned round while runs were in flight."""
    first, second, third = chain(3)
    at = this_second() - timedelta(hours=1)
    tick(at, first)
    RunDep.objects.filter(job=second).update(depends_on_job=third)
    end(first, at, "dead")
    assert [status(one, at) for one in (second, third)] == [WAITING, WAITING]
    Job.objects.filter(job_id=second.job_id).update(dependency_timeout_sec=60)
    set_columns(support.ref_of(second, at), "available_at = now() - interval '1 hour'")
    assert support.look(sweeps.end_long_waits) == 1
    assert status(second, at) == ("skipped", "dependency_timeout")


def test_a_run_keeps_the_edges_it_was_born_with() -> None:
    first, second = chain(2)
    other = scheduled()
    at = this_second()
    tick(at, first)
    after(second, other)
    end(first, at)
    assert status(second, at) == QUEUED
    later = at + timedelta(seconds=1)
    tick(later, first, other)
    end(first, later)
    assert status(second, later) == WAITING
    end(other, later)
    assert status(second, later) == QUEUED


def test_a_run_born_while_its_job_was_deleted_does_not_start() -> None:
    first, second = chain(2)
    at = this_second()
    tick(at, first)
    Job.objects.filter(job_id=second.job_id).update(deleted_at=at)
    end(first, at)
    assert status(second, at) == ("skipped", "job_deleted")


def test_a_paused_driven_job_has_no_rows() -> None:
    first, second, third = chain(3)
    Job.objects.filter(job_id=second.job_id).update(enabled=False)
    at = this_second()
    tick(at, first)
    assert not Run.objects.filter(job__in=[second, third]).exists()


@pytest.mark.parametrize("fault", [DatabaseError("a deadlock, say"), KeyError("a defect, say")])
def test_what_a_doorbell_could_not_do_is_done_after_the_commit(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    first, second = chain(2)
    at = this_second()
    tick(at, first)
    real, fails = resolver.resolve_after, [fault]

    def flaky(*args: Any) -> int:  # noqa: ANN401 - whatever resolve_after takes
        if fails:
            raise fails.pop()
        return real(*args)

    monkeypatch.setattr(resolver, "resolve_after", flaky)
    end(first, at)
    assert [status(one, at) for one in (first, second)] == [("succeeded", ""), QUEUED]


def test_a_lost_revival_is_swept_up() -> None:
    first, second = chain(2)
    at = this_second()
    tick(at, first)
    end(first, at, "dead")
    set_columns(support.ref_of(first, at), "status = 'succeeded', finished_at = now() + '1 second'")
    walk = sweeps.Walk("page_revivable", pages=1)
    assert support.look(partial(sweeps.revive_skipped, walk)) == 1
    assert status(second, at) == QUEUED
    assert support.look(partial(sweeps.revive_skipped, walk)) == 0


def test_what_has_served_is_forgotten_after_retention() -> None:
    first, second = chain(2)
    at = this_second()
    tick(at, first)
    RunDep.objects.create(
        run_id=second.job_id,
        scheduled_for=at - timedelta(days=60),
        job=second,
        logical_date=at,
        trigger_rule="all_success",
        depends_on_job=first,
        match="tick",
        span_from=at,
        span_until=at,
    )
    assert sweeps.forget_old_waits() == 1
    assert RunDep.objects.count() == 1


def test_a_walk_comes_round_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "PAGE", 2)
    first, *rest = chain(6)
    at = this_second()
    tick(at, first)
    walk = sweeps.Walk("page_waiting", pages=1)
    oldest = at - timedelta(days=1)
    pages = [[row["job_id"] for rows in walk.pages(oldest) for row in rows] for _ in range(6)]
    assert [len(page) for page in pages] == [2, 2, 1, 2, 2, 1]
    assert {job for page in pages[:3] for job in page} == {one.job_id for one in rest}
