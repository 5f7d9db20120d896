"""Twenty poisoned jobs among ten thousand due at once; a high run behind ten thousand low ones.

Run as `python -m bench.queues`; exits 1 when a neighbour of a poisoned job is late, a tick of one
is lost, or a low run is claimed before the high one beyond the places already taken.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

from bench import harness

POISONED = 20
ON_TIME_SEC = 10.0
CONCURRENCY = 4
PARTS, SIZES = ("poison", "priority"), ("jobs", "due", "low")


def make_due(due: int) -> None:
    """Make so many jobs due at this second; half of the poisoned fail in Python, half in SQL."""
    harness.execute(
        "WITH due AS (SELECT job_id, row_number() OVER (ORDER BY job_id) AS n FROM jobs"
        " ORDER BY job_id LIMIT %s), t AS (SELECT date_trunc('second', clock_timestamp()) AS at),"
        " moved AS (UPDATE job_next n SET next_run_at = t.at"
        " FROM due, t WHERE n.job_id = due.job_id)"
        " UPDATE jobs j SET name = CASE WHEN n %% %s = 0 THEN 'poisoned-' || n ELSE name END,"
        " schedule = CASE WHEN n %% %s = 0 THEN 'broken' ELSE"
        " to_char(t.at AT TIME ZONE 'UTC', 'FMSS FMMI * * * *') END"
        " FROM due, t WHERE j.job_id = due.job_id",
        due, due // POISONED, 2 * due // POISONED,
    )  # fmt: skip
    harness.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF EXISTS (SELECT FROM jobs WHERE job_id = NEW.job_id AND name LIKE 'poisoned-%')"
        " THEN RAISE EXCEPTION 'refused' USING ERRCODE = 'check_violation'; END IF;"
        " RETURN NEW; END $$"
    )
    harness.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION refuse()"
    )


def poison(due: int) -> dict[str, Any]:
    """Dispatch them; mend the poisoned ones, and dispatch those."""
    from runs.dispatcher import Dispatcher

    make_due(due)
    replica = Dispatcher("bench")
    began = time.perf_counter()
    batches = replica.dispatch_due()
    took = time.perf_counter() - began
    told = {batch_id for batch in batches for batch_id in batch.quarantined}
    ((recorded, late),) = harness.execute(
        "SELECT count(*), coalesce(max(extract(epoch FROM created_at - scheduled_for)), 0)::float8"
        " FROM runs"
    )
    ((owed, alerts),) = harness.execute(
        "SELECT count(*) FILTER (WHERE n.next_run_at <= clock_timestamp()),"
        " (SELECT count(*) FROM alerts) FROM jobs j JOIN job_next n ON n.job_id = j.job_id"
        " WHERE j.name LIKE 'poisoned-%%'"
    )
    harness.execute("DROP TRIGGER refuse ON runs")
    harness.execute(
        "WITH mended AS (UPDATE jobs j"
        " SET schedule = to_char(n.next_run_at AT TIME ZONE 'UTC', 'FMSS FMMI * * * *')"
        " FROM job_next n WHERE n.job_id = j.job_id AND j.name LIKE 'poisoned-%%'"
        " RETURNING j.job_id)"
        " UPDATE job_next n SET retry_at = NULL FROM mended m WHERE n.job_id = m.job_id"
    )
    replica.dispatch_due()
    ((all_recorded,),) = harness.execute("SELECT count(*) FROM runs")
    return {
        "due": due,
        "poisoned": POISONED,
        "neighbours_recorded": recorded,
        "neighbours_latest_sec": round(late, 2),
        "dispatch_sec": round(took, 2),
        "quarantined": len(told),
        "alerts": alerts,
        "ticks_still_owed": owed,
        "recorded_once_mended": all_recorded - recorded,
    }


def priority(low: int) -> dict[str, Any]:
    """Queue low runs, and once some have run a high one; count the low claims between."""
    with harness.chrono(CHRONO_WORKER_CONCURRENCY=str(CONCURRENCY)) as up:
        os.environ |= {"DATABASE_URL": up["database_url"], "REDIS_URL": up["redis_url"]}
        harness.set_up_django(migrate=False)
        from runs.models import Run

        harness.make_jobs(1, ["0 * * * *"])
        queue(low, "low")
        while Run.objects.filter(status="succeeded").count() < low // 20:
            time.sleep(0.01)
        (high,) = queue(1, "high")
        while not Run.objects.filter(run_id=high, status="succeeded").exists():
            time.sleep(0.01)
        run = Run.objects.get(run_id=high)
        between = Run.objects.filter(
            priority="low", started_at__gt=run.created_at, started_at__lt=run.started_at
        )
        messages = between.values("claim_id").distinct().count()
        runs = between.count()
        left = Run.objects.filter(status="queued").count()
    assert run.started_at is not None
    return {
        "low": low,
        "low_left_when_it_ended": left,
        "high_waited_sec": round((run.started_at - run.created_at).total_seconds(), 3),
        "low_claims_between": messages,
        "low_runs_between": runs,
        "pool_children": CONCURRENCY,
    }


def queue(count: int, urgency: str) -> list[Any]:
    """Queue runs of the only job; return their ids."""
    from chronoproject.clock import db_now
    from jobs.models import Job
    from runs import lifecycle
    from runs.records import NewRun

    job, now = Job.objects.get(), db_now()
    new = [
        NewRun(
            job.job_id,
            job.owner_id,
            now + timedelta(microseconds=7 * number + 1),
            now,
            "manual",
            1,
            "default",
            urgency,
            1,
        )
        for number in range(count)
    ]
    return [ref.run_id for ref in lifecycle.record_ticks(new)]


def both(options: argparse.Namespace) -> int:
    """Measure each in a process of its own, for Django knows one database; return the worse end."""
    figures: dict[str, Any] = {}
    codes = []
    for part in PARTS:
        sizes = [word for name in SIZES for word in (f"--{name}", str(vars(options)[name]))]
        command = [sys.executable, "-m", "bench.queues", "--only", part, *sizes]
        done = subprocess.run(command, cwd=harness.ROOT, stdout=subprocess.PIPE, check=False)
        codes.append(done.returncode)
        figures |= json.loads(done.stdout or "{}")
    harness.show(figures)
    return max(codes)


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--due", type=int, default=10_000)
    parser.add_argument("--low", type=int, default=10_000)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    if options.only is None:
        return both(options)
    figures: dict[str, Any] = {}
    if options.only == "poison":
        with harness.servers(CHRONO_STATEMENT_TIMEOUT_SEC="300"):
            harness.make_jobs(options.jobs, ["0 * * * *"])
            figures["poison"] = found = poison(options.due)
        is_good = (
            found["neighbours_recorded"] == options.due - POISONED
            and found["quarantined"] == found["alerts"] == found["ticks_still_owed"] == POISONED
            and found["recorded_once_mended"] == POISONED
            and found["neighbours_latest_sec"] < ON_TIME_SEC
        )
    else:
        figures["priority"] = found = priority(options.low)
        is_good = found["low_claims_between"] <= CONCURRENCY
    harness.show(figures)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
