"""Upstream ticks that became no run of their own: judged by the ledger, not waited for."""

from datetime import UTC, datetime, timedelta

import pytest

from dag.models import RunDep
from jobs.models import Job, JobVersion
from runs import lifecycle
from runs.batch import dispatch
from runs.models import Misfire, Run
from runs.records import NewMisfire
from tests.factories import set_next
from tests.integration.dag import support
from tests.integration.dag.past import (
    HOUR,
    MINUTE,
    SECOND,
    driven,
    make_days,
    scheduled,
    sweep,
    work,
)
from tests.integration.dag.support import after, end, status, tick

pytestmark = pytest.mark.django_db

WAITING, QUEUED = ("waiting", "dependency"), ("queued", "")
FAILED = ("skipped", "upstream_failed")
NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _days() -> None:
    make_days(NOON)


def misfires(job_: Job) -> list[tuple[str, int]]:
    return list(Misfire.objects.filter(job=job_).values_list("rule", "tick_count"))


def test_a_coalesced_tick_takes_the_outcome_of_the_run_it_went_into() -> None:
    upstream = scheduled("* * * * *", NOON - 3 * HOUR + MINUTE)
    downstream = scheduled("30 * * * *", NOON - 3 * HOUR + 30 * MINUTE, misfire_policy="run_all")
    after(downstream, upstream)
    work(NOON + 30 * SECOND)
    assert misfires(upstream) == [("coalesced", 179)]
    late = [NOON - 3 * HOUR + 30 * MINUTE + place * HOUR for place in range(3)]
    assert [status(downstream, at) for at in late] == [WAITING] * 3
    end(upstream, NOON)
    assert [status(downstream, at) for at in late] == [QUEUED] * 3


def test_a_coalesced_tick_fails_with_the_run_it_went_into() -> None:
    upstream = scheduled("* * * * *", NOON - 3 * HOUR + MINUTE)
    downstream = scheduled("30 * * * *", NOON - 3 * HOUR + 30 * MINUTE, misfire_policy="run_all")
    after(downstream, upstream)
    work(NOON + 30 * SECOND)
    end(upstream, NOON, "dead")
    assert set(support.statuses(downstream)) == {FAILED}


@pytest.mark.parametrize(("policy", "rule"), [("skip", "skipped"), ("run_all", "capped")])
def test_a_tick_that_was_left_out_counts_as_skipped(policy: str, rule: str) -> None:
    upstream = scheduled(
        "* * * * *", NOON - 3 * HOUR + MINUTE, misfire_policy=policy, max_catchup=10
    )
    downstream = scheduled("30 * * * *", NOON - 3 * HOUR + 30 * MINUTE, misfire_policy="run_all")
    after(downstream, upstream)
    work(NOON)
    assert rule in dict(misfires(upstream))
    assert set(support.statuses(downstream)) == {FAILED}


def test_a_tick_that_is_still_due_is_waited_for() -> None:
    upstream = scheduled("0 12 * * *", NOON)
    downstream = scheduled("1 12 * * *", NOON + MINUTE)
    after(downstream, upstream)
    set_next(upstream, retry_at=NOON + HOUR)  # quarantined
    work(NOON + MINUTE)
    assert status(downstream, NOON + MINUTE) == WAITING
    assert not Run.objects.filter(job=upstream).exists()
    assert sweep() == 0
    set_next(upstream, retry_at=None)
    work(NOON + MINUTE)
    end(upstream, NOON)
    assert status(downstream, NOON + MINUTE) == QUEUED


def test_an_earlier_tick_is_matched_where_the_schedules_do_not_meet() -> None:
    upstream, downstream = scheduled("0 2 * * *", NOON - 10 * HOUR), scheduled("0 12 * * *", NOON)
    after(downstream, upstream)
    work(NOON - 10 * HOUR)
    end(upstream, NOON - 10 * HOUR)
    work(NOON)
    assert status(downstream, NOON) == QUEUED


