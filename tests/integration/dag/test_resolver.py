"""What becomes of waiting runs when their upstreams end."""

from datetime import timedelta
from functools import partial

import pytest

from dag import sweeps
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
