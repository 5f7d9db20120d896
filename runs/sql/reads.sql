-- What the API shows of runs. Instants are constants, so that partitions are pruned.

-- name: newest_runs
-- Each job's newest run: an index probe a day, newest day first, and no further.
SELECT newest.run_id, newest.job_id, newest.owner, newest.scheduled_for, newest.logical_date,
       newest.trigger, newest.job_version, newest.status, newest.reason, newest.attempt,
       newest.attempt_limit, newest.worker_id, newest.created_at, newest.available_at,
       newest.started_at, newest.finished_at, newest.exit_code, newest.error, newest.output_ref,
       j.name AS job_name
FROM unnest(%(job_id)s::uuid[]) AS w(job_id)
JOIN jobs j ON j.job_id = w.job_id
CROSS JOIN LATERAL (
    SELECT * FROM runs r
    WHERE r.job_id = w.job_id AND r.scheduled_for < now() + interval '1 day'
    ORDER BY r.scheduled_for DESC LIMIT 1
) newest

-- name: taken_instants
SELECT job_id FROM runs
WHERE job_id = ANY(%(job_id)s::uuid[]) AND scheduled_for = %(instant)s::timestamptz

-- name: pool_has_worker
SELECT worker_id FROM workers
WHERE %(pool)s::text = ANY(pools) AND state = 'running'
  AND last_seen_at > clock_timestamp() - make_interval(secs => %(seen_sec)s)
LIMIT 1
