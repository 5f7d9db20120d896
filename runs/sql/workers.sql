-- What a worker says of itself, and asks between its heartbeats.

-- name: touch_worker
INSERT INTO workers (worker_id, name, hostname, pid, pools, concurrency, version, state, running,
                     started_at, last_seen_at)
VALUES (%(worker_id)s, %(name)s, %(hostname)s, %(pid)s, %(pools)s, %(concurrency)s, %(version)s,
        %(state)s, %(running)s, clock_timestamp(), clock_timestamp())
ON CONFLICT (worker_id) DO UPDATE
SET state = excluded.state, running = excluded.running, last_seen_at = clock_timestamp()

-- name: cancels_asked
-- Which of these attempts are to be cancelled; asked each second, so it writes nothing.
SELECT r.run_id, r.attempt FROM runs r
WHERE r.run_id = ANY(%(run_id)s::uuid[]) AND r.cancel_requested_at IS NOT NULL
  AND r.status = 'running' AND r.claim_id = ANY(%(claim_id)s::uuid[])
  AND r.scheduled_for BETWEEN %(first)s::timestamptz AND %(last)s::timestamptz
