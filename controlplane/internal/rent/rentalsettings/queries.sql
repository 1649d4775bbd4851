-- Applying are the settings of a tenant and of one of its projects, the tenant's first.
-- name: Applying :many
SELECT * FROM rental_settings
WHERE org_id = sqlc.arg(org_id) AND (project_id IS NULL OR project_id = sqlc.narg(project_id))
ORDER BY project_id NULLS FIRST;

-- LockTenant makes those who change settings of a tenant or its projects go one after the other.
-- name: LockTenant :exec
SELECT pg_advisory_xact_lock(hashtextextended('rental settings ' || sqlc.arg(org)::text, 0));

-- name: Put :one
INSERT INTO rental_settings (org_id, project_id, default_expiry, max_expiry, root_access, updated_by) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (org_id, project_id) DO UPDATE
SET default_expiry = excluded.default_expiry, max_expiry = excluded.max_expiry, root_access = excluded.root_access,
    updated_by = excluded.updated_by, updated_at = clock_timestamp(), version = rental_settings.version + 1
RETURNING *;

-- name: Org :one
SELECT org_id FROM projects WHERE id = $1;

-- name: TenantExists :one
SELECT EXISTS (SELECT FROM organizations WHERE id = $1);
