-- name: claim_key
-- A row comes back when the key is new, its day is over, or its first request died a minute ago.
INSERT INTO idempotency_keys AS held (owner, key, request_hash, created_at)
VALUES (%(owner)s, %(key)s, %(request_hash)s, clock_timestamp())
ON CONFLICT (owner, key) DO UPDATE
SET request_hash = EXCLUDED.request_hash, created_at = EXCLUDED.created_at,
    status_code = NULL, response = NULL
WHERE held.created_at < clock_timestamp() - make_interval(hours => %(keep_hours)s)
   OR (
        held.status_code IS NULL
        AND held.request_hash = EXCLUDED.request_hash
        AND held.created_at < clock_timestamp() - make_interval(secs => %(abandoned_sec)s)
   )
RETURNING idempotency_key_id, created_at;

-- name: read_key
SELECT request_hash, status_code, response FROM idempotency_keys
WHERE owner = %(owner)s AND key = %(key)s;

-- name: keep_answer
-- created_at is the fence: a claim that was taken over keeps nothing.
UPDATE idempotency_keys SET status_code = %(status_code)s, response = %(response)s::jsonb
WHERE idempotency_key_id = %(key_id)s AND created_at = %(created_at)s AND status_code IS NULL;

-- name: release_key
DELETE FROM idempotency_keys
WHERE idempotency_key_id = %(key_id)s AND created_at = %(created_at)s AND status_code IS NULL;