def test_a_paused_upstreams_ticks_count_as_skipped_at_once() -> None:
    upstream, downstream = scheduled("0 * * * *", NOON), scheduled("1 12 * * *", NOON + MINUTE)
    after(downstream, upstream)
    Job.objects.filter(job_id=upstream.job_id).update(enabled=False)
    set_next(upstream, next_run_at=None)
    work(NOON + MINUTE)
    assert status(downstream, NOON + MINUTE) == FAILED


def test_a_recorded_pause_counts_as_skipped() -> None:
    upstream, downstream = scheduled("0 * * * *", NOON), scheduled("1 12 * * *", NOON + MINUTE)
    after(downstream, upstream)
    lifecycle.record_ticks(
        [], [NewMisfire(upstream.job_id, upstream.owner_id, NOON, NOON, 1, "paused", 1)]
    )
    set_next(upstream, next_run_at=NOON + HOUR)
    work(NOON + MINUTE)
    assert status(downstream, NOON + MINUTE) == FAILED


def test_an_upstream_that_never_had_a_tick_is_not_waited_for() -> None:
    upstream, downstream = scheduled("0 13 * * *", NOON + HOUR), scheduled("0 12 * * *", NOON)
    JobVersion.objects.filter(job=upstream).update(valid_from=NOON - MINUTE)
    after(downstream, upstream)
    work(NOON)
    assert status(downstream, NOON) == ("skipped", "no_upstream_tick")


def test_what_an_older_version_ran_is_found_in_the_ledger() -> None:
    upstream, downstream = scheduled("15 * * * *", NOON - HOUR), scheduled("0 12 * * *", NOON)
    after(downstream, upstream)
    tick(NOON - 45 * MINUTE, upstream)
    Job.objects.filter(job_id=upstream.job_id).update(schedule="0 0 * * *")
    set_next(upstream, next_run_at=NOON + 12 * HOUR)
    JobVersion.objects.filter(job=upstream).update(valid_from=NOON - 10 * MINUTE)
    work(NOON)
    assert RunDep.objects.get(job=downstream).span_from == NOON - 45 * MINUTE
    assert status(downstream, NOON) == WAITING
    end(upstream, NOON - 45 * MINUTE)
    assert status(downstream, NOON) == QUEUED


def test_a_driven_upstream_has_the_ticks_of_the_schedules_above_it() -> None:
    root = scheduled("0 * * * *", NOON)
    middle = driven(root)
    downstream = after(scheduled("30 12 * * *", NOON + 30 * MINUTE), middle)
    work(NOON)
    work(NOON + 30 * MINUTE)
    assert RunDep.objects.get(job=downstream).span_from == NOON
    end(root, NOON)
    assert status(downstream, NOON + 30 * MINUTE) == WAITING
    end(middle, NOON)
    assert status(downstream, NOON + 30 * MINUTE) == QUEUED


def test_a_driven_upstream_is_skipped_where_the_tick_above_it_was() -> None:
    root = scheduled("* * * * *", NOON - HOUR, misfire_policy="skip")
    middle = driven(root)
    downstream = scheduled("30 11 * * *", NOON - 30 * MINUTE, misfire_policy="run_all")
    after(downstream, middle)
    work(NOON)
    assert status(downstream, NOON - 30 * MINUTE) == FAILED


def test_a_tick_that_a_gap_swallowed_is_no_tick() -> None:
    gap = datetime(2025, 3, 30, 1, tzinfo=UTC)
    make_days(gap)
    upstream = scheduled(
        "30 2 * * *", gap - 23 * HOUR - 30 * MINUTE, timezone="Europe/Berlin", dst_policy="skip"
    )
    downstream = after(scheduled("0 3 * * *", gap + 2 * HOUR), upstream)
    work(gap - 23 * HOUR - 30 * MINUTE)
    work(gap + 2 * HOUR)
    assert ("dst_gap", 1) in misfires(upstream)
    (matched,) = RunDep.objects.filter(job=downstream)
    assert matched.span_from == gap - 23 * HOUR - 30 * MINUTE
    end(upstream, matched.span_from)
    assert status(downstream, gap + 2 * HOUR) == QUEUED


