-- name: LastRun :one
SELECT last_run_at FROM pruning;

-- name: NoteRun :exec
UPDATE pruning SET last_run_at = sqlc.arg(at)::timestamptz;

-- name: ClaimRun :execrows
-- Of all workers, one takes a run that is due.
UPDATE pruning SET last_run_at = sqlc.arg(at)::timestamptz
WHERE last_run_at IS NULL OR last_run_at <= sqlc.arg(due)::timestamptz;
