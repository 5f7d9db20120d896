-- Edges between jobs. Writers hold the team's row lock (PROTOCOL 8).

-- name: edges_above
-- Every edge on the way up from these jobs.
WITH RECURSIVE above(job_id, depends_on_job_id) AS (
    SELECT job_id, depends_on_job_id FROM deps WHERE job_id = ANY(%(job_id)s::uuid[])
    UNION
    SELECT d.job_id, d.depends_on_job_id FROM above a JOIN deps d ON d.job_id = a.depends_on_job_id
)
SELECT job_id, depends_on_job_id FROM above

-- name: delete_edges
DELETE FROM deps WHERE job_id = %(job_id)s::uuid
  AND NOT (depends_on_job_id = ANY(%(depends_on_job_id)s::uuid[]))

-- name: upsert_edges
INSERT INTO deps (job_id, depends_on_job_id, match, day_offset)
SELECT %(job_id)s::uuid, * FROM unnest(%(depends_on_job_id)s::uuid[], %(match)s::text[],
                                       %(day_offset)s::smallint[])
ON CONFLICT (job_id, depends_on_job_id)
DO UPDATE SET match = excluded.match, day_offset = excluded.day_offset

-- name: scheduled_without_ticks
-- Scheduled jobs among those below `job_id` (it too) with an upstream that no schedule drives.
WITH RECURSIVE below(job_id) AS (
    SELECT %(job_id)s::uuid
    UNION
    SELECT d.job_id FROM below b JOIN deps d ON d.depends_on_job_id = b.job_id
), pairs AS (
    SELECT j.job_id, j.name, d.depends_on_job_id
    FROM below b JOIN jobs j ON j.job_id = b.job_id JOIN deps d ON d.job_id = j.job_id
    WHERE j.deleted_at IS NULL
      AND (j.schedule IS NOT NULL OR j.run_at IS NOT NULL OR j.every_sec IS NOT NULL)
), above(origin, job_id) AS (
    SELECT DISTINCT depends_on_job_id, depends_on_job_id FROM pairs
    UNION
    SELECT a.origin, d.depends_on_job_id
    FROM above a JOIN jobs j ON j.job_id = a.job_id JOIN deps d ON d.job_id = a.job_id
    WHERE j.schedule IS NULL AND j.run_at IS NULL AND j.every_sec IS NULL
)
SELECT p.job_id, p.name, p.depends_on_job_id, u.name
FROM pairs p JOIN jobs u ON u.job_id = p.depends_on_job_id
WHERE NOT EXISTS (
    SELECT FROM above a JOIN jobs s ON s.job_id = a.job_id
    WHERE a.origin = p.depends_on_job_id
      AND (s.schedule IS NOT NULL OR s.run_at IS NOT NULL OR s.every_sec IS NOT NULL)
)
LIMIT 1

-- name: jobs_around
-- The job's DAG: all above it, and all below it.
WITH RECURSIVE above(job_id) AS (
    SELECT %(job_id)s::uuid
    UNION
    SELECT d.depends_on_job_id FROM above a JOIN deps d ON d.job_id = a.job_id
), below(job_id) AS (
    SELECT %(job_id)s::uuid
    UNION
    SELECT d.job_id FROM below b JOIN deps d ON d.depends_on_job_id = b.job_id
)
SELECT j.job_id FROM (SELECT job_id FROM above UNION SELECT job_id FROM below) n
JOIN jobs j ON j.job_id = n.job_id
WHERE j.deleted_at IS NULL OR j.job_id = %(job_id)s::uuid
LIMIT %(limit)s

-- name: newest_of_spans
-- Of each span of an upstream's ticks the newest run.
SELECT u.run_id, u.scheduled_for
FROM unnest(%(job_id)s::uuid[], %(span_from)s::timestamptz[], %(span_until)s::timestamptz[])
     AS s(job_id, span_from, span_until)
CROSS JOIN LATERAL (
    SELECT r.run_id, r.scheduled_for FROM runs r
    WHERE r.job_id = s.job_id AND r.scheduled_for BETWEEN s.span_from AND s.span_until
      AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
    ORDER BY r.scheduled_for DESC LIMIT 1
) u
