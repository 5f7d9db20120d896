-- Every status change of a run, guarded by the status it leaves. Callers: runs/lifecycle.py.
-- `first` and `last` bound scheduled_for as constants, so that partitions are pruned when planning.

-- name: claim_runs
WITH wanted AS (
    SELECT * FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[])
                  AS w(run_id, scheduled_for)
), claimed AS (
    UPDATE runs r
    SET status = 'running', reason = '', attempt = r.attempt + 1, claim_id = %(claim_id)s::uuid,
        worker_id = %(worker_id)s, started_at = clock_timestamp(), finished_at = NULL,
        lease_until = clock_timestamp() + make_interval(secs => %(lease_sec)s),
        exit_code = NULL, error = '', output_ref = '', output = NULL, cancel_requested_at = NULL,
        progress_done = NULL, progress_total = NULL
    FROM wanted w
    WHERE r.run_id = w.run_id AND r.scheduled_for = w.scheduled_for AND r.status = 'queued'
      AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
    RETURNING r.*
)
SELECT c.run_id, c.scheduled_for, c.logical_date, c.job_id, c.trigger, c.attempt, c.attempt_limit,
       c.lost_count, c.claim_id, c.limit_key, v.definition, c.payload AS override
FROM claimed c JOIN job_versions v ON v.job_id = c.job_id AND v.version = c.job_version
ORDER BY c.scheduled_for, c.run_id

-- name: read_back_claim
-- A claim whose COMMIT got no answer is looked up by its own claim_id (PROTOCOL 13).
SELECT c.run_id, c.scheduled_for, c.logical_date, c.job_id, c.trigger, c.attempt, c.attempt_limit,
       c.lost_count, c.claim_id, c.limit_key, v.definition, c.payload AS override
FROM runs c JOIN job_versions v ON v.job_id = c.job_id AND v.version = c.job_version
WHERE c.run_id = ANY(%(run_id)s::uuid[])
  AND c.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
  AND c.claim_id = %(claim_id)s::uuid AND c.status = 'running'
ORDER BY c.scheduled_for, c.run_id

-- name: renew_leases
UPDATE runs r
SET lease_until = clock_timestamp() + make_interval(secs => %(lease_sec)s),
    progress_done = coalesce(h.progress_done, r.progress_done),
    progress_total = coalesce(h.progress_total, r.progress_total)
FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[], %(attempt)s::int[],
            %(claim_id)s::uuid[], %(progress_done)s::bigint[], %(progress_total)s::bigint[])
     AS h(run_id, scheduled_for, attempt, claim_id, progress_done, progress_total)
WHERE r.run_id = h.run_id AND r.scheduled_for = h.scheduled_for AND r.status = 'running'
  AND r.attempt = h.attempt AND r.claim_id = h.claim_id
  AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
RETURNING r.run_id, r.attempt, r.cancel_requested_at IS NOT NULL AS cancel_requested

