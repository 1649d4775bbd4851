-- name: GetVersion :one
SELECT * FROM operation_definition_versions WHERE type = $1 AND version = $2;

-- name: LockVersion :one
SELECT * FROM operation_definition_versions WHERE type = $1 AND version = $2 FOR UPDATE;

-- ShareVersion holds off whoever would change or retire the version until the transaction ends.
-- name: ShareVersion :one
SELECT * FROM operation_definition_versions WHERE type = $1 AND version = $2 FOR SHARE;

-- Newest is the newest version that can be run; active ones come before deprecated ones.
-- name: Newest :one
SELECT * FROM operation_definition_versions WHERE type = $1 AND status IN ('active', 'deprecated')
ORDER BY status = 'active' DESC, number DESC LIMIT 1;

-- name: PutType :exec
INSERT INTO operation_definitions (type, created_by) VALUES ($1, $2) ON CONFLICT (type) DO NOTHING;

-- LockType makes those who install versions of a type go one after the other.
-- name: LockType :exec
SELECT pg_advisory_xact_lock(hashtextextended('operation definition ' || @type::text, 0));

-- name: InsertVersion :one
INSERT INTO operation_definition_versions (type, version, number, status, document, digest, origin, created_by, updated_by, activated_at)
VALUES (@type, @version, @number, @status::text, @document, @digest, @origin, @by_whom, @by_whom,
    CASE WHEN @status::text = 'active' THEN clock_timestamp() END)
RETURNING *;

-- name: ReplaceDraft :one
UPDATE operation_definition_versions
SET document = @document, digest = @digest, updated_by = @by_whom, updated_at = clock_timestamp(), revision = revision + 1
WHERE type = @type AND version = @version AND status = 'draft'
RETURNING *;

-- name: MoveVersion :one
UPDATE operation_definition_versions
SET status = @status::text, status_reason = @reason, updated_by = @by_whom, updated_at = clock_timestamp(), revision = revision + 1,
    activated_at = CASE WHEN @status::text = 'active' THEN coalesce(activated_at, clock_timestamp()) ELSE activated_at END
WHERE type = @type AND version = @version
RETURNING *;

-- name: ListVersions :many
SELECT * FROM operation_definition_versions
WHERE (sqlc.narg(type)::text IS NULL OR type = sqlc.narg(type))
  AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status))
  AND (NOT @only_runnable::boolean OR status IN ('active', 'deprecated'))
  AND (type > @after_type::text OR type = @after_type::text AND number < @after_number::bigint)
ORDER BY type, number DESC
LIMIT @page_size;
