-- name: Insert :one
INSERT INTO self_checks (id, requested_by, correlation_id) VALUES ($1, $2, $3) RETURNING *;

-- name: Get :one
SELECT * FROM self_checks WHERE id = $1;

-- name: Lock :one
SELECT * FROM self_checks WHERE id = $1 FOR UPDATE;

-- name: Move :exec
UPDATE self_checks
SET status = sqlc.arg(status), waiting_for = sqlc.arg(waiting_for), steps = sqlc.arg(steps), version = version + 1,
    begun_at = CASE WHEN sqlc.arg(begins)::boolean THEN clock_timestamp() ELSE begun_at END,
    finished_at = CASE WHEN sqlc.arg(finished)::boolean THEN clock_timestamp() END
WHERE id = sqlc.arg(id);

-- name: SetWaitingFor :execrows
-- Returns no row if the check does not run. A repeated step makes no new
-- version.
UPDATE self_checks SET waiting_for = $2, version = version + CASE WHEN waiting_for = $2 THEN 0 ELSE 1 END
WHERE id = $1 AND status = 'running';

-- name: List :many
SELECT * FROM self_checks
WHERE (sqlc.narg(created_before)::timestamptz IS NULL
       OR (created_at, id) < (sqlc.narg(created_before)::timestamptz, sqlc.narg(id_before)::uuid))
  AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status))
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size);
