-- name: Insert :one
INSERT INTO skus (id, display_name, gpu_vendor, gpu_model, gpus_total, capacity_shape, allowed_counts, price_minor, price_currency, hardware,
    user_access_only)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING *;

-- Prices are rows of their own; the column is what releases know that know no prices.
-- name: Get :one
SELECT sqlc.embed(skus), coalesce(sku_price(skus.id, skus.price_currency), skus.price_minor)::bigint AS price FROM skus WHERE id = $1 AND deleted_at IS NULL;

-- name: Share :one
SELECT sqlc.embed(skus), coalesce(sku_price(skus.id, skus.price_currency), skus.price_minor)::bigint AS price FROM skus WHERE id = $1 AND deleted_at IS NULL FOR SHARE;

-- name: Lock :one
SELECT sqlc.embed(skus), coalesce(sku_price(skus.id, skus.price_currency), skus.price_minor)::bigint AS price FROM skus WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: List :many
SELECT sqlc.embed(skus), coalesce(sku_price(skus.id, skus.price_currency), skus.price_minor)::bigint AS price FROM skus
WHERE deleted_at IS NULL AND id > sqlc.arg(after)::text AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status))
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: Update :one
UPDATE skus SET display_name = $2, gpu_vendor = $3, gpu_model = $4, gpus_total = $5, capacity_shape = $6, allowed_counts = $7,
    -- Left alone unless somebody changed it: what was read may be a price that another one has just replaced.
    price_minor = CASE WHEN sqlc.arg(priced)::boolean THEN $8 ELSE price_minor END, price_currency = $9, status = $10, hardware = $11, user_access_only = $12, version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: Delete :one
UPDATE skus SET deleted_at = clock_timestamp(), status = 'disabled', version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: NodesOf :one
SELECT count(*) FROM nodes WHERE sku_id = $1 AND status <> 'deleted';
