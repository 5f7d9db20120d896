-- Who waits for a run, and what the upstreams of waiting runs have come to. Callers: dag/resolver.py.
-- Locks first, then reads, in two statements (PROTOCOL 9); run_deps is frozen, so reading it beside
-- the lock is no race.

-- name: has_followers
-- All that a completion costs a job without downstream: one probe of an index.
SELECT EXISTS (SELECT FROM run_deps WHERE depends_on_job_id = ANY(%(job_id)s::uuid[]))

-- name: direct_followers
-- No runs are looked at. A coalesced tick rings with the run it went into. A local date is never
-- longer than three days.
SELECT DISTINCT d.run_id, d.scheduled_for
FROM unnest(%(job_id)s::uuid[], %(logical_date)s::timestamptz[]) AS f(job_id, logical_date)
CROSS JOIN LATERAL (
    SELECT t.run_id, t.scheduled_for FROM run_deps t
    WHERE t.depends_on_job_id = f.job_id AND t.match = 'tick' AND t.span_from = f.logical_date
    UNION ALL
    SELECT t.run_id, t.scheduled_for FROM run_deps t
    WHERE t.depends_on_job_id = f.job_id AND t.match = 'day' AND t.span_from <= f.logical_date
      AND t.span_from > f.logical_date - interval '3 days' AND t.span_until > f.logical_date
    UNION ALL
    SELECT t.run_id, t.scheduled_for
    FROM (SELECT m.first_tick, m.last_tick, m.into_scheduled_for FROM misfires m
          WHERE m.job_id = f.job_id AND m.first_tick <= f.logical_date
          ORDER BY m.first_tick DESC LIMIT 1) m
    JOIN run_deps t ON t.depends_on_job_id = f.job_id AND t.match = 'tick'
                   AND t.span_from BETWEEN m.first_tick AND m.last_tick
    WHERE m.into_scheduled_for = f.logical_date
) d
LIMIT %(limit)s

-- name: all_followers
-- The direct ones and all below them, through run_deps alone; the lock sorts out who still waits.
WITH RECURSIVE below(run_id, scheduled_for, job_id, logical_date) AS (
    SELECT NULL::uuid, NULL::timestamptz, f.job_id, f.logical_date
    FROM unnest(%(job_id)s::uuid[], %(logical_date)s::timestamptz[]) AS f(job_id, logical_date)
    UNION
    SELECT d.run_id, d.scheduled_for, d.job_id, d.logical_date
    FROM below b CROSS JOIN LATERAL (
        SELECT t.run_id, t.scheduled_for, t.job_id, t.logical_date FROM run_deps t
        WHERE t.depends_on_job_id = b.job_id AND t.match = 'tick' AND t.span_from = b.logical_date
        UNION ALL
        SELECT t.run_id, t.scheduled_for, t.job_id, t.logical_date FROM run_deps t
        WHERE t.depends_on_job_id = b.job_id AND t.match = 'day' AND t.span_from <= b.logical_date
          AND t.span_from > b.logical_date - interval '3 days' AND t.span_until > b.logical_date
    ) d
)
SELECT run_id, scheduled_for FROM below WHERE run_id IS NOT NULL
GROUP BY run_id, scheduled_for
LIMIT %(limit)s

-- name: lock_unresolved
-- In primary key order (PROTOCOL 8). What its upstreams had skipped may be revived (PROTOCOL 25).
SELECT r.run_id, r.scheduled_for, r.job_id, r.owner, r.logical_date, r.status,
       j.deleted_at IS NOT NULL AS is_deleted, d.edges,
       d.trigger_rule, d.span_from, d.span_until, clock_timestamp() AS seen_at
FROM runs r
JOIN jobs j ON j.job_id = r.job_id
JOIN unnest(%(run_id)s::uuid[], %(scheduled_for)s::timestamptz[]) AS w(run_id, scheduled_for)
  ON r.run_id = w.run_id AND r.scheduled_for = w.scheduled_for
LEFT JOIN LATERAL (
    SELECT count(*) AS edges, min(t.trigger_rule) AS trigger_rule, min(t.span_from) AS span_from,
           max(t.span_until) AS span_until
    FROM run_deps t WHERE t.run_id = r.run_id
) d ON true
WHERE r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
  AND ((r.status = 'waiting' AND r.reason = 'dependency')
       OR (r.status = 'skipped' AND r.reason = 'upstream_failed'))