-- name: finish_runs
-- A cancel that was asked for stands above a retry. The attempt of a run that goes on is archived.
WITH results AS (
    SELECT * FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[], %(attempt)s::int[],
                         %(claim_id)s::uuid[], %(outcome)s::text[], %(status)s::text[],
                         %(reason)s::text[], %(retry_in_sec)s::float8[], %(exit_code)s::int[],
                         %(error)s::text[], %(output_ref)s::text[], %(output)s::jsonb[],
                         %(progress_done)s::bigint[], %(progress_total)s::bigint[])
        AS f(run_id, scheduled_for, attempt, claim_id, outcome, status, reason, retry_in_sec,
             exit_code, error, output_ref, output, progress_done, progress_total)
), done AS (
    UPDATE runs r
    SET status = CASE WHEN r.cancel_requested_at IS NOT NULL AND f.status = 'retrying'
                      THEN 'cancelled' ELSE f.status END,
        reason = CASE WHEN r.cancel_requested_at IS NOT NULL
                       AND f.status IN ('retrying', 'cancelled')
                      THEN coalesce(nullif(r.reason, ''), 'user') ELSE f.reason END,
        available_at = CASE WHEN f.status = 'retrying'
                            THEN clock_timestamp() + make_interval(secs => f.retry_in_sec)
                            ELSE r.available_at END,
        finished_at = CASE WHEN f.status = 'retrying' AND r.cancel_requested_at IS NULL THEN NULL
                           ELSE clock_timestamp() END,
        lease_until = NULL, published_at = NULL, exit_code = f.exit_code, error = f.error,
        output_ref = f.output_ref, output = f.output,
        progress_done = coalesce(f.progress_done, r.progress_done),
        progress_total = coalesce(f.progress_total, r.progress_total)
    FROM results f
    WHERE r.run_id = f.run_id AND r.scheduled_for = f.scheduled_for AND r.status = 'running'
      AND r.attempt = f.attempt AND r.claim_id = f.claim_id
      AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
    RETURNING r.run_id, r.scheduled_for, r.job_id, r.owner, r.logical_date, r.trigger, r.status,
              r.reason, r.attempt, r.claim_id, r.exit_code, r.error, r.worker_id, r.output_ref,
              r.started_at, f.outcome, f.reason AS attempt_reason
), archived AS (
    INSERT INTO run_attempts (claim_id, run_id, scheduled_for, attempt, outcome, reason, exit_code,
                              error, worker_id, output_ref, started_at, finished_at)
    SELECT claim_id, run_id, scheduled_for, attempt, outcome, attempt_reason, exit_code, error,
           worker_id, output_ref, started_at, clock_timestamp()
    FROM done WHERE status = 'retrying'
)
SELECT run_id, scheduled_for, job_id, owner, logical_date, trigger, status, reason,
       attempt FROM done

-- name: read_back_finish
SELECT run_id, scheduled_for, job_id, owner, logical_date, trigger, status, reason, attempt
FROM runs r
WHERE (run_id, claim_id) IN (SELECT * FROM unnest(%(run_id)s::uuid[], %(claim_id)s::uuid[]))
  AND scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
  AND status <> 'running'

-- name: end_attempts
-- Attempts that ended without an outcome of their own: drained, crashed, or expired (PROTOCOL 15,
-- 16). Fenced by attempt and claim_id; an expired one also by the lease the reaper watched.
-- One that was never started leaves no trace: its claim is undone.
WITH ended AS (
    SELECT * FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[], %(attempt)s::int[],
                         %(claim_id)s::uuid[], %(lease_until)s::timestamptz[])
                  AS e(run_id, scheduled_for, attempt, claim_id, lease_until)
), done AS (
    UPDATE runs r
    SET status = CASE WHEN r.cancel_requested_at IS NOT NULL THEN 'cancelled'
                      WHEN %(is_free)s THEN 'queued'
                      WHEN r.lost_count >= %(max_lost)s THEN 'dead' ELSE 'retrying' END,
        reason = CASE WHEN r.cancel_requested_at IS NOT NULL
                      THEN coalesce(nullif(r.reason, ''), 'user')
                      WHEN %(is_free)s THEN '' ELSE %(reason)s END,
        attempt = r.attempt - CASE WHEN %(is_unstarted)s THEN 1 ELSE 0 END,
        attempt_limit = r.attempt_limit + CASE WHEN %(is_unstarted)s THEN 0 ELSE 1 END,
        claim_id = CASE WHEN %(is_unstarted)s THEN NULL ELSE r.claim_id END,
        worker_id = CASE WHEN %(is_unstarted)s THEN '' ELSE r.worker_id END,
        started_at = CASE WHEN %(is_unstarted)s THEN NULL ELSE r.started_at END,
        lost_count = r.lost_count + CASE WHEN %(is_free)s THEN 0 ELSE 1 END,
        available_at = CASE WHEN %(is_free)s THEN clock_timestamp()
            ELSE clock_timestamp() + make_interval(secs => 2 ^ least(r.lost_count, 6)) END,
        published_at = CASE WHEN %(is_free)s AND r.cancel_requested_at IS NULL
                            THEN clock_timestamp() END,
        finished_at = CASE WHEN r.cancel_requested_at IS NOT NULL
                             OR (NOT %(is_free)s AND r.lost_count >= %(max_lost)s)
                           THEN clock_timestamp() END,
        lease_until = NULL, error = %(error)s
    FROM ended e
    WHERE r.run_id = e.run_id AND r.scheduled_for = e.scheduled_for AND r.status = 'running'
      AND r.attempt = e.attempt AND r.claim_id = e.claim_id
      AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
      AND (e.lease_until IS NULL
           OR (r.lease_until = e.lease_until AND r.lease_until < clock_timestamp()))
    RETURNING r.run_id, r.scheduled_for, r.job_id, r.owner, r.logical_date, r.trigger, r.status,
              r.reason, r.attempt, r.claim_id, r.error, r.worker_id, r.output_ref, r.started_at
), archived AS (
    INSERT INTO run_attempts (claim_id, run_id, scheduled_for, attempt, outcome, reason, exit_code,
                              error, worker_id, output_ref, started_at, finished_at)
    SELECT claim_id, run_id, scheduled_for, attempt, %(outcome)s, %(reason)s, NULL, error,
           worker_id, output_ref, started_at, clock_timestamp()
    FROM done WHERE status IN ('queued', 'retrying') AND NOT %(is_unstarted)s
)
SELECT run_id, scheduled_for, job_id, owner, logical_date, trigger, status, reason,
       attempt FROM done

