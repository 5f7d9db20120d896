"""The due instant in the row of its job, as it once was, or in a narrow table: which is dearer?

The raw statement of bench.burst (claim, insert, advance) on both, in turns, and the bytes that each
leaves in the write-ahead log. An edit must not slip between the claim and what is decided by the
job's row: the narrow table is measured with the shared lock on that row, as it is used, and
without, as the most that it could ever bring. Run as `python -m bench.narrow`.
"""

import argparse
import time
from typing import Any

from bench import harness
from bench.burst import RAW_STATEMENT, make_due

LOCK_OF_JOBS = "FOR SHARE OF j SKIP LOCKED"
WIDE_FORM = (
    "ALTER TABLE jobs ADD next_run_at timestamptz",
    "UPDATE jobs j SET next_run_at = n.next_run_at FROM job_next n WHERE n.job_id = j.job_id",
    "VACUUM FULL jobs",
    (
        "CREATE INDEX jobs_due ON jobs (next_run_at, job_id)"
        " WHERE enabled AND deleted_at IS NULL AND next_run_at IS NOT NULL"
    ),
    "ANALYZE jobs",
)
WIDE_STATEMENT = """
WITH due AS (
    SELECT job_id, owner, next_run_at, version, pool, priority, max_retries FROM jobs
    WHERE enabled AND deleted_at IS NULL AND next_run_at <= clock_timestamp()
    ORDER BY next_run_at, job_id LIMIT %s FOR UPDATE SKIP LOCKED
), born AS (
    INSERT INTO runs (run_id, job_id, owner, scheduled_for, logical_date, trigger, job_version,
                      status, pool, priority, attempt_limit, published_at)
    SELECT gen_random_uuid(), job_id, owner, next_run_at, next_run_at, 'schedule', version,
           'queued', pool, priority, 1 + max_retries, clock_timestamp() FROM due
    ON CONFLICT (job_id, scheduled_for) DO NOTHING
    RETURNING run_id, scheduled_for, published_at
), moved AS (
    UPDATE jobs j SET next_run_at = d.next_run_at + interval '1 hour'
    FROM due d WHERE j.job_id = d.job_id
)
SELECT run_id, scheduled_for, published_at FROM born
"""


def fill_wide() -> None:
    """Copy the due instants into the rows of the jobs."""
    harness.execute(
        "UPDATE jobs j SET next_run_at = n.next_run_at FROM job_next n"
        " WHERE n.job_id = j.job_id AND j.next_run_at IS DISTINCT FROM n.next_run_at"
    )
    harness.execute("VACUUM (ANALYZE) jobs")
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
    statements = {
        "jobs_row": WIDE_STATEMENT,
        "narrow_table": RAW_STATEMENT,
        "narrow_table_unlocked": RAW_STATEMENT.replace(LOCK_OF_JOBS, ""),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in statements}
    for _ in range(rounds):
        for name, statement in statements.items():
            make_due(due)
            if statement == WIDE_STATEMENT:
                fill_wide()
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
        for statement in WIDE_FORM:
            harness.execute(statement)
        found = compare(options.due, options.rounds)
        row = found["jobs_row"]["sec"]["median"]
        ratios = {name: round(one["sec"]["median"] / row, 2) for name, one in found.items()}
        harness.show({"jobs": options.jobs, "due": options.due, **found, "to_jobs_row": ratios})


if __name__ == "__main__":
    main()
