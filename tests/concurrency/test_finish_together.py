"""Upstreams that finish at the same moment, in processes of their own."""

import json
import multiprocessing
import random
from base64 import b64decode
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import pytest
import redis

from dag.services import edges
from jobs.hooks import Edge
from jobs.models import Job
from runs import lifecycle
from runs.models import Run
from runs.records import RunRef
from tests.concurrency.finishers import Claimed, finish_each
from tests.integration import support

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

# As many as a test run has time for; bench/dag.py does two thousand.
TRIALS = 100


def below(*upstreams: Job, **values: str) -> Job:
    made = support.job(**values)
    edges.set_edges(made, [Edge(one.job_id) for one in upstreams])
    return made


def ticks(jobs: Sequence[Job], count: int) -> list[datetime]:
    """Record as many ticks of the jobs, the last one now."""
    first = support.this_second() - count * support.SECOND
    instants = [first + place * support.SECOND for place in range(count)]
    lifecycle.record_ticks([support.new_run(job, at) for at in instants for job in jobs])
    return instants


def claimed(job: Job) -> list[Claimed]:
    refs = sorted(
        RunRef(*row) for row in Run.objects.filter(job=job).values_list("run_id", "scheduled_for")
    )
    runs = sorted(support.claim(refs, lease_sec=600), key=lambda run: run.scheduled_for)
    return [(run.run_id, run.scheduled_for, run.attempt, run.claim_id) for run in runs]


def finish_together(jobs: Sequence[Job], statuses: Sequence[Sequence[str]]) -> None:
    """Finish each tick of all the jobs at once, a process for each job."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(jobs))
    workers = [
        context.Process(target=finish_each, args=(barrier, claimed(job), ends))
        for job, ends in zip(jobs, statuses, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(100)
    assert [worker.exitcode for worker in workers] == [0] * len(jobs)


def messages(valkey: redis.Redis) -> Counter[str]:
    """Count the messages of each run in the queues."""
    found: Counter[str] = Counter()
    for queue in ("default.normal", "default.low"):
        for raw in valkey.lrange(queue, 0, -1):
            body = json.loads(b64decode(json.loads(raw)["body"]))
            found.update(run_id for run_id, _ in body[0][0])
    return found


def test_two_upstreams_release_their_downstream_exactly_once(valkey: redis.Redis) -> None:
    upstreams = [support.job(schedule="* * * * * *") for _ in range(2)]
    downstream = below(*upstreams)
    ticks(upstreams, TRIALS)
    valkey.flushall()
    finish_together(upstreams, [["succeeded"] * TRIALS] * 2)
    assert support.statuses(downstream) == [("queued", "")] * TRIALS
    run_ids = Run.objects.filter(job=downstream).values_list("run_id", flat=True)
    assert messages(valkey) == Counter(str(run_id) for run_id in run_ids)


def test_whatever_ends_together_the_rules_hold_all_the_way_down(valkey: redis.Redis) -> None:
    trials = 60
    upstreams = [support.job(schedule="* * * * * *") for _ in range(3)]
    every = below(*upstreams)
    some = below(upstreams[0], upstreams[1], trigger_rule="one_success")
    ending = below(every, some, trigger_rule="all_done")
    last = below(every)
    instants = ticks(upstreams, trials)
    rng = random.Random(7)
    ends = [[rng.choice(["succeeded", "dead"]) for _ in instants] for _ in upstreams]
    valkey.flushall()
    finish_together(upstreams, ends)

    ok = [[end == "succeeded" for end in of_one] for of_one in ends]
    all_ok = [all(together) for together in zip(*ok, strict=True)]
    any_ok = [first or second for first, second in zip(ok[0], ok[1], strict=True)]
    queued, skipped, waiting = ("queued", ""), ("skipped", "upstream_failed"), "waiting"
    assert support.statuses(every) == [queued if good else skipped for good in all_ok]
    assert support.statuses(some) == [queued if good else skipped for good in any_ok]
    assert support.statuses(last) == [
        (waiting, "dependency") if good else skipped for good in all_ok
    ]
    assert support.statuses(ending) == [
        (waiting, "dependency") if every_ok or some_ok else queued
        for every_ok, some_ok in zip(all_ok, any_ok, strict=True)
    ]
    assert set(messages(valkey).values()) == {1}


def test_a_newborn_sees_what_finished_while_it_was_born(valkey: redis.Redis) -> None:
    """Births and finishes cross: whichever commits first, the run does not stay behind."""
    trials = 50
    upstream = support.job(schedule="* * * * * *")
    downstream = below(upstream, schedule="* * * * * *")
    instants = ticks([upstream], trials)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    worker = context.Process(
        target=finish_each, args=(barrier, claimed(upstream), ["succeeded"] * trials)
    )
    worker.start()
    for at in instants:
        barrier.wait(60)
        news = support.new_run(downstream, at, status="waiting", reason="dependency")
        lifecycle.record_ticks([news])
    worker.join(60)
    assert worker.exitcode == 0
    assert support.statuses(downstream) == [("queued", "")] * trials
    run_ids = Run.objects.filter(job=downstream).values_list("run_id", flat=True)
    assert all(messages(valkey)[str(run_id)] == 1 for run_id in run_ids)