-- name: promote_runs
-- Back-off is over. A run whose job was deleted meanwhile is not tried again.
WITH ready AS (
    SELECT run_id, scheduled_for FROM runs
    WHERE status = 'retrying' AND available_at <= clock_timestamp()
      AND scheduled_for >= %(floor)s::timestamptz
    ORDER BY available_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE runs r
SET status = CASE WHEN j.deleted_at IS NULL THEN 'queued' ELSE 'cancelled' END,
    reason = CASE WHEN j.deleted_at IS NULL THEN r.reason ELSE 'job_deleted' END,
    published_at = CASE WHEN j.deleted_at IS NULL THEN clock_timestamp() END,
    finished_at = CASE WHEN j.deleted_at IS NULL THEN NULL ELSE clock_timestamp() END
FROM ready d, jobs j
WHERE r.run_id = d.run_id AND r.scheduled_for = d.scheduled_for AND r.status = 'retrying'
  AND j.job_id = r.job_id AND r.scheduled_for >= %(floor)s::timestamptz
RETURNING r.run_id, r.scheduled_for, r.job_id, r.owner, r.logical_date, r.trigger, r.status,
          r.reason, r.attempt

-- name: cancel_runs
-- What has not started ends at once; what runs is asked to stop and ends by its worker's finish. Its
-- row keeps for what, '' for a person's wish, which stands above any other.
UPDATE runs r
SET status = CASE WHEN r.status = 'running' THEN r.status ELSE 'cancelled' END,
    reason = CASE WHEN r.status <> 'running' THEN %(reason)s
                  WHEN %(reason)s = 'user' THEN ''
                  WHEN r.cancel_requested_at IS NOT NULL THEN r.reason ELSE %(reason)s END,
    finished_at = CASE WHEN r.status = 'running' THEN NULL ELSE clock_timestamp() END,
    cancel_requested_at = CASE WHEN r.status = 'running'
        THEN coalesce(r.cancel_requested_at, clock_timestamp()) END
FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[]) AS c(run_id, scheduled_for)
WHERE r.run_id = c.run_id AND r.scheduled_for = c.scheduled_for
  AND r.status IN ('waiting', 'queued', 'retrying', 'running')
  AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
RETURNING r.run_id, r.scheduled_for, r.job_id, r.owner, r.logical_date, r.trigger, r.status,
          r.reason, r.attempt

