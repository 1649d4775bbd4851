-- name: LockOwner :exec
SELECT pg_advisory_xact_lock(hashtextextended('artifacts ' || sqlc.arg(owner)::text, 0));

-- name: OrgOfProject :one
SELECT org_id FROM projects WHERE id = $1;

-- name: TenantExists :one
SELECT EXISTS (SELECT FROM organizations WHERE id = $1);

-- name: Count :one
SELECT count(*) FROM artifacts
WHERE org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id)
  AND status <> 'retired';

-- name: Insert :one
INSERT INTO artifacts (id, org_id, project_id, name, kind, source, digest, size, media_type, artifact_type, layers,
    platforms, labels, signature, signature_format, signature_reason, key_id, created_by, updated_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $18) RETURNING *;

-- name: Get :one
-- What an owner may see: its own, its tenant's and the platform's.
SELECT * FROM artifacts
WHERE id = sqlc.arg(id) AND (org_id IS NULL OR org_id = sqlc.narg(org_id)
    AND (project_id IS NULL OR project_id = sqlc.narg(project_id)));

-- name: Lock :one
-- Only the owner itself changes one.
SELECT * FROM artifacts
WHERE id = sqlc.arg(id) AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id)
  AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id) FOR NO KEY UPDATE;

-- name: List :many
SELECT * FROM artifacts
WHERE (org_id IS NULL OR org_id = sqlc.narg(org_id) AND (project_id IS NULL OR project_id = sqlc.narg(project_id)))
  AND (sqlc.arg(name)::text = '' OR name = sqlc.arg(name)::text)
  AND (sqlc.arg(status)::text = '' OR status = sqlc.arg(status)::text)
  AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: NoteCheck :one
UPDATE artifacts SET signature = $2, signature_format = $3, signature_reason = $4, key_id = $5,
    checked_at = clock_timestamp(), updated_at = clock_timestamp(), updated_by = $6, version = version + 1
WHERE id = $1 RETURNING *;

-- name: Move :one
UPDATE artifacts SET status = $2, status_reason = $3, updated_at = clock_timestamp(), updated_by = $4, version = version + 1
WHERE id = $1 RETURNING *;

-- name: Standing :many
-- What is known of digests, as far as an owner may know it. A signature counts as long as its key does.
SELECT a.digest, bool_or(a.status = 'revoked')::boolean AS revoked,
    coalesce(bool_or(a.status IN ('active', 'deprecated') AND a.signature = 'verified' AND k.withdrawn_at IS NULL
        AND k.not_before <= statement_timestamp() AND statement_timestamp() < k.not_after), false)::boolean AS signed,
    coalesce(max(a.status_reason) FILTER (WHERE a.status = 'revoked'), '')::text AS because
FROM artifacts a LEFT JOIN artifact_keys k ON k.id = a.key_id
WHERE a.digest = ANY (sqlc.arg(digests)::text[])
  AND (a.org_id IS NULL OR a.org_id = sqlc.narg(org_id)
       AND (a.project_id IS NULL OR a.project_id = sqlc.narg(project_id)))
GROUP BY a.digest ORDER BY a.digest;

-- name: CountKeys :one
SELECT count(*) FROM artifact_keys WHERE org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND withdrawn_at IS NULL;

-- name: InsertKey :one
INSERT INTO artifact_keys (id, org_id, name, pem, fingerprint, algorithm, repositories, not_before, not_after, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING *;

-- name: ListKeys :many
SELECT * FROM artifact_keys
WHERE org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: TrustedKeys :many
-- Keys that count for an owner now: its tenant's and the platform's.
SELECT * FROM artifact_keys
WHERE (org_id IS NULL OR org_id = sqlc.narg(org_id)) AND withdrawn_at IS NULL
  AND not_before <= statement_timestamp() AND statement_timestamp() < not_after
ORDER BY id;

-- name: LockKey :one
SELECT * FROM artifact_keys
WHERE id = sqlc.arg(id) AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id) FOR NO KEY UPDATE;

-- name: WithdrawKey :one
UPDATE artifact_keys SET withdrawn_at = clock_timestamp(), withdrawn_by = $2, withdrawn_because = $3
WHERE id = $1 RETURNING *;
