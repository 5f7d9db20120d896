-- The dispatcher's claim on due jobs, and what a batch does in sets. PROTOCOL 1, 3, 4, 8, 10.

-- name: claim_due
-- Jobs that agree in all that a decision depends on come as one row: ten thousand hourly jobs are a
-- few decisions. H is hashed from the job's id, so such a job stands alone.
-- job_id: only these, where a batch that failed is taken apart.
-- bucket: those of the replica's shards; older than help_before, anybody's (runs/shards.py).
-- The jobs row first, shared: an edit, which holds it, comes before the claim or after the commit,
-- never between. Then the due state, against rivals. Both are looked at again as they are once locked.
WITH due AS MATERIALIZED (
    SELECT j.job_id, j.owner, j.version, j.schedule, j.run_at, j.every_sec, j.anchor, j.timezone,
           j.dst_policy, j.starts_at, j.ends_at, n.next_run_at, j.misfire_policy,
           j.misfire_grace_sec, j.max_catchup, j.max_retries, j.max_concurrency, j.concurrency_key,
           j.has_upstreams, j.pool, j.priority, j.kind, j.timeout_sec, j.kill_grace_sec
    FROM job_next n JOIN jobs j ON j.job_id = n.job_id
    WHERE j.enabled AND j.deleted_at IS NULL AND n.next_run_at IS NOT NULL
      AND n.next_run_at <= %(now)s::timestamptz
      AND (n.retry_at IS NULL OR n.retry_at <= %(now)s::timestamptz)
      AND (%(job_id)s::uuid[] IS NULL OR n.job_id = ANY(%(job_id)s::uuid[]))
      AND (%(bucket)s::int[] IS NULL OR n.bucket = ANY(%(bucket)s::int[])
           OR n.next_run_at <= %(help_before)s::timestamptz)
    ORDER BY n.next_run_at, n.job_id LIMIT %(limit)s
    FOR SHARE OF j SKIP LOCKED
    FOR NO KEY UPDATE OF n SKIP LOCKED
), known AS (
    SELECT d.*,
           (SELECT min(p.created_at) FROM pauses p WHERE p.ended_at IS NULL
            AND (p.owner = d.owner OR p.owner IS NULL)) AS paused_since,
           EXISTS (SELECT FROM deps e WHERE e.depends_on_job_id = d.job_id) AS has_downstreams
    FROM due d
)
SELECT array_agg(job_id::text ORDER BY job_id) AS job_ids,
       array_agg(owner ORDER BY job_id) AS owners,
       array_agg(version ORDER BY job_id) AS versions,
       schedule, run_at, every_sec, anchor, timezone, dst_policy, starts_at, ends_at, next_run_at,
       misfire_policy, misfire_grace_sec, max_catchup, max_retries, max_concurrency,
       concurrency_key, has_upstreams, has_downstreams, pool, priority, kind, timeout_sec,
       kill_grace_sec, paused_since
FROM known
GROUP BY schedule, run_at, every_sec, anchor, timezone, dst_policy, starts_at, ends_at, next_run_at,
         misfire_policy, misfire_grace_sec, max_catchup, max_retries, max_concurrency,
         concurrency_key, has_upstreams, has_downstreams, pool, priority, kind, timeout_sec,
         kill_grace_sec, paused_since,
         CASE WHEN schedule ~* '(^|[[:space:],])H' THEN job_id END
ORDER BY next_run_at

-- name: advance_jobs
UPDATE job_next n SET next_run_at = a.next_run_at, retry_at = NULL, quarantine_reason = ''
FROM unnest(%(job_id)s::uuid[], %(next_run_at)s::timestamptz[]) AS a(job_id, next_run_at)
WHERE n.job_id = a.job_id

-- name: quarantine_jobs
UPDATE job_next SET retry_at = clock_timestamp() + make_interval(secs => %(retry_sec)s),
                    quarantine_reason = %(reason)s
WHERE job_id = ANY(%(job_id)s::uuid[])

-- name: next_due
-- Of the first hundred; those of other shards are looked at later, a quarantine's end by polling.
-- A job that is disabled or deleted has no instant here.
SELECT min(next_run_at
           + CASE WHEN %(bucket)s::int[] IS NULL OR bucket = ANY(%(bucket)s::int[])
                  THEN interval '0' ELSE make_interval(secs => %(help_after_sec)s) END)
FROM (
    SELECT next_run_at, bucket FROM job_next
    WHERE next_run_at IS NOT NULL AND (retry_at IS NULL OR retry_at <= clock_timestamp())
    ORDER BY next_run_at LIMIT 100
) AS soonest

-- name: due_ids
SELECT job_id FROM job_next
WHERE next_run_at <= %(now)s::timestamptz
  AND (%(bucket)s::int[] IS NULL OR bucket = ANY(%(bucket)s::int[])
       OR next_run_at <= %(help_before)s::timestamptz)
  AND (retry_at IS NULL OR retry_at <= %(now)s::timestamptz)
ORDER BY next_run_at, job_id LIMIT %(limit)s
