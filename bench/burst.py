"""Ten thousand jobs due in the same second: recorded, advanced, published, against the raw limit.

The raw limit of the same run is what no dispatcher can beat: one SQL statement that claims, inserts
and advances, then building the same envelopes and pushing the same bytes.
"""

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

from bench import harness, stand_in

# Once an hour, at this minute and second: 6 spellings in 15 zones, 90 distinct pairs.
SPELLINGS = ["* * * *", "*/1 * * *", "0-23 * * *", "* */1 * *", "* * 1-12 *", "* * * 0-6"]
ZONES = [
    "UTC", "Europe/Berlin", "Europe/London", "Europe/Paris", "America/New_York",
    "America/Chicago", "America/Los_Angeles", "America/Sao_Paulo", "Asia/Tokyo", "Asia/Shanghai",
    "Asia/Singapore", "Australia/Sydney", "Africa/Cairo", "Africa/Lagos", "Pacific/Auckland",
]  # fmt: skip

RAW_STATEMENT = """
WITH due AS (
    SELECT n.job_id, j.owner, n.next_run_at, j.version, j.pool, j.priority, j.max_retries
    FROM job_next n JOIN jobs j ON j.job_id = n.job_id
    WHERE j.enabled AND j.deleted_at IS NULL AND n.next_run_at <= clock_timestamp()
    ORDER BY n.next_run_at, n.job_id LIMIT %s
    FOR SHARE OF j SKIP LOCKED FOR NO KEY UPDATE OF n SKIP LOCKED
), born AS (
    INSERT INTO runs (run_id, job_id, owner, scheduled_for, logical_date, trigger, job_version,
                      status, pool, priority, attempt_limit, published_at)
    SELECT gen_random_uuid(), job_id, owner, next_run_at, next_run_at, 'schedule', version,
           'queued', pool, priority, 1 + max_retries, clock_timestamp() FROM due
    ON CONFLICT (job_id, scheduled_for) DO NOTHING
    RETURNING run_id, scheduled_for, published_at
), moved AS (
    UPDATE job_next n SET next_run_at = d.next_run_at + interval '1 hour'
    FROM due d WHERE n.job_id = d.job_id
)
SELECT run_id, scheduled_for, published_at FROM born
"""


def make_due(count: int) -> None:
    """Make `count` of the jobs due at this very second, and the queue and the tables quiet."""
    from runs import publisher

    publisher.client().flushdb()
    harness.execute("TRUNCATE runs")
    harness.execute(
        "UPDATE job_next SET next_run_at = clock_timestamp() + interval '30 days'"
        " WHERE next_run_at < clock_timestamp() + interval '1 day'"
    )
    harness.execute(
        """
        WITH due AS (SELECT job_id, row_number() OVER (ORDER BY job_id) AS n FROM jobs
                     ORDER BY job_id LIMIT %s),
             now AS (SELECT date_trunc('second', clock_timestamp()) AS at),
             moved AS (UPDATE job_next n SET next_run_at = now.at
                       FROM due, now WHERE n.job_id = due.job_id)
        UPDATE jobs j
        SET timezone = (%s::text[])[1 + n %% %s],
            schedule = to_char(now.at, 'FMSS FMMI ') || (%s::text[])[1 + n %% %s]
        FROM due, now WHERE j.job_id = due.job_id
        """,
        count, ZONES, len(ZONES), SPELLINGS, len(SPELLINGS),
    )  # fmt: skip
    harness.execute("VACUUM jobs")
    harness.execute("VACUUM job_next")
    harness.execute("CHECKPOINT")


def raw(due: int) -> float:
    """Return the seconds of the raw limit."""
    from runs import publisher
    from runs.publisher import Outgoing

    start = time.perf_counter()
    rows = harness.execute(RAW_STATEMENT, due)
    recorded = time.perf_counter()
    runs = [(str(run_id), tick.isoformat()) for run_id, tick, _ in rows]
    publisher.push([Outgoing("default", "normal", (70, 60), rows[0][2], runs)])
    assert len(rows) == due
    raw.parts = {  # type: ignore[attr-defined]
        "statement": round(recorded - start, 4),
        "messages": round(time.perf_counter() - recorded, 4),
    }
    return time.perf_counter() - start


def chrono(due: int) -> float:
    """Return the seconds that a dispatcher takes from due to recorded, advanced and published."""
    from runs.dispatcher import Dispatcher

    replica = Dispatcher("bench")
    start = time.perf_counter()
    replica.dispatch_due()
    return time.perf_counter() - start


def check(due: int) -> int:
    """Void the figure unless every tick was recorded, advanced and published, once.

    Return the number of messages that the runs share.
    """
    from runs import publisher

    runs = harness.execute("SELECT run_id, scheduled_for FROM runs")
    ((jobs,),) = harness.execute("SELECT count(DISTINCT job_id) FROM runs")
    ((left,),) = harness.execute(
        "SELECT count(*) FROM job_next WHERE next_run_at <= clock_timestamp()"
    )
    assert (len(runs), jobs, left) == (due, due, 0), (len(runs), jobs, left)
    messages: Any = publisher.client().lrange("default.normal", 0, -1)
    assert sorted(stand_in.named(messages)) == sorted(runs)
    return len(messages)


def one_round(work: Callable[[int], float], due: int) -> tuple[float, int]:
    """Return the seconds of a round, and its messages."""
    make_due(due)
    seconds = work(due)
    return seconds, check(due)


def compare(due: int, count: int) -> dict[str, Any]:
    """Return both, in turns, and their ratio by medians."""
    raw_times, ours = [], []
    for _ in range(count):
        seconds, raw_messages = one_round(raw, due)
        raw_times.append(seconds)
        seconds, messages = one_round(chrono, due)
        ours.append(seconds)
    floor, median = harness.spread(raw_times), harness.spread(ours)
    return {
        "due": due,
        "raw_sec": floor,
        "raw_parts_sec": raw.parts,  # type: ignore[attr-defined]
        "raw_messages": raw_messages,
        "chrono_sec": median,
        "chrono_messages": messages,
        "ratio": round(median["median"] / floor["median"], 2),
        "ticks_per_sec": round(due / median["median"]),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--due", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sustained", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    with harness.servers(CHRONO_STATEMENT_TIMEOUT_SEC="300"):
        harness.make_jobs(options.jobs, ["0 * * * *"])
        figures = compare(options.due, options.rounds)
        if options.sustained:
            figures["all_due"] = compare(options.jobs, 1)
        harness.show({"jobs": options.jobs, **figures})


if __name__ == "__main__":
    main()