ORDER BY r.run_id, r.scheduled_for
FOR UPDATE OF r

-- name: page_waiting
-- The sweep's walk: the same rows without a lock, oldest first, from where it stopped.
SELECT r.run_id, r.scheduled_for, r.job_id, r.owner, r.logical_date, r.status,
       j.deleted_at IS NOT NULL AS is_deleted, d.edges,
       d.trigger_rule, d.span_from, d.span_until, clock_timestamp() AS seen_at
FROM runs r
JOIN jobs j ON j.job_id = r.job_id
LEFT JOIN LATERAL (
    SELECT count(*) AS edges, min(t.trigger_rule) AS trigger_rule, min(t.span_from) AS span_from,
           max(t.span_until) AS span_until
    FROM run_deps t WHERE t.run_id = r.run_id
) d ON true
WHERE r.status = 'waiting' AND r.reason = 'dependency'
  AND r.scheduled_for >= %(floor)s::timestamptz
  AND (r.scheduled_for, r.run_id) > (%(after_scheduled_for)s::timestamptz, %(after_run_id)s::uuid)
ORDER BY r.scheduled_for, r.run_id
LIMIT %(limit)s

-- name: page_revivable
-- Rows that upstreams had skipped, of which one has succeeded since: its signal was lost.
SELECT r.run_id, r.scheduled_for, r.has_news FROM (
    SELECT r.run_id, r.scheduled_for, EXISTS (
        SELECT FROM run_deps d JOIN runs u ON u.job_id = d.depends_on_job_id
        WHERE d.run_id = r.run_id AND u.status = 'succeeded' AND u.finished_at > r.finished_at
          AND ((u.scheduled_for BETWEEN d.span_from AND d.span_until)
               OR (NOT (u.logical_date = u.scheduled_for)
                   AND u.logical_date BETWEEN d.span_from AND d.span_until))
          AND u.scheduled_for >= %(floor)s::timestamptz - interval '1 day'
    ) AS has_news
    FROM runs r
    WHERE r.status = 'skipped' AND r.reason = 'upstream_failed'
      AND r.scheduled_for >= %(floor)s::timestamptz
      AND (r.scheduled_for, r.run_id)
          > (%(after_scheduled_for)s::timestamptz, %(after_run_id)s::uuid)
    ORDER BY r.scheduled_for, r.run_id
    LIMIT %(limit)s
) r

-- name: wait_for_live
-- Of these runs, those that surely wait on: an upstream's tick is under way. It stops at the first
-- one found, so a run with a thousand upstreams costs a completion little until the last ones.
SELECT w.run_id FROM unnest(%(run_id)s::uuid[]) AS w(run_id)
CROSS JOIN LATERAL (
    SELECT FROM run_deps d CROSS JOIN LATERAL (
        SELECT FROM runs u
        WHERE d.match = 'tick' AND u.job_id = d.depends_on_job_id AND u.scheduled_for = d.span_from
          AND u.status IN ('waiting', 'queued', 'running', 'retrying')
          AND u.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
        OFFSET 0 -- keeps it a probe for each edge, whatever the planner believes of the tables
    ) u
    WHERE d.run_id = w.run_id LIMIT 1
) live

-- name: read_standing
-- The quick look, which settles most: the run of exactly the tick that is waited for. Null: there is
-- none, or a day is waited for, or a triggered run stands for the tick too; read_outcomes knows.
SELECT run_id, status, inside, count(*) FROM (
    SELECT d.run_id,
           CASE WHEN NOT EXISTS (
               SELECT FROM runs n
               WHERE n.job_id = d.depends_on_job_id AND n.logical_date = d.span_from
                 AND NOT (n.logical_date = n.scheduled_for)
                 AND n.scheduled_for BETWEEN %(first)s::timestamptz - interval '1 day'
                                         AND %(last)s::timestamptz
           ) THEN u.status END AS status,
           CASE WHEN u.run_id = ANY(%(run_id)s::uuid[]) THEN u.run_id END AS inside
    FROM run_deps d
    LEFT JOIN LATERAL (
        SELECT u.run_id, u.status FROM runs u
        WHERE d.match = 'tick' AND u.job_id = d.depends_on_job_id
          AND u.scheduled_for = d.span_from AND u.logical_date = u.scheduled_for
          AND u.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
        OFFSET 0
    ) u ON true
    WHERE d.run_id = ANY(%(run_id)s::uuid[])
) e
GROUP BY run_id, status, inside

