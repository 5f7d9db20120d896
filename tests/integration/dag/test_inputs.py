"""What a run is given of its upstreams: the runs of its own edges, and their outputs."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from chronoproject.clock import db_now
from dag import inputs
from jobs.fields import instant_text
from jobs.models import Job
from runs import lifecycle
from runs.models import Run
from runs.records import RunRef
from tests.integration.dag.past import HOUR, MINUTE, SECOND, make_days, scheduled, work
from tests.integration.dag.support import (
    after,
    claim,
    committed,
    day,
    end,
    job,
    ref_of,
    result,
    this_second,
    tick,
)
from tests.integration.support import new_run

pytestmark = pytest.mark.django_db
NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
NOTHING = dict.fromkeys(("id", "status", "scheduledFor", "logicalDate", "output"))


def end_with(ref: RunRef, output: Any, status: str = "succeeded") -> None:  # noqa: ANN401
    with committed():
        (claimed,) = claim([ref])
        lifecycle.finish([result(claimed, status, output=output)])


def body(job_: Job, at: datetime, output: Any, status: str = "succeeded") -> dict[str, Any]:  # noqa: ANN401
    run = Run.objects.get(job=job_, scheduled_for=at)
    return {
        "id": str(run.run_id),
        "status": status,
        "scheduledFor": instant_text(at),
        "logicalDate": instant_text(run.logical_date),
        "output": output,
    }


def test_each_tick_edge_has_its_run_by_the_upstreams_name() -> None:
    good, bad, other = job(name="good"), job(name="bad"), job(name="other")
    last = after(job(trigger_rule="all_done"), good, bad)
    at = this_second()
    tick(at, good, bad, other, last)
    tick(at - SECOND, good)
    end_with(ref_of(good, at), {"rows": 3})
    end_with(ref_of(bad, at), ["why"], "dead")
    end_with(ref_of(good, at - SECOND), "of another tick")
    after(last, other)  # an edit binds later runs
    assert inputs.inputs_of(ref_of(last, at)) == {
        "good": {"jobId": str(good.job_id), **body(good, at, {"rows": 3})},
        "bad": {"jobId": str(bad.job_id), **body(bad, at, ["why"], "dead")},
    }


def test_two_statements_and_one_without_edges(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    upstreams = [job() for _ in range(20)]
    last = after(job(), *upstreams)
    at = this_second()
    tick(at, *upstreams, last)
    with_edges, without = ref_of(last, at), ref_of(upstreams[0], at)
    with django_assert_num_queries(2):
        assert len(inputs.inputs_of(with_edges)) == 20
    with django_assert_num_queries(1):
        assert inputs.inputs_of(without) == {}


def test_a_day_edge_has_a_list_oldest_first() -> None:
    make_days(NOON)
    load = scheduled("0 */8 * * *", NOON.replace(hour=0), name="load", misfire_grace_sec=200_000)
    roll_up = after(scheduled("0 23 * * *", NOON.replace(hour=23)), day(load))
    work(NOON.replace(hour=23))
    hours = [NOON.replace(hour=hour) for hour in (0, 8, 16)]
    for at in hours[:2]:
        end_with(ref_of(load, at), at.hour)
    end(load, hours[2])
    assert inputs.inputs_of(ref_of(roll_up, NOON.replace(hour=23))) == {
        "load": {
            "jobId": str(load.job_id),
            "runs": [
                body(load, hours[0], 0),
                body(load, hours[1], 8),
                body(load, hours[2], None),
            ],
        }
    }


def test_a_coalesced_tick_gives_the_run_it_went_into() -> None:
    make_days(NOON)
    upstream = scheduled("* * * * *", NOON - 3 * HOUR + MINUTE, name="up")
    late = NOON - 3 * HOUR + 30 * MINUTE
    values = {"misfire_policy": "run_all"}
    by_tick = after(scheduled("30 * * * *", late, **values), upstream)
    by_day = after(scheduled("30 * * * *", late, **values), day(upstream))
    work(NOON + 30 * SECOND)
    end_with(ref_of(upstream, NOON), {"upTo": "noon"})
    noon = body(upstream, NOON, {"upTo": "noon"})
    job_id = {"jobId": str(upstream.job_id)}
    assert inputs.inputs_of(ref_of(by_tick, late)) == {"up": {**job_id, **noon}}
    assert inputs.inputs_of(ref_of(by_day, late)) == {"up": {**job_id, "runs": [noon]}}


def test_a_tick_that_became_no_run_is_null() -> None:
    make_days(NOON)
    upstream = scheduled("0 * * * *", NOON - 3 * HOUR, name="up", misfire_policy="skip")
    values = {"misfire_policy": "run_all", "trigger_rule": "all_done"}
    downstream = after(scheduled("30 * * * *", NOON - 3 * HOUR + 30 * MINUTE, **values), upstream)
    work(NOON - 30 * SECOND)
    given = inputs.inputs_of(ref_of(downstream, NOON - 3 * HOUR + 30 * MINUTE))
    assert given == {"up": {"jobId": str(upstream.job_id), **NOTHING}}


def test_of_several_runs_for_a_tick_the_newest_is_given() -> None:
    upstream = job(name="up")
    last = after(job(), upstream)
    at = this_second()
    tick(at, upstream, last)
    end_with(ref_of(upstream, at), "first")
    now = db_now()
    again = new_run(upstream, now, logical_date=at, trigger="manual")
    with committed():
        lifecycle.record_ticks([again])
    end_with(again.ref, "second")
    (given,) = inputs.inputs_of(ref_of(last, at)).values()
    assert (given["output"], given["scheduledFor"]) == ("second", instant_text(now))


def test_a_deleted_upstream_of_the_same_name_stands_under_its_id() -> None:
    old, new = job(), job(name="up")
    last = after(job(), old, new)
    at = this_second()
    tick(at, old, new, last)
    Job.objects.filter(job_id=old.job_id).update(name="up", deleted_at=db_now())
    given = inputs.inputs_of(ref_of(last, at))
    assert given.keys() == {"up", str(old.job_id)}
    assert given["up"]["jobId"] == str(new.job_id)


def test_what_is_too_much_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_OUTPUT_BYTES", 50)
    monkeypatch.setattr(inputs, "MAX_RUNS", 3)
    make_days(NOON)
    load = scheduled("0 */6 * * *", NOON.replace(hour=0), name="load", misfire_grace_sec=200_000)
    roll_up = after(scheduled("0 23 * * *", NOON.replace(hour=23)), day(load))
    work(NOON.replace(hour=23))
    hours = [NOON.replace(hour=hour) for hour in (0, 6, 12, 18)]
    for at in hours:
        end_with(ref_of(load, at), "x" * 20)
    given = inputs.inputs_of(ref_of(roll_up, NOON.replace(hour=23)))["load"]
    assert given["omittedRuns"] == 1
    assert [run["scheduledFor"] for run in given["runs"]] == [instant_text(at) for at in hours[1:]]
    assert [run["output"] for run in given["runs"]] == [None, "x" * 20, "x" * 20]
    assert [run.get("omittedBytes") for run in given["runs"]] == [22, None, None]
