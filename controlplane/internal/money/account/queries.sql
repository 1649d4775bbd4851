-- name: Get :one
SELECT * FROM billing_accounts WHERE org_id = $1;

-- name: Share :one
-- Until the transaction ends, the account stays, and no price of the SKU begins at once: what is read next holds for all that is
-- agreed in it.
SELECT sqlc.embed(b), (pg_advisory_xact_lock_shared(hashtextextended('price of ' || sqlc.arg(sku)::text, 0)) IS NULL)::boolean AS unlocked,
    clock_timestamp()::timestamptz AS at
FROM billing_accounts b WHERE b.org_id = sqlc.arg(org_id) FOR SHARE;

-- name: Put :one
-- What is left out stays; of a new account it is all of a price, fixed.
INSERT INTO billing_accounts (org_id, currency, paid_share, pricing, updated_by)
VALUES (sqlc.arg(org_id), sqlc.arg(currency), coalesce(sqlc.narg(paid_share)::integer, 10000), coalesce(sqlc.narg(pricing)::text, 'fixed'),
    sqlc.arg(updated_by))
ON CONFLICT (org_id) DO UPDATE
SET currency = excluded.currency, paid_share = coalesce(sqlc.narg(paid_share)::integer, billing_accounts.paid_share),
    pricing = coalesce(sqlc.narg(pricing)::text, billing_accounts.pricing), updated_by = excluded.updated_by,
    updated_at = clock_timestamp(), version = billing_accounts.version + 1
RETURNING *;

-- name: OrgOf :one
SELECT org_id FROM projects WHERE id = $1;

-- name: FreeProject :one
SELECT * FROM billing_free_projects WHERE project_id = $1;

-- name: FreeProjects :many
SELECT * FROM billing_free_projects WHERE org_id = $1 AND project_id > sqlc.arg(after)::uuid ORDER BY project_id LIMIT sqlc.arg(page_size);

-- name: SetFree :one
INSERT INTO billing_free_projects (project_id, org_id, reason, set_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (project_id) DO UPDATE SET reason = excluded.reason, set_by = excluded.set_by
RETURNING *;

-- name: EndFree :one
DELETE FROM billing_free_projects WHERE project_id = $1 RETURNING *;

-- name: Freeze :one
INSERT INTO allocation_terms (allocation_id, org_id, project_id, sku_id, basis, currency, price_id, price_minor, paid_share, units,
    free_because, pricing)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING *;

-- name: Terms :one
SELECT * FROM allocation_terms WHERE allocation_id = sqlc.arg(allocation_id) AND project_id = sqlc.arg(project_id);
