-- name: LockMinter :exec
-- One token at a time per caller, so that tokens cannot be made faster than
-- they are counted.
SELECT pg_advisory_xact_lock(hashtextextended('terminal_sessions ' || sqlc.arg(requested_by)::text, 0));

-- name: CountMinted :one
SELECT count(*) FROM terminal_sessions WHERE requested_by = sqlc.arg(requested_by) AND created_at > sqlc.arg(since)::timestamptz;

-- name: Insert :one
INSERT INTO terminal_sessions (id, node_id, username, token_hash, token_expires_at, requested_by, requester_kind, requester_name,
                               window_columns, window_rows, correlation_id, created_at, requester_token, org_id, project_id,
                               allocation_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
RETURNING *;

-- name: Get :one
SELECT * FROM terminal_sessions WHERE id = $1;

-- name: Lock :one
SELECT * FROM terminal_sessions WHERE id = $1 FOR UPDATE;

-- name: Presented :one
-- The session that a token opens, if the token still works.
SELECT * FROM terminal_sessions
WHERE id = sqlc.arg(id) AND token_hash = sqlc.arg(token_hash) AND token_used_at IS NULL
  AND token_expires_at > sqlc.arg(now)::timestamptz AND status = 'issued';

-- name: Use :one
-- Consumes a token: a second caller finds nothing.
UPDATE terminal_sessions
SET token_used_at = sqlc.arg(now)::timestamptz, status = sqlc.arg(status), gateway = sqlc.arg(gateway), seen_at = sqlc.arg(now)::timestamptz
WHERE id = sqlc.arg(id) AND token_hash = sqlc.arg(token_hash) AND token_used_at IS NULL
  AND token_expires_at > sqlc.arg(now)::timestamptz AND status = 'issued'
RETURNING *;

-- name: Opened :one
UPDATE terminal_sessions SET status = sqlc.arg(status), opened_at = sqlc.arg(now)::timestamptz, seen_at = sqlc.arg(now)::timestamptz
WHERE id = sqlc.arg(id)
RETURNING *;

-- name: Ended :one
UPDATE terminal_sessions
SET status = sqlc.arg(status), closed_at = sqlc.arg(now)::timestamptz, close_reason = sqlc.arg(close_reason),
    bytes_in = greatest(bytes_in, sqlc.arg(bytes_in)), bytes_out = greatest(bytes_out, sqlc.arg(bytes_out))
WHERE id = sqlc.arg(id)
RETURNING *;

-- name: Beat :many
-- A replica reports all sessions that it holds. Somebody else has ended those
-- that are not in the answer.
UPDATE terminal_sessions t SET seen_at = sqlc.arg(now)::timestamptz, bytes_in = h.bytes_in, bytes_out = h.bytes_out
FROM (SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(bytes_in)::bigint[]) AS bytes_in, unnest(sqlc.arg(bytes_out)::bigint[]) AS bytes_out) h
WHERE t.id = h.id AND t.status IN ('opening', 'open')
RETURNING t.id;

-- name: Abandoned :many
-- Sessions whose token nobody used, and sessions of replicas that are gone.
SELECT * FROM terminal_sessions
WHERE status IN ('issued', 'opening', 'open')
  AND ((status = 'issued' AND token_expires_at <= sqlc.arg(now)::timestamptz)
       OR (status IN ('opening', 'open') AND seen_at < sqlc.arg(unseen_since)::timestamptz))
ORDER BY id LIMIT sqlc.arg(batch_size)
FOR UPDATE SKIP LOCKED;

-- name: List :many
SELECT * FROM terminal_sessions
WHERE (sqlc.narg(created_before)::timestamptz IS NULL
       OR (created_at, id) < (sqlc.narg(created_before)::timestamptz, sqlc.narg(id_before)::uuid))
  AND (sqlc.narg(node)::uuid IS NULL OR node_id = sqlc.narg(node)::uuid)
  AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status))
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size);