def test_the_newest_run_of_a_logical_date_decides() -> None:
    upstream = scheduled("0 12 * * *", NOON)
    downstream = driven(upstream)
    last = driven(downstream)
    work(NOON)
    end(upstream, NOON, "dead")
    assert status(downstream, NOON) == FAILED
    now = support.this_second() + timedelta(microseconds=1)
    tick(now, upstream, trigger="manual", logical_date=NOON)
    assert status(downstream, NOON) == FAILED
    end(upstream, now)
    assert [status(one, NOON) for one in (downstream, last)] == [QUEUED, WAITING]
    assert Run.objects.filter(job=downstream).count() == 1


def test_a_newer_run_that_is_under_way_is_waited_for() -> None:
    upstream = scheduled("0 12 * * *", NOON)
    downstream = scheduled("1 12 * * *", NOON + MINUTE)
    after(downstream, upstream)
    work(NOON)
    end(upstream, NOON)
    now = support.this_second() + timedelta(microseconds=1)
    tick(now, upstream, trigger="manual", logical_date=NOON)
    work(NOON + MINUTE)
    assert status(downstream, NOON + MINUTE) == WAITING
    end(upstream, now)
    assert status(downstream, NOON + MINUTE) == QUEUED


def test_a_driven_job_has_a_row_at_each_instant_of_the_union() -> None:
    first, second = scheduled("0 * * * *", NOON), scheduled("30 * * * *", NOON + 30 * MINUTE)
    JobVersion.objects.filter(job=second).update(valid_from=NOON - MINUTE)
    both = driven(first, second)
    for at in (NOON, NOON + 30 * MINUTE, NOON + HOUR):
        work(at)
    instants = list(Run.objects.filter(job=both).order_by("scheduled_for"))
    assert [run.scheduled_for for run in instants] == [NOON, NOON + 30 * MINUTE, NOON + HOUR]
    assert status(both, NOON) == ("skipped", "no_upstream_tick")  # the second had none yet
    half_past = {dep.depends_on_job_id: dep.span_from for dep in RunDep.objects.filter(
        job=both, scheduled_for=NOON + 30 * MINUTE
    )}  # fmt: skip
    assert half_past == {first.job_id: NOON, second.job_id: NOON + 30 * MINUTE}
    end(second, NOON + 30 * MINUTE)
    assert status(both, NOON + 30 * MINUTE) == WAITING
    end(first, NOON)
    assert status(both, NOON + 30 * MINUTE) == QUEUED


def test_upstreams_of_one_instant_in_two_batches_drive_one_row() -> None:
    first, second = scheduled("0 * * * *", NOON), scheduled("0 12 * * *", NOON)
    both = driven(first, second)
    for one in (first, second):
        with support.committed():
            dispatch(NOON, [one.job_id], lambda days: None)
    assert support.statuses(both) == [WAITING]
    end(first, NOON)
    assert status(both, NOON) == WAITING
    end(second, NOON)
    assert status(both, NOON) == QUEUED


def test_an_upstream_that_only_people_trigger_binds_no_tick() -> None:
    manual, root = support.job(), scheduled("0 * * * *", NOON)
    both = driven(manual, root)
    work(NOON)
    assert RunDep.objects.get(job=both).depends_on_job_id == root.job_id
    end(root, NOON)
    assert status(both, NOON) == QUEUED


def test_a_trigger_takes_scheduled_jobs_along_too() -> None:
    root, outside = scheduled("0 * * * *", NOON), scheduled("0 * * * *", NOON)
    nightly = after(scheduled("0 2 * * *", NOON + 14 * HOUR), root, outside)
    now = support.this_second() + timedelta(microseconds=7)
    work(NOON)
    end(outside, NOON)
    tick(now, root, trigger="manual", logical_date=NOON, with_downstream=True)
    (run,) = Run.objects.filter(job=nightly)
    assert (run.scheduled_for, run.logical_date, run.trigger) == (now, NOON, "dependency")
    assert status(nightly, now) == WAITING
    end(root, now)
    assert status(nightly, now) == QUEUED
