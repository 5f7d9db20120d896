-- Concurrency limits, counted from rows under the slot's lock (PROTOCOL 8, 9, 17): the lock is one
-- statement, what reads after it another, since under READ COMMITTED each sees its own snapshot.

-- name: make_slots
INSERT INTO limit_slots (scope, key)
SELECT * FROM unnest(%(scope)s::text[], %(key)s::text[]) AS k(scope, key) ORDER BY scope, key
ON CONFLICT (scope, key) DO NOTHING

-- name: lock_slots
SELECT scope, key FROM limit_slots
WHERE (scope, key) IN (SELECT * FROM unnest(%(scope)s::text[], %(key)s::text[]))
ORDER BY scope, key FOR UPDATE

-- name: limit_keys_of
SELECT DISTINCT limit_key FROM runs
WHERE run_id = ANY(%(run_id)s::uuid[]) AND limit_key IS NOT NULL
  AND scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz

-- name: release_held
-- The oldest first, but a tick of its own time before all that a backfill has made.
WITH active AS (
    SELECT limit_key, count(*) AS busy FROM runs
    WHERE limit_key = ANY(%(limit_key)s::text[]) AND status IN ('queued', 'running', 'retrying')
      AND scheduled_for >= %(floor)s::timestamptz
    GROUP BY limit_key
), held AS (
    SELECT r.run_id, r.scheduled_for, r.limit_key, j.max_concurrency,
           row_number() OVER (PARTITION BY r.limit_key
                              ORDER BY r.trigger = 'backfill', r.scheduled_for, r.run_id) AS place
    FROM runs r JOIN jobs j ON j.job_id = r.job_id
    WHERE r.limit_key = ANY(%(limit_key)s::text[]) AND r.status = 'waiting'
      AND r.reason = 'concurrency' AND r.scheduled_for >= %(floor)s::timestamptz
)
UPDATE runs r
SET status = 'queued', reason = '', published_at = clock_timestamp(),
    available_at = clock_timestamp()
FROM held h LEFT JOIN active a USING (limit_key)
WHERE r.run_id = h.run_id AND r.scheduled_for = h.scheduled_for AND r.status = 'waiting'
  AND r.scheduled_for >= %(floor)s::timestamptz
  AND (h.max_concurrency IS NULL OR h.place <= h.max_concurrency - coalesce(a.busy, 0))
RETURNING r.run_id, r.scheduled_for

-- name: still_held
-- What a policy is applied to. A backfilled run waits for its turn, whatever the policy.
SELECT r.run_id, r.scheduled_for, r.limit_key, r.job_id, j.concurrency_policy
FROM runs r JOIN jobs j ON j.job_id = r.job_id
WHERE r.limit_key = ANY(%(limit_key)s::text[]) AND r.status = 'waiting' AND r.reason = 'concurrency'
  AND j.concurrency_policy <> 'queue' AND r.trigger <> 'backfill'
  AND r.scheduled_for >= %(floor)s::timestamptz
ORDER BY r.scheduled_for, r.run_id

-- name: active_of_jobs
SELECT run_id, scheduled_for FROM runs
WHERE job_id = ANY(%(job_id)s::uuid[]) AND status IN ('queued', 'running', 'retrying')
  AND cancel_requested_at IS NULL
  AND scheduled_for >= %(floor)s::timestamptz
ORDER BY run_id

-- name: keys_with_room
-- The sweep's question: which limits hold runs back although none, or too few, are active?
SELECT DISTINCT limit_key FROM runs
WHERE status = 'waiting' AND reason = 'concurrency' AND limit_key IS NOT NULL
  AND scheduled_for >= %(floor)s::timestamptz
LIMIT %(limit)s
