-- The version of tzdata by which ticks are computed. PROTOCOL 5.

-- name: read_tzdata
SELECT version FROM tzdata

-- name: adopt_tzdata
INSERT INTO tzdata AS held (tzdata_id, version, since)
VALUES (1, %(version)s, clock_timestamp())
ON CONFLICT (tzdata_id) DO UPDATE SET version = excluded.version, since = excluded.since
WHERE held.version COLLATE "C" < excluded.version COLLATE "C"

-- name: claim_outdated
-- Jobs whose version in force was computed by older rules: by a release before, or by a web process
-- that has not been restarted yet.
SELECT j.job_id FROM job_versions v JOIN jobs j ON j.job_id = v.job_id
WHERE v.valid_to IS NULL AND v.change <> 'delete' AND v.tzdata_version < %(version)s
  AND j.deleted_at IS NULL
ORDER BY j.job_id LIMIT %(limit)s
FOR NO KEY UPDATE OF j SKIP LOCKED

-- name: tag_tzdata
UPDATE job_versions SET tzdata_version = %(version)s
WHERE job_id = ANY(%(job_id)s::uuid[]) AND valid_to IS NULL

-- name: settled_until
-- The newest tick of each job of which something is recorded, but not before its version began.
SELECT v.job_id, greatest(
    v.valid_from,
    (SELECT r.scheduled_for FROM runs r
     WHERE r.job_id = v.job_id AND r.trigger = 'schedule'
       AND r.scheduled_for > v.valid_from AND r.scheduled_for <= %(at)s::timestamptz
     ORDER BY r.scheduled_for DESC LIMIT 1),
    (SELECT max(m.last_tick) FROM misfires m
     WHERE m.job_id = v.job_id AND m.rule <> 'dst_gap' AND m.last_tick <= %(at)s::timestamptz))
FROM job_versions v
WHERE v.job_id = ANY(%(job_id)s::uuid[]) AND v.valid_to IS NULL
