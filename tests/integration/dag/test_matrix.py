"""Every trigger rule, every outcome of an upstream, both matches."""

from datetime import UTC, datetime

import pytest

from jobs.hooks import Edge
from runs import lifecycle
from tests.integration.dag.past import driven, make_days, scheduled, work
from tests.integration.dag.support import committed, end, ref_of, status
from tests.integration.support import set_columns

pytestmark = pytest.mark.django_db

AT = datetime(2025, 6, 1, tzinfo=UTC)
QUEUED, FAILED = ("queued", ""), ("skipped", "upstream_failed")
NOT_MET = ("skipped", "rule_not_met")

EXPECTED = {
    "all_success": {"succeeded": QUEUED, "dead": FAILED, "cancelled": FAILED, "skipped": FAILED},
    "all_done": dict.fromkeys(["succeeded", "dead", "cancelled", "skipped"], QUEUED),
    "one_success": {"succeeded": QUEUED, "dead": FAILED, "cancelled": FAILED, "skipped": FAILED},
    "one_failed": {"succeeded": NOT_MET, "dead": QUEUED, "cancelled": QUEUED, "skipped": NOT_MET},
    "none_failed": {"succeeded": QUEUED, "dead": FAILED, "cancelled": FAILED, "skipped": QUEUED},
}


@pytest.mark.parametrize("match", ["tick", "day"])
@pytest.mark.parametrize("outcome", ["succeeded", "dead", "cancelled", "skipped"])
def test_what_each_rule_makes_of_an_outcome(outcome: str, match: str) -> None:
    make_days(AT)
    upstream = scheduled("0 0 * * *", AT)
    below = {
        rule: driven(Edge(upstream.job_id, match), trigger_rule=rule, name=rule)
        for rule in EXPECTED
    }
    further = {rule: driven(job) for rule, job in below.items()}
    work(AT)
    assert {status(job, AT) for job in below.values()} == {("waiting", "dependency")}
    if outcome == "skipped":
        with committed():
            set_columns(ref_of(upstream, AT), "status = 'waiting', reason = 'concurrency'")
            lifecycle.skip([ref_of(upstream, AT)], ["concurrency"])
    else:
        end(upstream, AT, outcome)
    assert {rule: status(job, AT) for rule, job in below.items()} == {
        rule: outcomes[outcome] for rule, outcomes in EXPECTED.items()
    }
    assert {rule: status(job, AT) for rule, job in further.items()} == {
        rule: ("waiting", "dependency") if outcomes[outcome] == QUEUED else FAILED
        for rule, outcomes in EXPECTED.items()
    }
