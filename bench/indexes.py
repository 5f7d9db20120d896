"""What each index of runs costs: bytes a run, and microseconds of a run's way through its states.

A day's partition is filled, and runs go queued, running, succeeded in sets of a thousand; then the
same without one index after another. Run as `python -m bench.indexes`.
"""

import argparse
import time
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
ROUNDS = 15


def way_us(first: int) -> float:
    """Return the microseconds a run takes through all steps, the median of some sets."""
    times = []
    for number in range(ROUNDS):
        ((at,),) = harness.execute(
            "SELECT date_trunc('day', clock_timestamp()) + make_interval(secs => %s)",
            first + number,
        )
        began = time.perf_counter()
        for statement in STEPS.values():
            harness.execute(statement, at)
        times.append((time.perf_counter() - began) / 1000 * 1e6)
    return median(times)


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
        for second in range(options.runs // 1000):
            ((at,),) = harness.execute(
                "SELECT date_trunc('day', clock_timestamp()) + make_interval(secs => %s)",
                40_000 + second,
            )
            for statement in STEPS.values():
                harness.execute(statement, at)
        harness.execute("VACUUM ANALYZE runs")
        whole = way_us(1000)
        found: dict[str, Any] = {}
        for place, (name, partition, definition) in enumerate(indexes()):
            ((size,),) = harness.execute("SELECT pg_relation_size(%s::regclass)", partition)
            found[name] = {
                "bytes_a_run": round(size / options.runs, 1),
                "definition": definition.partition(" USING ")[2],
            }
            if "UNIQUE" not in definition:
                harness.execute(f"DROP INDEX {name}")
                found[name]["us_a_run"] = round(whole - way_us(2000 + 100 * place), 1)
                harness.execute(definition)
        harness.show({"runs": options.runs, "way_us_a_run": round(whole, 1), "indexes": found})


if __name__ == "__main__":
    main()
