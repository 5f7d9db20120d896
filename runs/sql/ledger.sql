-- What the tick ledger reads: definitions in force, runs at ticks, and misfire ranges, of a page of
-- jobs over (after, until]. A page's statements share one snapshot (runs/ledger.py).

-- name: ledger_jobs
-- The team and the job are what verify_ticks was narrowed to; jobs that ended before are left out.
-- LEFT: a job that has lost its due state owes its ticks all the same.
SELECT j.job_id, j.owner, j.name, n.next_run_at
FROM jobs j LEFT JOIN job_next n ON n.job_id = j.job_id
WHERE j.job_id > %(above)s::uuid
  AND (%(owner)s::bigint IS NULL OR j.owner = %(owner)s::bigint)
  AND (%(job_id)s::uuid IS NULL OR j.job_id = %(job_id)s::uuid)
  AND (j.deleted_at IS NULL OR j.deleted_at > %(after)s::timestamptz)
ORDER BY j.job_id LIMIT %(limit)s

-- name: ledger_jobs_of
SELECT j.job_id, j.owner, j.name, n.next_run_at
FROM jobs j LEFT JOIN job_next n ON n.job_id = j.job_id
WHERE j.job_id = ANY(%(job_id)s::uuid[]) ORDER BY j.job_id

-- name: ledger_versions
-- A deletion is no version of its own: it ends the one before it.
SELECT job_id, version, valid_from, valid_to,
       definition -> 'schedule', definition ->> 'timezone', definition ->> 'startsAt',
       definition ->> 'endsAt', definition ->> 'dstPolicy', (definition ->> 'enabled')::boolean
FROM job_versions
WHERE job_id = ANY(%(job_id)s::uuid[]) AND change <> 'delete'
  AND valid_from < %(until)s::timestamptz
  AND (valid_to IS NULL OR valid_to > %(after)s::timestamptz)
ORDER BY job_id, version

-- name: ledger_digests
-- Runs on whole seconds are at ticks, others are manual (PROTOCOL 1). An index alone answers this.
SELECT job_id, count(*) AS runs,
       count(*) FILTER (WHERE scheduled_for <> date_trunc('second', scheduled_for)) AS others,
       encode(sha256(convert_to(string_agg((extract(epoch FROM scheduled_for)::bigint)::text, ','
                                           ORDER BY scheduled_for), 'UTF8')), 'hex') AS digest
FROM runs
WHERE job_id = ANY(%(job_id)s::uuid[])
  AND scheduled_for > %(after)s::timestamptz AND scheduled_for <= %(until)s::timestamptz
GROUP BY job_id

-- name: ledger_misfire_counts
SELECT job_id, count(*) FROM misfires
WHERE job_id = ANY(%(job_id)s::uuid[])
  AND first_tick <= %(until)s::timestamptz AND last_tick > %(after)s::timestamptz
GROUP BY job_id

-- name: ledger_runs
SELECT job_id, scheduled_for, trigger FROM runs
WHERE job_id = ANY(%(job_id)s::uuid[]) AND trigger <> 'manual'
  AND scheduled_for > %(after)s::timestamptz AND scheduled_for <= %(until)s::timestamptz
ORDER BY job_id, scheduled_for LIMIT %(limit)s

-- name: ledger_misfires
SELECT job_id, first_tick, last_tick, tick_count, rule, into_scheduled_for, job_version
FROM misfires
WHERE job_id = ANY(%(job_id)s::uuid[])
  AND first_tick <= %(until)s::timestamptz AND last_tick > %(after)s::timestamptz
ORDER BY job_id, first_tick
