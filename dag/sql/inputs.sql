-- What a run's upstreams left, for the run to use. Caller: dag/inputs.py.

-- name: bounds_of_edges
-- Between which instants the upstreams' runs are looked for; null for a run without edges.
SELECT min(span_from), greatest(max(span_until), clock_timestamp())
FROM run_deps WHERE run_id = %(run_id)s::uuid

-- name: read_inputs
-- Of each edge the newest run that stands for each tick, or into which the tick was coalesced
-- (PROTOCOL 22, 24); newest ticks first, as many as may be listed. Outputs are given as long as
-- they are within %(output_bytes)s bytes in all.
WITH RECURSIVE edges AS MATERIALIZED (
    SELECT d.depends_on_job_id AS job_id, d.match, d.span_from, d.span_until
    FROM run_deps d WHERE d.run_id = %(run_id)s::uuid
), sources(job_id, source_id) AS (
    -- where a job's ticks come from: itself, or the schedules above a driven one
    SELECT job_id, job_id FROM edges
    UNION
    SELECT s.job_id, p.depends_on_job_id
    FROM sources s JOIN jobs j ON j.job_id = s.source_id JOIN deps p ON p.job_id = j.job_id
    WHERE j.schedule IS NULL AND j.run_at IS NULL AND j.every_sec IS NULL
), coalesced AS (
    SELECT e.job_id, m.into_scheduled_for
    FROM edges e JOIN sources s ON s.job_id = e.job_id
    CROSS JOIN LATERAL (
        SELECT n.into_scheduled_for FROM (
            SELECT i.rule, i.last_tick, i.into_scheduled_for FROM misfires i
            WHERE i.job_id = s.source_id AND i.first_tick <= e.span_from
              AND i.rule IN ('coalesced', 'skipped', 'capped', 'paused')
            ORDER BY i.first_tick DESC LIMIT 1
        ) n
        WHERE n.last_tick >= e.span_from AND n.rule = 'coalesced'
        UNION ALL
        SELECT i.into_scheduled_for FROM misfires i
        WHERE e.match = 'day' AND i.job_id = s.source_id AND i.rule = 'coalesced'
          AND i.first_tick > e.span_from AND i.first_tick < e.span_until
    ) m
), standing AS (
    SELECT e.job_id, e.match, u.*
    FROM edges e CROSS JOIN LATERAL (
        SELECT u.run_id, u.scheduled_for, u.logical_date, u.created_at, false AS is_coalesced
        FROM runs u
        WHERE e.match = 'tick' AND u.job_id = e.job_id AND u.scheduled_for = e.span_from
          AND u.logical_date = u.scheduled_for
          AND u.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
        UNION ALL
        SELECT u.run_id, u.scheduled_for, u.logical_date, u.created_at, false FROM runs u
        WHERE e.match = 'day' AND u.job_id = e.job_id
          AND u.scheduled_for >= e.span_from AND u.scheduled_for < e.span_until
          AND u.logical_date = u.scheduled_for
          AND u.scheduled_for = date_trunc('second', u.scheduled_for) -- no triggered run is a tick
          AND u.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
        UNION ALL
        SELECT u.run_id, u.scheduled_for, u.logical_date, u.created_at, false
        FROM runs u -- triggered, for a logical date that was named
        WHERE u.job_id = e.job_id AND NOT (u.logical_date = u.scheduled_for)
          AND u.logical_date >= e.span_from
          AND (u.logical_date = e.span_from OR u.logical_date < e.span_until)
          AND u.scheduled_for BETWEEN %(first)s::timestamptz - interval '1 day'
                                  AND %(last)s::timestamptz
        UNION ALL
        SELECT u.run_id, u.scheduled_for, u.logical_date, u.created_at, true
        FROM coalesced c JOIN runs u ON u.job_id = c.job_id
                                    AND u.scheduled_for = c.into_scheduled_for
        WHERE c.job_id = e.job_id
          AND u.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
    ) u
), newest AS (
    SELECT DISTINCT ON (job_id, CASE WHEN match = 'day' THEN logical_date END)
           job_id, run_id, scheduled_for, logical_date
    FROM standing
    ORDER BY job_id, CASE WHEN match = 'day' THEN logical_date END, is_coalesced,
             created_at DESC, run_id DESC
), placed AS (
    SELECT n.*, count(*) OVER (PARTITION BY job_id) AS runs,
           row_number() OVER (PARTITION BY job_id ORDER BY logical_date DESC) AS place
    FROM newest n
), listed AS MATERIALIZED (
    SELECT * FROM placed ORDER BY place, job_id LIMIT %(runs)s
), sized AS (
    SELECT l.*, r.status, r.output, octet_length(r.output::text) AS bytes,
           sum(octet_length(r.output::text)) OVER (ORDER BY l.place, l.job_id) AS so_far
    FROM listed l CROSS JOIN LATERAL (
        SELECT r.status, r.output FROM runs r
        WHERE r.run_id = l.run_id AND r.scheduled_for = l.scheduled_for
          AND r.scheduled_for BETWEEN %(first)s::timestamptz - interval '1 day'
                                  AND %(last)s::timestamptz
        OFFSET 0 -- keeps it a probe for each run, whatever the planner believes of the tables
    ) r
)
SELECT e.job_id, j.name, e.match, s.run_id, s.status, s.scheduled_for, s.logical_date,
       CASE WHEN s.so_far <= %(output_bytes)s THEN s.output::text END AS output,
       s.bytes, s.runs
FROM edges e JOIN jobs j ON j.job_id = e.job_id LEFT JOIN sized s ON s.job_id = e.job_id
ORDER BY j.deleted_at IS NOT NULL, j.name, e.job_id, s.logical_date
