-- What the publisher and the sweeps ask of runs.

-- name: messages_of
SELECT r.run_id, r.scheduled_for, r.pool, r.priority, r.published_at, v.definition ->> 'kind',
       (v.definition ->> 'timeoutSec')::int, (v.definition ->> 'killGraceSec')::int
FROM runs r JOIN job_versions v ON v.job_id = r.job_id AND v.version = r.job_version
WHERE r.run_id = ANY(%(run_id)s::uuid[]) AND r.status = 'queued' AND r.published_at IS NOT NULL
  AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
ORDER BY r.scheduled_for, r.run_id

-- name: mark_unpublished
UPDATE runs r SET published_at = NULL
FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[]) AS u(run_id, scheduled_for)
WHERE r.run_id = u.run_id AND r.scheduled_for = u.scheduled_for AND r.status = 'queued'
  AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz

-- name: queues_in_use
SELECT DISTINCT pool, priority FROM runs
WHERE status = 'queued' AND scheduled_for >= %(floor)s::timestamptz

-- name: queue_figures
-- Queues with runs, and those that were last told to have some; whether a live worker takes from them.
SELECT q.pool, q.priority, sum(q.runs)::bigint, min(q.oldest), EXISTS (
    SELECT FROM workers w
    WHERE q.pool = ANY(w.pools) AND w.state = 'running'
      AND w.last_seen_at > clock_timestamp() - make_interval(secs => %(seen_sec)s)
) AS has_worker
FROM (
    SELECT pool, priority, count(*) AS runs, min(available_at) AS oldest FROM runs
    WHERE status = 'queued' AND scheduled_for >= %(floor)s::timestamptz GROUP BY pool, priority
    UNION ALL
    SELECT regexp_replace(name, '[.][a-z]+$', ''), regexp_replace(name, '^.*[.]', ''), 0, NULL
    FROM figures WHERE kind = 'queue' AND figures ->> 'runs' <> '0'
) AS q
GROUP BY q.pool, q.priority

-- name: unserved_pools
-- Pools whose runs wait although no live worker takes from them, and since when: the start of the
-- last worker that did, or else the day of the oldest run.
SELECT q.pool, q.runs, q.oldest, coalesce(
    (SELECT max(w.started_at) FROM workers w WHERE q.pool = ANY(w.pools)),
    date_trunc('day', q.oldest, 'UTC')) AS since
FROM (
    SELECT pool, count(*) AS runs, min(available_at) AS oldest FROM runs
    WHERE status = 'queued' AND scheduled_for >= %(floor)s::timestamptz GROUP BY pool
) q
WHERE q.oldest < clock_timestamp() - make_interval(secs => %(late_sec)s)
  AND NOT EXISTS (
      SELECT FROM workers w
      WHERE q.pool = ANY(w.pools) AND w.state = 'running'
        AND w.last_seen_at > clock_timestamp() - make_interval(secs => %(seen_sec)s))
ORDER BY q.oldest LIMIT %(limit)s

-- name: write_figures
INSERT INTO figures (kind, name, figures, written_at)
SELECT kind, name, figures, clock_timestamp()
FROM unnest(%(kind)s::text[], %(name)s::text[], %(figures)s::jsonb[]) AS f(kind, name, figures)
ON CONFLICT (kind, name) DO UPDATE
SET figures = excluded.figures, written_at = excluded.written_at

-- name: purge_figures
DELETE FROM figures WHERE written_at < clock_timestamp() - interval '1 hour'

