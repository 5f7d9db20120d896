-- name: last_runs_of_jobs
-- The newest run of each job, by the index on (job_id, scheduled_for) of each partition.
SELECT j.job_id, r.run_id, r.status, r.scheduled_for, statement_timestamp() AS read_at
FROM unnest(%(job_id)s::uuid[]) AS j(job_id)
CROSS JOIN LATERAL (
    SELECT run_id, status, scheduled_for FROM runs
    WHERE runs.job_id = j.job_id ORDER BY scheduled_for DESC LIMIT 1
) r
