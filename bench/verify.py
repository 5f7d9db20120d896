"""verify_ticks over a day of many jobs: seconds, rows a second, and the memory it takes.

Run as `python -m bench.verify [jobs]`. Each job runs hourly or every half hour; its runs are
inserted as the dispatcher would have left them, for 2 % of the jobs with a coalesced tick.
"""

import resource
import sys
import time
from datetime import datetime, timedelta

from bench.harness import execute, make_jobs, servers, show

SCHEDULES = [f"{minute} * * * *" for minute in range(60)] + [
    f"{minute},{minute + 30} * * * *" for minute in range(30)
]
COALESCED_BUCKETS = 20  # of 1,024: jobs with a range, which are looked at tick by tick


def main(jobs: int) -> None:
    """Fill a day, verify it, spoil one tick, and verify that it is found."""
    with servers(CHRONO_STATEMENT_TIMEOUT_SEC="600"):
        from runs.verify import Problem, Wanted, verify

        make_jobs(jobs, SCHEDULES)
        (day,) = execute("SELECT date_trunc('day', now(), 'UTC') - interval '1 day'")[0]
        rows = fill(day)
        end = day + timedelta(days=1)
        began = time.perf_counter()
        tally = verify(day, end, Wanted(), _refuse)
        took = time.perf_counter() - began
        assert tally.is_clean
        assert tally.expected > rows
        execute("DELETE FROM runs WHERE run_id = (SELECT run_id FROM runs LIMIT 1)")
        found: list[Problem] = []
        verify(day, end, Wanted(), found.append)
        assert len(found) == 1
        show(
            {
                "jobs": tally.jobs,
                "ticks": tally.expected,
                "runs": rows,
                "seconds": round(took, 1),
                "ticks_a_second": round(tally.expected / took),
                "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )


def _refuse(problem: object) -> None:
    raise AssertionError(problem)


def fill(day: datetime) -> int:
    """Insert the runs of a day; return how many. Some jobs have a range instead of their first."""
    from runs import partitions

    execute(
        "UPDATE job_versions v SET valid_from = %s, definition = v.definition || jsonb_build_object"
        "('schedule', j.schedule, 'timezone', 'UTC', 'dstPolicy', 'vixie', 'enabled', true)"
        " FROM jobs j WHERE j.job_id = v.job_id",
        day,
    )
    partitions.ensure([day.date()])
    execute(
        """
        INSERT INTO runs (run_id, job_id, owner, scheduled_for, logical_date, trigger, job_version,
                          status, pool, priority, attempt, attempt_limit, finished_at)
        SELECT gen_random_uuid(), j.job_id, j.owner, t.tick, t.tick, 'schedule', 1, 'succeeded',
               'default', 'normal', 1, 1, t.tick
        FROM jobs j
        CROSS JOIN LATERAL unnest(string_to_array(split_part(j.schedule, ' ', 1), ',')) AS m(minute)
        CROSS JOIN generate_series(0, 23) AS h(hour)
        CROSS JOIN LATERAL (SELECT %s::timestamptz + make_interval(hours => h.hour,
                                                                   mins => m.minute::int)) t(tick)
        WHERE t.tick > %s::timestamptz
        """,
        day,
        day,
    )
    execute(
        """
        WITH spoiled AS (
            SELECT job_id, owner, min(scheduled_for) AS first,
                   (array_agg(scheduled_for ORDER BY scheduled_for))[2] AS second
            FROM runs WHERE job_id IN (SELECT job_id FROM job_next WHERE bucket < %s)
            GROUP BY job_id, owner
        ), gone AS (
            DELETE FROM runs r USING spoiled s
            WHERE r.job_id = s.job_id AND r.scheduled_for = s.first
        )
        INSERT INTO misfires (job_id, owner, first_tick, last_tick, tick_count, rule,
                              into_scheduled_for, job_version)
        SELECT job_id, owner, first, first, 1, 'coalesced', second, 1 FROM spoiled
        """,
        COALESCED_BUCKETS,
    )
    execute("VACUUM (ANALYZE) runs")
    ((count,),) = execute("SELECT count(*) FROM runs")
    return int(count)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
