"""What each index of runs costs: bytes a run, and microseconds of a run's way through its states.

A day's partition is filled; then sets of a thousand runs go queued, running, succeeded, in turns
with each index and without it. A partial index whose condition a run never meets costs the test of
that condition alone. Run as `python -m bench.indexes`.
"""

import argparse
import time
from datetime import datetime
from statistics import median
from typing import Any

from bench import harness

STEPS = {
    "insert": """
        INSERT INTO runs (run_id, job_id, owner, scheduled_for, logical_date, trigger, job_version,
                          status, pool, priority, attempt_limit, published_at)
        SELECT gen_random_uuid(), j.job_id, j.owner, t.at, t.at, 'schedule', 1, 'queued', j.pool,
               j.priority, 1, clock_timestamp()
        FROM (SELECT * FROM jobs ORDER BY job_id LIMIT 1000) j, (SELECT %s::timestamptz AS at) t
        """,
    "claim": """
        UPDATE runs SET status = 'running', attempt = 1, claim_id = gen_random_uuid(),
               worker_id = 'bench', started_at = clock_timestamp(),
               lease_until = clock_timestamp() + interval '30 s'
        WHERE scheduled_for = %s::timestamptz
        """,
    "finish": """
        UPDATE runs SET status = 'succeeded', finished_at = clock_timestamp(), lease_until = NULL,
               published_at = NULL
        WHERE scheduled_for = %s::timestamptz
        """,
}
RUNS_A_SET = 1000
ROUNDS = 25


def way_us(at: datetime, without: str = "") -> list[float]:
    """Return the microseconds a run takes through each step; nothing of it stays."""
    from django.db import transaction

    spent = []
    with transaction.atomic():
        if without:
            harness.execute(f"DROP INDEX {without}")
        for statement in STEPS.values():
            began = time.perf_counter()
            harness.execute(statement, at)
            spent.append((time.perf_counter() - began) / RUNS_A_SET * 1e6)
        transaction.set_rollback(True)
    return spent


def cost_us(at: datetime, name: str) -> dict[str, float]:
    """Return what the index adds to each step: the median difference of sets taken in turns."""
    pairs = [(way_us(at), way_us(at, name)) for _ in range(ROUNDS)]
    differences = [[have - lack for have, lack in zip(*pair, strict=True)] for pair in pairs]
    added = [median(step) for step in zip(*differences, strict=True)]
    total = median(sum(difference) for difference in differences)
    return {
        **{name: round(us, 1) for name, us in zip(STEPS, added, strict=True)},
        "all": round(total, 1),
    }


def second_of_today(number: int) -> datetime:
    """Return an instant of the day."""
    ((at,),) = harness.execute(
        "SELECT date_trunc('day', clock_timestamp()) + make_interval(secs => %s)", number
    )
    return at  # type: ignore[no-any-return]


def indexes() -> list[tuple[str, str, str]]:
    """Return (name in runs, name in today's partition, definition) of each."""
    return [
        (row[0], row[1], row[2])
        for row in harness.execute(
            "SELECT p.relname, c.relname, pg_get_indexdef(p.oid) FROM pg_class c"
            " JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_class p ON p.oid = i.inhparent"
            " JOIN pg_index x ON x.indexrelid = c.oid WHERE x.indrelid ="
            " ('runs_p' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'))::regclass ORDER BY 1"
        )
    ]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300_000)
    options = parser.parse_args()
    with harness.servers(CHRONO_STATEMENT_TIMEOUT_SEC="300"):
        harness.make_jobs(1000, ["0 * * * *"])
        for second in range(options.runs // RUNS_A_SET):
            at = second_of_today(40_000 + second)
            for statement in STEPS.values():
                harness.execute(statement, at)
        at = second_of_today(1000)
        found: dict[str, Any] = {}
        for name, partition, definition in indexes():
            harness.execute("VACUUM ANALYZE runs")
            ((size,),) = harness.execute("SELECT pg_relation_size(%s::regclass)", partition)
            found[name] = {
                "bytes_a_run": round(size / options.runs, 1),
                "definition": definition.partition(" USING ")[2],
            }
            if "UNIQUE" not in definition:
                found[name]["added_us_a_run"] = cost_us(at, name)
        steps = [median(step) for step in zip(*[way_us(at) for _ in range(ROUNDS)], strict=True)]
        way = {name: round(us, 1) for name, us in zip(STEPS, steps, strict=True)}
        harness.show({"runs": options.runs, "way_us_a_run": way, "indexes": found})


if __name__ == "__main__":
    main()
