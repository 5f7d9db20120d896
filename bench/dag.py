"""Dependencies: how soon a run starts once its upstreams are done, and what a completion costs.

Latencies are the database's own: started_at of a run minus finished_at of its last upstream.
"""

import argparse
import multiprocessing
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Any

from bench import harness
from bench.stand_in import (
    SECOND,
    Ref,
    claim,
    connect,
    finish,
    make,
    now,
    statements,
    take,
    tick,
    work_off,
)

LATENCIES = """
SELECT extract(epoch FROM r.started_at - max(u.finished_at)) * 1000
FROM runs r JOIN run_deps d ON d.run_id = r.run_id
JOIN runs u ON u.job_id = d.depends_on_job_id AND u.scheduled_for = d.span_from
WHERE r.scheduled_for = %s AND r.started_at IS NOT NULL
GROUP BY r.run_id, r.started_at
"""


def latencies(at: datetime) -> list[float]:
    """Return the ms from the last upstream's finish to the start, of each run of the tick."""
    return [float(row[0]) for row in harness.execute(LATENCIES, at)]


def figures(values: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and the greatest."""
    ordered = sorted(values)
    return {
        "p50": round(median(ordered), 2),
        "p95": round(ordered[int(len(ordered) * 0.95)], 2),
        "max": round(ordered[-1], 2),
    }


def clear() -> None:
    """Forget every run and message."""
    from runs import publisher

    publisher.client().flushdb()
    harness.execute("TRUNCATE runs, run_deps")


# --- figures --------------------------------------------------------------------------------


def alone(rounds: int) -> dict[str, Any]:
    """A job without downstream: a completion with dag's receiver and without, in turns."""
    from dag.receivers import resolve_followers
    from runs.signals import run_finished

    (job,) = make(1)
    start = now() - timedelta(hours=6)
    for place in range(2 * rounds + 2):
        tick(start + place * SECOND, job)
    claimed = claim(every_run(job))
    spent: dict[bool, list[float]] = {True: [], False: []}
    counted: dict[bool, int] = {}
    for place, one in enumerate(claimed[: 2 * rounds]):
        listens = place % 2 == 0
        if not listens:
            run_finished.disconnect(dispatch_uid="dag.resolve_followers")
        spent[listens].append(finish(one))
        run_finished.connect(resolve_followers, dispatch_uid="dag.resolve_followers")
    counted[True] = statements(lambda: finish(claimed[-1]))
    run_finished.disconnect(dispatch_uid="dag.resolve_followers")
    counted[False] = statements(lambda: finish(claimed[-2]))
    run_finished.connect(resolve_followers, dispatch_uid="dag.resolve_followers")
    return {
        "finish_ms": figures(spent[True]),
        "finish_ms_without_dag": figures(spent[False]),
        "added_p50_ms": round(median(spent[True]) - median(spent[False]), 3),
        "statements": counted[True],
        "statements_without_dag": counted[False],
    }


def every_run(job: Any) -> list[Ref]:  # noqa: ANN401 - a Job
    """Return the job's runs, oldest first."""
    from runs.models import Run

    rows = Run.objects.filter(job=job).order_by("scheduled_for")
    return list(rows.values_list("run_id", "scheduled_for"))


def chain(length: int) -> dict[str, Any]:
    """One job after the other; and the whole chain skipped when its first one dies."""
    clear()
    jobs = make(length)
    connect(list(zip(jobs[1:], jobs, strict=False)))
    at = now()
    born_ms = tick(at, jobs[0])
    spent = work_off(length)
    again = at + SECOND
    tick(again, jobs[0])
    (head,) = claim(take(1))
    skip_ms = 0.0

    def die() -> None:
        nonlocal skip_ms
        skip_ms = finish(head, "dead")

    counted = statements(die)
    skipped = harness.execute("SELECT count(*) FROM runs WHERE reason = 'upstream_failed'")[0][0]
    assert skipped == length - 1
    return {
        "jobs": length,
        "born_ms": round(born_ms, 1),
        "finish_ms": figures(spent),
        "finish_to_start_ms": figures(latencies(at)),
        "death_skips_all_ms": round(skip_ms, 1),
        "death_statements": counted,
    }


def fan_out(width: int) -> dict[str, Any]:
    """One upstream of many."""
    clear()
    jobs = make(width + 1)
    connect([(below, jobs[0]) for below in jobs[1:]])
    at = now()
    born_ms = tick(at, jobs[0])
    (head,) = claim(take(1))
    spent = 0.0

    def end() -> None:
        nonlocal spent
        spent = finish(head)

    counted = statements(end)
    done = 0
    while done < width:
        done += len(claim(take(200)))
    return {
        "runs": width,
        "born_ms": round(born_ms, 1),
        "finish_releases_all_ms": round(spent, 1),
        "finish_statements": counted,
        "finish_to_start_ms": figures(latencies(at)),
    }


def fan_in(width: int, processes: int) -> dict[str, Any]:
    """Many upstreams of one, finished by several processes at once."""
    clear()
    jobs = make(width + 2)
    connect(
        [(middle, jobs[0]) for middle in jobs[1:-1]] + [(jobs[-1], middle) for middle in jobs[1:-1]]
    )
    at = now()
    tick(at, jobs[0])
    (head,) = claim(take(1))
    finish(head)
    middle: list[Any] = []
    while len(middle) < width:
        middle += claim(take(200))
    counted = statements(lambda: finish(middle.pop()))
    start = time.perf_counter()
    spent = in_processes([middle[place::processes] for place in range(processes)])
    took = time.perf_counter() - start
    ((_, last_at),) = take()
    assert last_at == at
    return {
        "upstreams": width,
        "processes": processes,
        "finish_ms": figures([one for several in spent for one in several]),
        "finishes_per_sec": round(len(middle) / took),
        "finish_statements": counted,
        "last_finish_to_queued_ms": round(queued_after(jobs[-1], at), 2),
    }


def queued_after(job: Any, at: datetime) -> float:  # noqa: ANN401 - a Job
    """Return the ms from the last upstream's finish until the run was queued."""
    rows = harness.execute(
        "SELECT extract(epoch FROM r.published_at - (SELECT max(u.finished_at) FROM run_deps d"
        " JOIN runs u ON u.job_id = d.depends_on_job_id AND u.scheduled_for = d.span_from"
        " WHERE d.run_id = r.run_id)) * 1000 FROM runs r WHERE job_id = %s AND scheduled_for = %s",
        job.job_id, at,
    )  # fmt: skip
    return float(rows[0][0])


def in_processes(shares: Sequence[Sequence[Any]], *, in_step: bool = False) -> list[list[float]]:
    """Finish each share in a process of its own, run by run in step if asked."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(len(shares))
    results = context.SimpleQueue()
    workers = [
        context.Process(target=finish_share, args=(gate, in_step, share, results))
        for share in shares
    ]
    for worker in workers:
        worker.start()
    found = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return found


def finish_share(gate: Barrier, in_step: bool, share: Sequence[Any], results: Any) -> None:  # noqa: ANN401
    """Finish the runs of one process."""
    import django

    django.setup()
    gate.wait(60)
    spent = []
    for one in share:
        if in_step:
            gate.wait(60)
        spent.append(finish(one))
    results.put(spent)


def together(trials: int) -> dict[str, Any]:
    """Two upstreams that finish at the same moment: each downstream is queued exactly once."""
    from jobs.models import Job

    clear()
    first, second, last = make(3)
    Job.objects.filter(job_id=second.job_id).update(schedule="0 0 1 1 *")
    connect([(last, first), (last, second)])
    start = now() - timedelta(hours=6)
    for place in range(trials):
        tick(start + place * SECOND, first, second)
    shares = [claim(every_run(job)) for job in (first, second)]
    clear_queues()
    spent = in_processes(shares, in_step=True)
    published: Counter[Ref] = Counter()
    while refs := take(1000):
        published.update(refs)
    assert set(published) == set(every_run(last)), "a downstream was not queued"
    assert set(published.values()) == {1}, "a downstream was queued twice"
    return {
        "trials": trials,
        "queued_once": len(published),
        "finish_ms": figures([*spent[0], *spent[1]]),
    }


def clear_queues() -> None:
    """Forget every message."""
    from runs import publisher

    publisher.client().flushdb()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chain", type=int, default=500)
    parser.add_argument("--fan", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    with harness.servers():
        harness.show(
            {
                "without_downstream": alone(300),
                "chain": chain(args.chain),
                "fan_out": fan_out(args.fan),
                "fan_in": fan_in(args.fan, args.processes),
                "together": together(args.trials),
            }
        )


if __name__ == "__main__":
    main()
