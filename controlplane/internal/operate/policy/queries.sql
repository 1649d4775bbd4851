-- Applying are the levels that count for a type in a project: for all types first, then for the type; of each the platform's, the tenant's and the project's.
-- name: Applying :many
SELECT * FROM operation_policy_overrides
WHERE operation_type IN (@operation_type::text, '*')
  AND (scope = 'global' OR org_id = sqlc.narg(org_id) AND (project_id IS NULL OR project_id = sqlc.narg(project_id)))
ORDER BY CASE scope WHEN 'global' THEN 1 WHEN 'tenant' THEN 2 ELSE 3 END, operation_type <> '*';

-- name: GetLevel :one
SELECT * FROM operation_policy_overrides
WHERE operation_type = @operation_type AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id)
  AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- LockChain makes those who change policies of the platform, a tenant or its projects go one after the other.
-- name: LockChain :exec
SELECT pg_advisory_xact_lock(hashtextextended('operation policies ' || sqlc.arg(org)::text, 0));

-- name: Put :one
INSERT INTO operation_policy_overrides (operation_type, scope, org_id, project_id, hard_deny, enabled, max_concurrency, timeout_seconds,
    allowed_artifact_sources, allowed_target_kinds, require_signature_verification, max_artifact_size_bytes, reason, updated_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (operation_type, org_id, project_id) DO UPDATE
SET hard_deny = excluded.hard_deny, enabled = excluded.enabled, max_concurrency = excluded.max_concurrency,
    timeout_seconds = excluded.timeout_seconds, allowed_artifact_sources = excluded.allowed_artifact_sources,
    allowed_target_kinds = excluded.allowed_target_kinds,
    require_signature_verification = excluded.require_signature_verification,
    max_artifact_size_bytes = excluded.max_artifact_size_bytes, reason = excluded.reason, updated_by = excluded.updated_by,
    updated_at = clock_timestamp(), version = operation_policy_overrides.version + 1
RETURNING *;

-- name: Remove :execrows
DELETE FROM operation_policy_overrides
WHERE operation_type = @operation_type AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id)
  AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: ListLevel :many
SELECT * FROM operation_policy_overrides
WHERE org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id)
  AND operation_type > @after::text
ORDER BY operation_type
LIMIT @page_size;

-- name: TypeExists :one
SELECT EXISTS (SELECT FROM operation_definitions WHERE type = $1);

-- name: Org :one
SELECT org_id FROM projects WHERE id = $1;

-- name: TenantExists :one
SELECT EXISTS (SELECT FROM organizations WHERE id = $1);

-- LockDocuments makes those who add or activate policy documents go one after the other.
-- name: LockDocuments :exec
SELECT pg_advisory_xact_lock(hashtextextended('operation policy documents', 0));

-- name: NewestDocument :one
SELECT * FROM operation_policy_documents ORDER BY version DESC LIMIT 1;

-- name: InsertDocument :one
INSERT INTO operation_policy_documents (version, title, document, digest, created_by) VALUES ($1, $2, $3, $4, $5) RETURNING *;

-- name: GetDocument :one
SELECT * FROM operation_policy_documents WHERE version = $1;

-- name: ListDocuments :many
SELECT * FROM operation_policy_documents WHERE sqlc.narg(before)::bigint IS NULL OR version < sqlc.narg(before)
ORDER BY version DESC LIMIT sqlc.arg(page_size);

-- name: InsertActivation :exec
INSERT INTO operation_policy_activations (version, reason, created_by) VALUES (sqlc.narg(version), $1, $2);

-- ActiveDocument is the version that counts, without its text; its version is 0 if none does.
-- name: ActiveDocument :one
SELECT COALESCE(d.version, 0)::bigint AS version, COALESCE(d.title, '')::text AS title, COALESCE(d.digest, '')::text AS digest,
    a.reason, a.created_at, a.created_by
FROM operation_policy_activations a LEFT JOIN operation_policy_documents d ON d.version = a.version ORDER BY a.id DESC LIMIT 1;
