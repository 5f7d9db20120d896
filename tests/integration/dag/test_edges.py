"""Edges as the API writes them."""

import pytest

from jobs.errors import FieldErrors
from jobs.hooks import Edge
from tests.integration.dag.support import after, day, job
from tests.integration.support import team

pytestmark = pytest.mark.django_db


def refused(job_: object, *upstreams: object) -> list[tuple[str, str]]:
    with pytest.raises(FieldErrors) as caught:
        after(job_, *upstreams)  # type: ignore[arg-type]
    return [(error.field, error.message) for error in caught.value.errors]


def test_a_cycle_is_refused_and_named() -> None:
    a, b, c = job(name="a"), job(name="b"), job(name="c")
    after(b, a)
    after(c, b)
    assert refused(a, c) == [("dependsOn[0]", "closes a cycle: a → c → b → a")]


def test_an_edge_that_goes_away_closes_no_cycle() -> None:
    a, b = job(), job()
    after(b, a)
    after(b)
    after(a, b)
    assert not b.has_upstreams
    assert a.has_upstreams


def test_what_is_wrong_is_named() -> None:
    a, foreign = job(), job(owner=team("other"))
    assert refused(a, foreign) == [("dependsOn[0]", "is not the id of a job of the team")]
    assert refused(a, a) == [("dependsOn[0]", "is the job itself")]
    b = job()
    assert refused(a, b, b) == [("dependsOn[1]", "names a job that is named before")]
    ((field, _),) = refused(a, Edge(b.job_id, "tick", 1))
    assert field == "dependsOn[0]"
    ((field, _),) = refused(a, day(b, 8))
    assert field == "dependsOn[0]"


def test_a_scheduled_job_may_not_wait_for_one_that_only_people_trigger() -> None:
    manual = job(name="manual")
    driven = after(job(name="driven"), manual)
    ((field, message),) = refused(job(schedule="@daily"), driven)
    assert field == "dependsOn"
    assert "'driven'" in message
    after(job(schedule="@daily"), after(driven, job(schedule="@hourly")))
