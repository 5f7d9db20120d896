-- name: mark_token_used
-- A request never waits for another one to note the same: the row is skipped when it is locked.
UPDATE api_tokens SET last_used_at = clock_timestamp()
WHERE token_id = (
    SELECT token_id FROM api_tokens
    WHERE token_id = %(token_id)s
      AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')
    FOR NO KEY UPDATE SKIP LOCKED
);
