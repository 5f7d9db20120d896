-- name: figures
-- How many, up to a bound: each array is cut off where the reader stops caring. No count.
SELECT
    cardinality(ARRAY(SELECT 1 FROM runs WHERE status = 'running'
        AND scheduled_for >= %(floor)s::timestamptz LIMIT %(most)s)) AS running,
    cardinality(ARRAY(SELECT 1 FROM runs WHERE status = 'queued'
        AND scheduled_for >= %(floor)s::timestamptz LIMIT %(most)s)) AS queued,
    cardinality(ARRAY(SELECT 1 FROM runs WHERE status = 'waiting'
        AND scheduled_for >= %(floor)s::timestamptz LIMIT %(most)s)) AS waiting,
    cardinality(ARRAY(SELECT 1 FROM runs WHERE status = 'retrying'
        AND scheduled_for >= %(floor)s::timestamptz LIMIT %(most)s)) AS retrying,
    cardinality(ARRAY(SELECT 1 FROM runs WHERE status = 'dead'
        AND scheduled_for >= statement_timestamp() - interval '24 hours' LIMIT %(most)s)) AS dead,
    cardinality(ARRAY(SELECT 1 FROM workers WHERE state <> 'stopped'
        AND last_seen_at >= statement_timestamp() - make_interval(secs => %(alive_sec)s)))
        AS workers,
    cardinality(ARRAY(SELECT 1 FROM leases WHERE lease_until > statement_timestamp())) AS leases