-- name: rerun_runs
-- An audited new attempt of a terminal run, by the job's current version (PROTOCOL 18).
WITH again AS (
    SELECT r.run_id, r.scheduled_for, r.status, r.reason, r.claim_id, r.attempt, r.exit_code,
           r.error, r.worker_id, r.output_ref, r.started_at, r.finished_at, a.waits
    FROM runs r JOIN unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[], %(waits)s::bool[])
                     AS a(run_id, scheduled_for, waits) USING (run_id, scheduled_for)
    WHERE r.status IN ('succeeded', 'dead', 'skipped', 'cancelled')
      AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
    ORDER BY r.run_id FOR UPDATE OF r
), archived AS (
    INSERT INTO run_attempts (claim_id, run_id, scheduled_for, attempt, outcome, reason, exit_code,
                              error, worker_id, output_ref, started_at, finished_at)
    SELECT claim_id, run_id, scheduled_for, attempt,
           CASE WHEN status IN ('succeeded', 'cancelled') THEN status
                WHEN reason IN ('timeout', 'worker_lost', 'crashed') THEN reason
                ELSE 'failed' END,
           reason, exit_code, error, worker_id, output_ref, started_at, finished_at
    FROM again WHERE claim_id IS NOT NULL -- the rows as locked, not as they were before the wait
    ON CONFLICT DO NOTHING
), settings AS (
    SELECT job_id, version, pool, priority, max_retries,
           CASE WHEN max_concurrency IS NULL THEN NULL
                WHEN concurrency_key IS NULL THEN 'job:' || job_id
                ELSE 'key:' || owner || ':' || concurrency_key END AS limit_key
    FROM jobs WHERE deleted_at IS NULL
)
UPDATE runs r
SET status = CASE WHEN a.waits OR s.limit_key IS NOT NULL THEN 'waiting' ELSE 'queued' END,
    reason = CASE WHEN a.waits THEN 'dependency'
                  WHEN s.limit_key IS NOT NULL THEN 'concurrency' ELSE '' END,
    job_version = s.version, pool = s.pool, priority = s.priority, limit_key = s.limit_key,
    attempt_limit = r.attempt + 1 + s.max_retries, lost_count = 0,
    published_at = CASE WHEN s.limit_key IS NULL AND NOT a.waits THEN clock_timestamp() END,
    available_at = clock_timestamp(), started_at = NULL, finished_at = NULL,
    cancel_requested_at = NULL, exit_code = NULL, error = '', output_ref = '', output = NULL,
    worker_id = '', claim_id = NULL, progress_done = NULL, progress_total = NULL
FROM again a, settings s
WHERE r.run_id = a.run_id AND r.scheduled_for = a.scheduled_for AND s.job_id = r.job_id
  AND r.status IN ('succeeded', 'dead', 'skipped', 'cancelled')
  AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
RETURNING r.run_id, r.scheduled_for, r.status, r.limit_key

-- name: release_waiting
-- Upstreams are satisfied. A run at a limit stays waiting, for the limit now.
UPDATE runs r
SET status = CASE WHEN r.limit_key IS NULL THEN 'queued' ELSE 'waiting' END,
    reason = CASE WHEN r.limit_key IS NULL THEN '' ELSE 'concurrency' END,
    published_at = CASE WHEN r.limit_key IS NULL THEN clock_timestamp() END,
    available_at = clock_timestamp()
FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[]) AS w(run_id, scheduled_for)
WHERE r.run_id = w.run_id AND r.scheduled_for = w.scheduled_for
  AND r.status = 'waiting' AND r.reason = 'dependency'
  AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
RETURNING r.run_id, r.scheduled_for, r.status, r.limit_key

-- name: revive_skipped
-- What an upstream had skipped waits again once that upstream was re-run (PROTOCOL 25).
UPDATE runs r
SET status = 'waiting', reason = 'dependency', priority = 'low', finished_at = NULL,
    available_at = clock_timestamp()
FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[]) AS w(run_id, scheduled_for)
WHERE r.run_id = w.run_id AND r.scheduled_for = w.scheduled_for
  AND r.status = 'skipped' AND r.reason = 'upstream_failed'
  AND EXISTS (SELECT FROM jobs j WHERE j.job_id = r.job_id AND j.deleted_at IS NULL)
  AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
RETURNING r.run_id, r.scheduled_for

-- name: skip_waiting
UPDATE runs r
SET status = 'skipped', reason = w.reason, finished_at = clock_timestamp()
FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[], %(reason)s::text[])
     AS w(run_id, scheduled_for, reason)
WHERE r.run_id = w.run_id AND r.scheduled_for = w.scheduled_for AND r.status = 'waiting'
  AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
RETURNING r.run_id, r.scheduled_for, r.job_id, r.owner, r.logical_date, r.trigger, r.status,
          r.reason, r.attempt

-- name: unstarted_of_job
SELECT run_id, scheduled_for FROM runs
WHERE job_id = %(job_id)s::uuid AND status IN ('waiting', 'queued', 'retrying')
ORDER BY run_id
