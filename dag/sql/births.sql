-- What a newborn run waits for, and which runs are born with which. PROTOCOL 21 to 24.

-- name: jobs_below
-- Jobs that upstreams drive, through the whole chain, with each edge that leads to them. A job with
-- a schedule of its own is driven by none, unless `every` asks for all that is downstream.
WITH RECURSIVE below(depends_on_job_id, job_id, match, day_offset) AS (
    SELECT d.depends_on_job_id, d.job_id, d.match, d.day_offset
    FROM deps d JOIN jobs j ON j.job_id = d.job_id
    WHERE d.depends_on_job_id = ANY(%(job_id)s::uuid[]) AND j.enabled AND j.deleted_at IS NULL
      AND (%(every)s OR (j.schedule IS NULL AND j.run_at IS NULL AND j.every_sec IS NULL))
    UNION
    SELECT d.depends_on_job_id, d.job_id, d.match, d.day_offset
    FROM below b JOIN deps d ON d.depends_on_job_id = b.job_id JOIN jobs j ON j.job_id = d.job_id
    WHERE j.enabled AND j.deleted_at IS NULL
      AND (%(every)s OR (j.schedule IS NULL AND j.run_at IS NULL AND j.every_sec IS NULL))
)
SELECT b.depends_on_job_id, b.job_id, b.match, b.day_offset, j.owner, j.timezone, j.version,
       j.pool, j.priority, j.max_retries, j.max_concurrency, j.concurrency_key
FROM below b JOIN jobs j ON j.job_id = b.job_id

-- name: edges_of_jobs
SELECT d.job_id, d.depends_on_job_id, d.match, d.day_offset, j.timezone, j.trigger_rule
FROM deps d JOIN jobs j ON j.job_id = d.job_id
WHERE d.job_id = ANY(%(job_id)s::uuid[])
ORDER BY d.job_id, d.depends_on_job_id

-- name: sources_of_jobs
-- Where the ticks of jobs come from: their schedules, or those above them. next_run_at is read here,
-- before latest_entries: what it has passed by is in the ledger by then.
WITH RECURSIVE above(job_id) AS (
    SELECT unnest(%(job_id)s::uuid[])
    UNION
    SELECT d.depends_on_job_id FROM above a JOIN jobs j ON j.job_id = a.job_id
    JOIN deps d ON d.job_id = j.job_id
    WHERE j.schedule IS NULL AND j.run_at IS NULL AND j.every_sec IS NULL
)
SELECT j.job_id, j.schedule, j.run_at, j.every_sec, j.anchor, j.timezone, j.dst_policy,
       j.starts_at, j.ends_at, n.next_run_at,
       coalesce(v.valid_from, j.created_at) AS valid_from,
       (SELECT coalesce(json_agg(json_build_array(d.depends_on_job_id, d.match, d.day_offset)), '[]')
        FROM deps d WHERE d.job_id = j.job_id) AS edges
FROM above a JOIN jobs j ON j.job_id = a.job_id JOIN job_next n ON n.job_id = j.job_id
LEFT JOIN job_versions v ON v.job_id = j.job_id AND v.version = j.version

-- name: latest_entries
-- A job's latest entry in the ledger at or before an instant: the run of a tick, or a range of ticks
-- that have none. A triggered run is no tick: its scheduled_for has microseconds (PROTOCOL 1).
SELECT q.job_id, q.at, greatest(
    (SELECT r.scheduled_for FROM runs r
     WHERE r.job_id = q.job_id AND r.scheduled_for <= q.at
       AND r.scheduled_for <= %(last)s::timestamptz
       AND r.scheduled_for = date_trunc('second', r.scheduled_for)
     ORDER BY r.scheduled_for DESC LIMIT 1),
    (SELECT least(m.last_tick, q.at) FROM misfires m
     WHERE m.job_id = q.job_id AND m.first_tick <= q.at
       AND m.rule IN ('coalesced', 'skipped', 'capped', 'paused')
     ORDER BY m.first_tick DESC LIMIT 1))
FROM unnest(%(job_id)s::uuid[], %(at)s::timestamptz[]) AS q(job_id, at)

-- name: insert_run_deps
INSERT INTO run_deps (run_id, scheduled_for, job_id, logical_date, trigger_rule, depends_on_job_id,
                      match, span_from, span_until, expected)
SELECT * FROM unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[], %(job_id)s::uuid[],
                     %(logical_date)s::timestamptz[], %(trigger_rule)s::text[],
                     %(depends_on_job_id)s::uuid[], %(match)s::text[], %(span_from)s::timestamptz[],
                     %(span_until)s::timestamptz[], %(expected)s::int[])
ON CONFLICT (run_id, depends_on_job_id) DO NOTHING

-- name: forget_run_deps
DELETE FROM run_deps WHERE run_dep_id IN (
    SELECT run_dep_id FROM run_deps WHERE scheduled_for < %(before)s::timestamptz LIMIT %(limit)s
)
