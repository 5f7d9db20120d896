-- Birth of runs and the ledger of ticks that have none. PROTOCOL 3, 8, 11.

-- name: insert_runs
INSERT INTO runs (run_id, job_id, owner, scheduled_for, logical_date, trigger, job_version, status,
                  reason, pool, priority, attempt_limit, limit_key, payload, published_at)
SELECT n.run_id, n.job_id, n.owner, n.scheduled_for, n.logical_date, n.trigger, n.job_version,
       n.status, n.reason, n.pool, n.priority, n.attempt_limit, n.limit_key, n.payload,
       CASE WHEN n.status = 'queued' THEN clock_timestamp() END
FROM unnest(%(run_id)s::uuid[], %(job_id)s::uuid[], %(owner)s::bigint[],
            %(scheduled_for)s::timestamptz[], %(logical_date)s::timestamptz[], %(trigger)s::text[],
            %(job_version)s::int[], %(status)s::text[], %(reason)s::text[], %(pool)s::text[],
            %(priority)s::text[], %(attempt_limit)s::int[], %(limit_key)s::text[],
            %(payload)s::jsonb[])
     AS n(run_id, job_id, owner, scheduled_for, logical_date, trigger, job_version, status, reason,
          pool, priority, attempt_limit, limit_key, payload)
ORDER BY n.job_id, n.scheduled_for
ON CONFLICT (job_id, scheduled_for) DO NOTHING
RETURNING run_id, scheduled_for, status, published_at

-- name: insert_queued
-- The hot path: runs that wait for nothing, whole groups of jobs at one instant. `part` points into
-- the arrays of what a group has in common. Ids come back only when some tick had its run before.
WITH parts AS (
    SELECT * FROM unnest(%(tick)s::timestamptz[], %(pool)s::text[], %(priority)s::text[],
                         %(attempt_limit)s::int[])
                  WITH ORDINALITY AS p(tick, pool, priority, attempt_limit, part)
), born AS (
    INSERT INTO runs (run_id, job_id, owner, scheduled_for, logical_date, trigger, job_version,
                      status, pool, priority, attempt_limit, published_at)
    SELECT n.run_id, n.job_id, n.owner, p.tick, p.tick, 'schedule', n.version, 'queued', p.pool,
           p.priority, p.attempt_limit, (SELECT clock_timestamp())
    FROM unnest(%(run_id)s::uuid[], %(job_id)s::uuid[], %(owner)s::bigint[], %(version)s::int[],
                %(part)s::int[]) AS n(run_id, job_id, owner, version, part)
    JOIN parts p ON p.part = n.part
    ORDER BY n.job_id, p.tick
    ON CONFLICT (job_id, scheduled_for) DO NOTHING
    RETURNING run_id, published_at
)
SELECT count(*), min(published_at),
       CASE WHEN count(*) < %(expected)s THEN array_agg(run_id::text) END
FROM born

-- name: insert_misfires
INSERT INTO misfires (job_id, owner, first_tick, last_tick, tick_count, rule, into_scheduled_for,
                      job_version)
SELECT * FROM unnest(%(job_id)s::uuid[], %(owner)s::bigint[], %(first_tick)s::timestamptz[],
                     %(last_tick)s::timestamptz[], %(tick_count)s::int[], %(rule)s::text[],
                     %(into_scheduled_for)s::timestamptz[], %(job_version)s::int[])

-- name: forget_gaps
-- Gaps recorded ahead for a version that an edit has ended before they came.
DELETE FROM misfires
WHERE job_id = %(job_id)s::uuid AND rule = 'dst_gap' AND first_tick > %(after)s::timestamptz

-- name: paused_since
SELECT min(created_at) FROM pauses WHERE ended_at IS NULL AND (owner = %(owner)s OR owner IS NULL)

-- name: lower_floor
-- Younger instants stand above any floor; for older ones the row's lock orders this with raise_floor.
UPDATE run_floor SET floor = least(floor, date_trunc('day', %(instant)s::timestamptz, 'UTC'))
WHERE %(instant)s::timestamptz < date_trunc('day', clock_timestamp(), 'UTC') - interval '1 day'

-- name: seed_floor
INSERT INTO run_floor (run_floor_id, floor)
VALUES (1, date_trunc('day', clock_timestamp(), 'UTC') - interval '1 day')
ON CONFLICT DO NOTHING

-- name: read_floor
SELECT floor FROM run_floor

-- name: lock_floor
SELECT floor FROM run_floor FOR UPDATE

-- name: raise_floor
-- Never past yesterday, so that a tick recorded while this runs stands above it without the lock.
UPDATE run_floor SET floor = greatest(floor, least(
    date_trunc('day', clock_timestamp(), 'UTC') - interval '1 day',
    (SELECT date_trunc('day', min(scheduled_for), 'UTC') FROM runs
     WHERE status IN ('waiting', 'queued', 'running', 'retrying')
       AND scheduled_for >= %(floor)s::timestamptz)
))
RETURNING floor
