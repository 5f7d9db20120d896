"""Random DAGs with random outcomes, kills, cancels and re-runs, held against a model on paper."""

import os
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import pytest

from dag.models import Dep
from jobs.choices import TriggerRule
from jobs.models import Job
from runs import lifecycle
from runs.models import Run
from runs.records import ClaimedRun, RunRef
from tests.integration import support
from tests.integration.dag.model import ENDED, QUEUED, RETRYING, RUNNING, WAITING, Model, Node
from tests.integration.dag.support import committed, tick

pytestmark = pytest.mark.django_db

MAX_LOST = 3
# Another CHRONO_TEST_SEED draws other graphs and other fates.
SEED = int(os.environ.get("CHRONO_TEST_SEED", "0"))


@dataclass(slots=True)
class World:
    """Real runs, and the model beside them."""

    rng: random.Random
    model: Model
    refs: list[RunRef]
    held: dict[int, ClaimedRun]

    def some(self, *statuses: str) -> list[int]:
        """Return up to three runs of these statuses, by chance."""
        found = [n for n, node in enumerate(self.model.nodes) if node.status in statuses]
        return sorted(self.rng.sample(found, min(len(found), self.rng.randint(1, 3))))

    def claim(self) -> None:
        """Let a worker take queued runs."""
        for number in self.some(QUEUED):
            (self.held[number],) = support.claim([self.refs[number]])
            self.model.nodes[number].becomes(RUNNING)
            self.model.nodes[number].executions += 1

    def finish(self) -> None:
        """End running ones, several in one statement."""
        numbers = self.some(RUNNING)
        ends = {number: self.rng.choices(["succeeded", "dead"], [4, 1])[0] for number in numbers}
        lifecycle.finish(
            sorted(
                (support.result(self.held.pop(number), end) for number, end in ends.items()),
                key=lambda result: result.run_id,
            )
        )
        for number, end in ends.items():
            self.model.nodes[number].becomes(end)
        for number in numbers:
            self.model.ring(number)

    def kill(self) -> None:
        """Kill the worker of running ones: they are tried again, and dead at last."""
        for number in self.some(RUNNING):
            lifecycle.lose([support.held_by(self.held.pop(number))], reason="crashed")
            node = self.model.nodes[number]
            if node.lost >= MAX_LOST:
                self.model.end(number, "dead", "crashed")
            else:
                node.becomes(RETRYING, "crashed")
            node.lost += 1

    def promote(self) -> None:
        """Let every back-off be over."""
        for number, node in enumerate(self.model.nodes):
            if node.status == RETRYING:
                support.set_columns(self.refs[number], "available_at = now() - interval '1 hour'")
                node.becomes(QUEUED, node.reason)
        lifecycle.promote()

    def cancel(self) -> None:
        """Let a person cancel what has not started."""
        for number in self.some(WAITING, QUEUED, RETRYING)[:1]:
            lifecycle.cancel([self.refs[number]])
            self.model.end(number, "cancelled", "user")

    def rerun(self) -> None:
        """Let a person run again what did not succeed."""
        for number in self.some("dead", "cancelled")[:2]:
            lifecycle.rerun([self.refs[number]])
            node = self.model.nodes[number]
            node.becomes(QUEUED)
            node.lost = 0

    def check(self) -> None:
        """Compare every run with its node."""
        rows = {row.run_id: row for row in Run.objects.all()}
        for ref, node in zip(self.refs, self.model.nodes, strict=True):
            run = rows[ref.run_id]
            assert (run.status, run.reason, run.attempt) == (
                node.status, node.reason, node.executions,
            )  # fmt: skip


def make(rng: random.Random, count: int, at: datetime) -> World:
    """Make jobs with random edges below one that is scheduled, and their runs."""
    jobs = [support.job(schedule="* * * * *", name="0")]
    nodes = [Node("all_success", ())]
    nodes[0].becomes(QUEUED)
    followers: dict[int, list[int]] = defaultdict(list)
    for number in range(1, count):
        upstreams = sorted(rng.sample(range(number), min(number, rng.choice([1, 1, 2, 2, 3, 6]))))
        rule = rng.choices(TriggerRule.values, [6, 1, 1, 1, 1])[0]
        jobs.append(support.job(name=str(number), trigger_rule=rule, has_upstreams=True))
        nodes.append(Node(rule, upstreams))
        for upstream in upstreams:
            followers[upstream].append(number)
    Dep.objects.bulk_create(
        Dep(job=jobs[number], depends_on_job=jobs[upstream])
        for number, node in enumerate(nodes)
        for upstream in node.upstreams
    )
    tick(at, jobs[0])
    by_job = {run.job_id: RunRef(run.run_id, run.scheduled_for) for run in Run.objects.all()}
    return World(rng, Model(nodes, followers), [by_job[job.job_id] for job in jobs], {})


def test_two_hundred_jobs_behave_as_on_paper() -> None:
    rng = random.Random(SEED)
    world = make(rng, 200, support.this_second())
    assert Job.objects.count() == 200
    acts: list[Callable[[], None]] = [
        world.claim, world.finish, world.kill, world.promote, world.cancel, world.rerun,
    ]  # fmt: skip
    for _ in range(90):
        (act,) = rng.choices(acts, [10, 10, 1, 2, 1, 2])
        with committed():
            act()
        world.check()
    while not all(node.status in ENDED for node in world.model.nodes):
        for act in (world.promote, world.claim, world.finish):
            with committed():
                act()
        world.check()
