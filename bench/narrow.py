"""The due instant in the row of its job, or in a narrow table of its own: which is dearer?

The raw statement of bench.burst (claim, insert, advance) on both, in turns, and the bytes that each
leaves in the write-ahead log. An edit must not slip between the claim and what is decided by the
job's row: the narrow table is measured with a shared lock on that row too, as it would be used, and
without, as the most that it could ever bring. Run as `python -m bench.narrow`.
"""

import argparse
import time
from typing import Any

from bench import harness
from bench.burst import RAW_STATEMENT, make_due

NARROW_TABLE = """
CREATE TABLE job_next (
    job_id uuid PRIMARY KEY REFERENCES jobs, next_run_at timestamptz NOT NULL,
    bucket smallint NOT NULL
) WITH (fillfactor = 70)
"""
LOCK_OF_JOBS = "FOR SHARE OF j SKIP LOCKED"
NARROW_STATEMENT = """
WITH due AS (
    SELECT n.job_id, n.next_run_at FROM job_next n JOIN jobs j ON j.job_id = n.job_id
    WHERE n.next_run_at <= clock_timestamp()
    ORDER BY n.next_run_at, n.job_id LIMIT %s FOR NO KEY UPDATE OF n SKIP LOCKED
), born AS (
    INSERT INTO runs (run_id, job_id, owner, scheduled_for, logical_date, trigger, job_version,
                      status, pool, priority, attempt_limit, published_at)
    SELECT gen_random_uuid(), d.job_id, j.owner, d.next_run_at, d.next_run_at, 'schedule',
           j.version, 'queued', j.pool, j.priority, 1 + j.max_retries, clock_timestamp()
    FROM due d JOIN jobs j ON j.job_id = d.job_id
    WHERE j.enabled AND j.deleted_at IS NULL
    ON CONFLICT (job_id, scheduled_for) DO NOTHING
    RETURNING run_id, scheduled_for, published_at
), moved AS (
    UPDATE job_next n SET next_run_at = d.next_run_at + interval '1 hour'
    FROM due d WHERE n.job_id = d.job_id
)
SELECT run_id, scheduled_for, published_at FROM born
"""


def fill_narrow() -> None:
    """Copy the due instants into the narrow table."""
    harness.execute("TRUNCATE job_next")
    harness.execute("INSERT INTO job_next SELECT job_id, next_run_at, bucket FROM jobs")
    harness.execute("VACUUM (ANALYZE) job_next")
    harness.execute("CHECKPOINT")


def measured(statement: str, due: int) -> tuple[float, float]:
    """Return seconds and bytes of write-ahead log for each tick."""
    ((before,),) = harness.execute("SELECT pg_current_wal_insert_lsn()::text")
    began = time.perf_counter()
    rows = harness.execute(statement, due)
    took = time.perf_counter() - began
    ((written,),) = harness.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s::pg_lsn)::float8", before
    )
    assert len(rows) == due
    return took, written / due


def compare(due: int, rounds: int) -> dict[str, Any]:
    """Return the medians of each form."""
    unlocked = "FOR NO KEY UPDATE OF n SKIP LOCKED"
    statements = {
        "jobs_row": RAW_STATEMENT,
        "narrow_table": NARROW_STATEMENT.replace(unlocked, f"{unlocked} {LOCK_OF_JOBS}"),
        "narrow_table_unlocked": NARROW_STATEMENT,
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in statements}
    for _ in range(rounds):
        for name, statement in statements.items():
            make_due(due)
            fill_narrow()
            found[name].append(measured(statement, due))
    return {
        name: {
            "sec": harness.spread([one[0] for one in pairs]),
            "wal_bytes_a_tick": round(sorted(one[1] for one in pairs)[len(pairs) // 2]),
        }
        for name, pairs in found.items()
    }


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--due", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with harness.servers(CHRONO_STATEMENT_TIMEOUT_SEC="300"):
        harness.make_jobs(options.jobs, ["0 * * * *"])
        harness.execute(NARROW_TABLE)
        harness.execute("CREATE INDEX ON job_next (next_run_at, job_id)")
        found = compare(options.due, options.rounds)
        row = found["jobs_row"]["sec"]["median"]
        ratios = {name: round(one["sec"]["median"] / row, 2) for name, one in found.items()}
        harness.show({"jobs": options.jobs, "due": options.due, **found, "to_jobs_row": ratios})


if __name__ == "__main__":
    main()
