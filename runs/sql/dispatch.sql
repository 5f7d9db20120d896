-- The dispatcher's claim on due jobs. PROTOCOL 1, 3, 8, 10.

-- name: claim_due
-- job_id: only these, where a batch that failed is bisected (PROTOCOL 4).
SELECT j.job_id, j.owner, j.schedule, j.run_at, j.every_sec, j.anchor, j.timezone, j.dst_policy,
       j.starts_at, j.ends_at, j.next_run_at, j.misfire_policy, j.misfire_grace_sec, j.max_catchup,
       j.max_retries, j.max_concurrency, j.concurrency_key, j.has_upstreams, j.pool, j.priority,
       j.version,
       (SELECT min(p.created_at) FROM pauses p
        WHERE p.ended_at IS NULL AND (p.owner = j.owner OR p.owner IS NULL)) AS paused_since
FROM jobs j
WHERE j.enabled AND j.deleted_at IS NULL AND j.next_run_at IS NOT NULL
  AND j.next_run_at <= %(now)s::timestamptz
  AND (j.retry_at IS NULL OR j.retry_at <= %(now)s::timestamptz)
  AND (%(job_id)s::uuid[] IS NULL OR j.job_id = ANY(%(job_id)s::uuid[]))
ORDER BY j.next_run_at, j.job_id LIMIT %(limit)s
FOR UPDATE OF j SKIP LOCKED

-- name: advance_jobs
UPDATE jobs j SET next_run_at = a.next_run_at, retry_at = NULL, quarantine_reason = ''
FROM unnest(%(job_id)s::uuid[], %(next_run_at)s::timestamptz[]) AS a(job_id, next_run_at)
WHERE j.job_id = a.job_id

-- name: quarantine_jobs
UPDATE jobs SET retry_at = clock_timestamp() + make_interval(secs => %(retry_sec)s),
                quarantine_reason = %(reason)s
WHERE job_id = ANY(%(job_id)s::uuid[])

-- name: next_due
SELECT min(greatest(next_run_at, retry_at)) FROM (
    SELECT next_run_at, retry_at FROM jobs
    WHERE enabled AND deleted_at IS NULL AND next_run_at IS NOT NULL
    ORDER BY next_run_at LIMIT 100
) AS soonest

-- name: due_ids
SELECT job_id FROM jobs
WHERE enabled AND deleted_at IS NULL AND next_run_at <= %(now)s::timestamptz
  AND (retry_at IS NULL OR retry_at <= %(now)s::timestamptz)
ORDER BY next_run_at, job_id LIMIT %(limit)s