-- name: promote_aged
-- Some of the low runs that have waited too long, the oldest first: a guard against starvation, and
-- no way for a backlog to overtake others' ticks.
WITH aged AS (
    SELECT run_id, scheduled_for FROM runs
    WHERE status = 'queued' AND priority = 'low' AND scheduled_for >= %(floor)s::timestamptz
      AND available_at < clock_timestamp() - make_interval(secs => %(age_sec)s)
    ORDER BY available_at, run_id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE runs r SET priority = 'normal', published_at = clock_timestamp()
FROM aged a
WHERE r.run_id = a.run_id AND r.scheduled_for = a.scheduled_for AND r.status = 'queued'
  AND r.scheduled_for >= %(floor)s::timestamptz
RETURNING r.run_id, r.scheduled_for

-- name: take_lost_messages
-- Queued rows whose message the queue has passed by, or that were never pushed (PROTOCOL 11, 12).
WITH lost AS (
    SELECT run_id, scheduled_for FROM runs
    WHERE status = 'queued' AND pool = %(pool)s AND priority = %(priority)s
      AND (published_at IS NULL OR published_at < %(older_than)s::timestamptz)
      AND scheduled_for >= %(floor)s::timestamptz
    ORDER BY scheduled_for, run_id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE runs r SET published_at = clock_timestamp()
FROM lost l
WHERE r.run_id = l.run_id AND r.scheduled_for = l.scheduled_for AND r.status = 'queued'
  AND r.scheduled_for >= %(floor)s::timestamptz
RETURNING r.run_id, r.scheduled_for

-- name: overdue_leases
SELECT run_id, scheduled_for, attempt, claim_id, lease_until FROM runs
WHERE status = 'running' AND lease_until < clock_timestamp()
  AND scheduled_for >= %(floor)s::timestamptz
LIMIT %(limit)s

-- name: days_not_done
-- Days of a span that still hold a run which is not terminal, or that a waiting run looks at.
SELECT DISTINCT date_trunc('day', scheduled_for, 'UTC') FROM runs
WHERE status IN ('waiting', 'queued', 'running', 'retrying')
  AND scheduled_for < %(before)s::timestamptz
UNION
SELECT date_trunc('day', d.span_from, 'UTC')
FROM runs r JOIN run_deps d ON d.run_id = r.run_id
WHERE r.status = 'waiting' AND r.reason = 'dependency' AND d.span_from < %(before)s::timestamptz

-- name: purge_idempotency_keys
DELETE FROM idempotency_keys
WHERE created_at < clock_timestamp() - make_interval(hours => %(hours)s)

-- name: mark_workers_gone
UPDATE workers SET state = 'lost'
WHERE state NOT IN ('lost', 'stopped')
  AND last_seen_at < clock_timestamp() - make_interval(secs => %(after_sec)s)

-- name: purge_workers
DELETE FROM workers
WHERE state IN ('lost', 'stopped') AND last_seen_at < clock_timestamp() - interval '7 days'

-- name: purge_misfires
-- Ranges whose ticks have no day of runs any more.
DELETE FROM misfires WHERE misfire_id IN (
    SELECT misfire_id FROM misfires WHERE last_tick < %(before)s::timestamptz
    ORDER BY last_tick LIMIT %(limit)s
)

-- name: overdue_jobs
-- An enabled job that nobody dispatches, whoever owns its shard (PROTOCOL 6).
SELECT n.job_id, j.owner, j.name, n.next_run_at
FROM job_next n JOIN jobs j ON j.job_id = n.job_id
WHERE j.enabled AND j.deleted_at IS NULL AND n.next_run_at IS NOT NULL
  AND n.next_run_at < clock_timestamp() - make_interval(secs => %(late_sec)s)
ORDER BY n.next_run_at LIMIT %(limit)s

-- name: acquire_leases
INSERT INTO leases AS l (name, holder, lease_until, term)
SELECT name, %(holder)s, clock_timestamp() + make_interval(secs => %(lease_sec)s), 1
FROM unnest(%(name)s::text[]) AS w(name)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, lease_until = excluded.lease_until,
    term = l.term + CASE WHEN l.holder = excluded.holder THEN 0 ELSE 1 END
WHERE l.holder = excluded.holder OR l.lease_until < clock_timestamp()
RETURNING name

-- name: leases_in_force
-- kinds: what their names begin with.
SELECT name, holder FROM leases
WHERE lease_until >= clock_timestamp() AND name ^@ ANY(%(kinds)s::text[])

-- name: release_leases
UPDATE leases SET lease_until = clock_timestamp()
WHERE name = ANY(%(name)s::text[]) AND holder = %(holder)s

-- name: forget_leases
DELETE FROM leases WHERE name = ANY(%(name)s::text[]) AND holder = %(holder)s

-- name: purge_leases
-- A replica's presence bears its process's name, which does not come again.
DELETE FROM leases
WHERE name ^@ 'replica/' AND lease_until < clock_timestamp() - interval '1 hour'

-- name: insert_alerts
INSERT INTO alerts (kind, dedupe_key, owner, job_id, run_id, message, detail)
SELECT * FROM unnest(%(kind)s::text[], %(dedupe_key)s::text[], %(owner)s::bigint[],
                     %(job_id)s::uuid[], %(run_id)s::uuid[], %(message)s::text[],
                     %(detail)s::jsonb[])
ON CONFLICT (dedupe_key) DO NOTHING
