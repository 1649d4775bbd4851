-- name: LockOwner :exec
-- Whoever adds keys of one owner takes turns, so that the limit holds.
SELECT pg_advisory_xact_lock(hashtextextended('ssh_keys ' || sqlc.arg(owner)::text, 0));

-- name: Count :one
SELECT count(*) FROM ssh_keys WHERE user_id = sqlc.narg(user_id) OR project_id = sqlc.narg(project_id);

-- name: Insert :one
INSERT INTO ssh_keys (id, user_id, project_id, name, algorithm, public_key, fingerprint, added_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING *;

-- name: List :many
SELECT * FROM ssh_keys
WHERE (user_id = sqlc.narg(user_id) OR project_id = sqlc.narg(project_id)) AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: Owners :many
SELECT id, user_id, project_id FROM ssh_keys WHERE id = ANY (sqlc.arg(ids)::uuid[]);

-- name: Delete :one
DELETE FROM ssh_keys
WHERE id = sqlc.arg(id) AND (user_id = sqlc.narg(user_id) OR project_id = sqlc.narg(project_id)) RETURNING *;

-- name: Org :one
SELECT org_id FROM projects WHERE id = $1;