-- name: read_outcomes
-- The close look, by the ledger (PROTOCOL 22, 24): what each edge's ticks have come to, as the status
-- of the newest run that stands for a tick; 'due' while ticks are still to be decided on, 'skipped'
-- for those that became no run, 'absent' where there are none. `inside` is an upstream run that is
-- itself one of the members.
WITH RECURSIVE edges AS MATERIALIZED (
    SELECT d.run_id, d.depends_on_job_id AS job_id, d.match, d.span_from, d.span_until, d.expected
    FROM run_deps d WHERE d.run_id = ANY(%(run_id)s::uuid[])
), standing AS (
    SELECT e.run_id, e.job_id, u.logical_date, u.run_id AS upstream, u.status, u.created_at
    FROM edges e CROSS JOIN LATERAL (
        SELECT u.* FROM runs u
        WHERE e.match = 'tick' AND u.job_id = e.job_id AND u.scheduled_for = e.span_from
          AND u.logical_date = u.scheduled_for
          AND u.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
        UNION ALL
        SELECT u.* FROM runs u
        WHERE e.match = 'day' AND u.job_id = e.job_id
          AND u.scheduled_for >= e.span_from AND u.scheduled_for < e.span_until
          AND u.logical_date = u.scheduled_for
          AND u.scheduled_for = date_trunc('second', u.scheduled_for) -- no triggered run is a tick
          AND u.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
        UNION ALL
        SELECT u.* FROM runs u -- triggered, for a logical date that was named
        WHERE u.job_id = e.job_id AND NOT (u.logical_date = u.scheduled_for)
          AND u.logical_date >= e.span_from
          AND (u.logical_date = e.span_from OR u.logical_date < e.span_until)
          AND u.scheduled_for BETWEEN %(first)s::timestamptz - interval '1 day'
                                  AND %(last)s::timestamptz
    ) u
), newest AS MATERIALIZED (
    SELECT DISTINCT ON (run_id, job_id, logical_date) run_id, job_id, logical_date, upstream, status
    FROM standing ORDER BY run_id, job_id, logical_date, created_at DESC, upstream DESC
), asked AS MATERIALIZED (
    -- edges that the runs alone do not answer: a day may go on, a tick may have become no run
    SELECT e.*, (SELECT count(*) FROM newest n WHERE n.run_id = e.run_id AND n.job_id = e.job_id)
                AS stood_for
    FROM edges e
    WHERE e.match = 'day' OR (e.expected IS DISTINCT FROM 0 AND NOT EXISTS (
        SELECT FROM newest n WHERE n.run_id = e.run_id AND n.job_id = e.job_id))
), sources(job_id, source_id) AS (
    -- where a job's ticks come from: itself, or the schedules above a driven one
    SELECT DISTINCT job_id, job_id FROM asked
    UNION
    SELECT s.job_id, p.depends_on_job_id
    FROM sources s JOIN jobs j ON j.job_id = s.source_id JOIN deps p ON p.job_id = j.job_id
    WHERE j.schedule IS NULL AND j.run_at IS NULL AND j.every_sec IS NULL
      AND j.enabled AND j.deleted_at IS NULL
), decided_until AS (
    SELECT s.job_id, min(n.next_run_at) AS next_run_at
    FROM sources s JOIN jobs j ON j.job_id = s.source_id JOIN job_next n ON n.job_id = j.job_id
    WHERE j.enabled AND j.deleted_at IS NULL
    GROUP BY s.job_id
), ledger AS MATERIALIZED (
    SELECT a.run_id, a.job_id, m.rule, m.into_scheduled_for
    FROM asked a JOIN sources s ON s.job_id = a.job_id
    CROSS JOIN LATERAL (
        SELECT n.rule, n.into_scheduled_for FROM (
            SELECT i.* FROM misfires i
            WHERE i.job_id = s.source_id AND i.first_tick <= a.span_from
              AND i.rule IN ('coalesced', 'skipped', 'capped', 'paused')
            ORDER BY i.first_tick DESC LIMIT 1
        ) n
        WHERE n.last_tick >= a.span_from -- a range may span a day that has no tick
          AND (a.match = 'tick' OR n.last_tick < a.span_until OR a.expected IS DISTINCT FROM 0)
        UNION ALL
        SELECT i.rule, i.into_scheduled_for FROM misfires i
        WHERE a.match = 'day' AND i.job_id = s.source_id
          AND i.first_tick > a.span_from AND i.first_tick < a.span_until
          AND i.rule IN ('coalesced', 'skipped', 'capped', 'paused')
    ) m
), judged AS (
    SELECT l.run_id, l.job_id, coalesce(u.status, 'skipped') AS status, u.run_id AS upstream
    FROM ledger l LEFT JOIN LATERAL (
        SELECT u.run_id, u.status FROM runs u
        WHERE l.rule = 'coalesced' AND u.job_id = l.job_id AND u.scheduled_for = l.into_scheduled_for
          AND u.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
        OFFSET 0
    ) u ON true
), open_or_lost AS (
    SELECT a.run_id, a.job_id,
           CASE
               WHEN a.match = 'tick' THEN
                   CASE WHEN d.next_run_at <= a.span_from THEN 'due' ELSE 'skipped' END
               WHEN d.next_run_at < a.span_until THEN 'due'
               WHEN j.enabled THEN NULL
               -- paused: until the date is over its ticks may go on; then those that did not come
               -- about are lost, whether or not a resume has recorded them yet
               WHEN j.deleted_at IS NULL AND a.span_until > clock_timestamp() THEN 'due'
               WHEN a.stood_for < a.expected THEN 'skipped'
           END AS status
    FROM asked a JOIN jobs j ON j.job_id = a.job_id
    LEFT JOIN decided_until d ON d.job_id = a.job_id
    WHERE a.match = 'day'
       OR NOT EXISTS (SELECT FROM judged g WHERE g.run_id = a.run_id AND g.job_id = a.job_id)
), outcomes AS (
    SELECT run_id, job_id, status, upstream FROM newest
    UNION ALL
    SELECT run_id, job_id, status, upstream FROM judged
    UNION ALL
    SELECT run_id, job_id, status, NULL FROM open_or_lost WHERE status IS NOT NULL
), complete AS (
    SELECT run_id, job_id, status, upstream FROM outcomes
    UNION ALL
    SELECT e.run_id, e.job_id, 'absent', NULL FROM edges e
    WHERE NOT EXISTS (SELECT FROM outcomes o WHERE o.run_id = e.run_id AND o.job_id = e.job_id)
)
SELECT run_id, status,
       CASE WHEN upstream = ANY(%(member_id)s::uuid[]) THEN upstream END AS inside, count(*), job_id
