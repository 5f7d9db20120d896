"""How many statements it takes: a handful, whether five runs are concerned or fifty."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dag.receivers import resolve_followers
from jobs.models import Job
from runs import lifecycle
from runs.signals import run_finished
from tests.integration.dag import support
from tests.integration.dag.support import after, end, end_all, job, this_second, tick

pytestmark = pytest.mark.django_db

UID = "dag.resolve_followers"
FEW, MANY = 5, 50


def statements(act: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as captured:
        act()
    return len(captured)


def cost_of_finish(job_: Job, at: datetime, status: str = "succeeded") -> int:
    """Return how many statements the finish of the job's queued run sends."""
    (claimed,) = support.claim([support.ref_of(job_, at)])
    return statements(lambda: lifecycle.finish([support.result(claimed, status)]))


def chain(length: int) -> list[Job]:
    jobs = [job(schedule="* * * * *")]
    for _ in range(length - 1):
        jobs.append(after(job(), jobs[-1]))
    return jobs


def fan(width: int) -> tuple[Job, list[Job], Job]:
    """Return one job, many below it, and one below all of these."""
    root = job(schedule="* * * * *")
    middle = [after(job(), root) for _ in range(width)]
    return root, middle, after(job(), *middle)


def test_a_job_without_downstream_pays_one_statement_and_no_savepoint() -> None:
    alone = job(schedule="* * * * *")
    at = this_second()
    tick(at, alone)
    with_dag = cost_of_finish(alone, at)
    run_finished.disconnect(dispatch_uid=UID)
    try:
        later = at.replace(microsecond=1)
        tick(later, alone)
        assert with_dag == cost_of_finish(alone, later) + 1
    finally:
        run_finished.connect(resolve_followers, dispatch_uid=UID)


def test_a_birth_costs_the_same_for_a_long_chain_and_a_short_one() -> None:
    at = this_second()
    costs = {statements(partial(tick, at, chain(length)[0])) for length in (FEW, MANY)}
    assert len(costs) == 1
    assert max(costs) <= 8


def test_a_death_costs_the_same_for_a_long_chain_and_a_short_one() -> None:
    at = this_second()
    costs = set()
    for length in (FEW, MANY):
        jobs = chain(length)
        tick(at, jobs[0])
        costs.add(cost_of_finish(jobs[0], at, "dead"))
        assert {support.status(one, at)[0] for one in jobs[1:]} == {"skipped"}
    assert len(costs) == 1
    assert max(costs) <= 14


def test_a_release_costs_the_same_for_many_and_for_few() -> None:
    at = this_second()
    costs = set()
    for width in (FEW, MANY):
        root, middle, _ = fan(width)
        tick(at, root)
        costs.add(cost_of_finish(root, at))
        assert {support.status(one, at)[0] for one in middle} == {"queued"}
    assert len(costs) == 1
    assert max(costs) <= 9


def test_one_of_many_upstreams_costs_little_until_the_last() -> None:
    at = this_second()
    root, middle, last = fan(MANY)
    tick(at, root)
    end(root, at)
    first, *others, final = middle
    assert cost_of_finish(first, at) <= 8
    for one in others:
        end_all(one, [at])
    assert support.status(last, at) == ("waiting", "dependency")
    assert cost_of_finish(final, at) <= 10
    assert support.status(last, at) == ("queued", "")
