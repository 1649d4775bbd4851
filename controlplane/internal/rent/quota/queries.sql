-- name: ShareTenant :exec
-- Whoever is admitted shares the lock of its tenant until its transaction ends; whoever changes a quota of the tenant
-- waits for them. So a new quota counts what others were adding when it was set.
SELECT pg_advisory_xact_lock_shared(hashtextextended('quotas ' || sqlc.arg(org)::text, 0));

-- name: LockTenant :exec
SELECT pg_advisory_xact_lock(hashtextextended('quotas ' || sqlc.arg(org)::text, 0));

-- name: LockApplying :many
-- In the order of ids, so that two askers cannot wait for each other.
SELECT * FROM quotas
WHERE org_id = sqlc.arg(org_id) AND (project_id IS NULL OR project_id = sqlc.narg(project_id))
  AND sku IN ('', sqlc.arg(sku)::text)
ORDER BY id FOR UPDATE;

-- name: Put :one
INSERT INTO quotas (id, org_id, project_id, sku, gpus, nodes, updated_by) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (org_id, project_id, sku) DO UPDATE
SET gpus = excluded.gpus, nodes = excluded.nodes, updated_by = excluded.updated_by, updated_at = clock_timestamp(),
    version = quotas.version + 1
RETURNING *;

-- name: Delete :one
DELETE FROM quotas
WHERE org_id = sqlc.arg(org_id) AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id)
  AND sku = sqlc.arg(sku)::text
RETURNING *;

-- name: List :many
-- Those of a tenant and of the named projects of it.
SELECT * FROM quotas
WHERE org_id = sqlc.arg(org_id)
  AND (project_id IS NULL OR sqlc.arg(everything)::boolean OR project_id = ANY (sqlc.arg(projects)::uuid[]))
  AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: Org :one
SELECT org_id FROM projects WHERE id = $1;

-- name: TenantExists :one
SELECT EXISTS (SELECT FROM organizations WHERE id = $1);