FROM complete GROUP BY run_id, job_id, status, inside

-- name: timed_out
-- dependencyTimeoutSec counts from the last expected upstream tick, or from when the run was born
-- or revived where that is later (PROTOCOL 24).
SELECT r.run_id, r.scheduled_for
FROM runs r JOIN jobs j ON j.job_id = r.job_id
WHERE r.status = 'waiting' AND r.reason = 'dependency' AND r.scheduled_for >= %(floor)s::timestamptz
  AND r.available_at + make_interval(secs => j.dependency_timeout_sec) < clock_timestamp()
  AND NOT EXISTS (
      SELECT FROM run_deps d WHERE d.run_id = r.run_id
        AND d.span_until + make_interval(secs => j.dependency_timeout_sec) >= clock_timestamp())
ORDER BY r.run_id, r.scheduled_for
LIMIT %(limit)s

-- name: audit_revived
INSERT INTO audit (owner, actor, action, object_type, object_id, detail)
SELECT r.owner, 'system', 'revive', 'run', r.run_id::text, r.detail
FROM unnest(%(owner)s::bigint[], %(run_id)s::uuid[], %(detail)s::jsonb[]) AS r(owner, run_id, detail)

-- name: audit_reruns
INSERT INTO audit (owner, actor, action, object_type, object_id, detail)
SELECT %(owner)s::bigint, %(actor)s, 'rerun', 'run', r.run_id::text, '{"withDownstream": true}'
FROM unnest(%(run_id)s::uuid[]) AS r(run_id)
