-- name: SKUExists :one
SELECT EXISTS (SELECT FROM skus WHERE id = $1 AND deleted_at IS NULL);

-- name: Begin :exec
-- Whoever agrees on a price of the SKU at this moment is waited for, so that a price holds from when it can be seen.
SELECT pg_advisory_xact_lock(hashtextextended('price of ' || sqlc.arg(sku)::text, 0));

-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: Followers :one
-- How many allocations go on whose price follows the list.
SELECT sku_price_followers(sqlc.arg(sku)::text, sqlc.arg(currency)::text)::bigint;

-- name: SKUOf :one
SELECT sku_id FROM sku_prices WHERE id = $1;

-- name: Spans :many
-- The list of a SKU and a meter in a currency: each price from its first whole second on.
SELECT begins, price_id, price_minor FROM sku_price_spans WHERE sku_id = $1 AND meter = $2 AND currency = $3 ORDER BY begins;

-- name: Insert :one
INSERT INTO sku_prices (id, sku_id, meter, currency, price_minor, valid_from, reason, set_by)
VALUES (sqlc.arg(id), sqlc.arg(sku_id), sqlc.arg(meter), sqlc.arg(currency), sqlc.arg(price_minor),
    coalesce(sqlc.narg(valid_from)::timestamptz, clock_timestamp()), sqlc.arg(reason), sqlc.arg(set_by))
RETURNING *;

-- name: Delete :one
DELETE FROM sku_prices WHERE id = $1 RETURNING *;

-- name: InForce :one
SELECT * FROM sku_prices
WHERE sku_id = $1 AND meter = $2 AND currency = $3 AND valid_from <= statement_timestamp()
ORDER BY valid_from DESC LIMIT 1;

-- name: List :many
-- By SKU, currency and meter, the newest first.
SELECT sqlc.embed(p), n.valid_from AS valid_until,
    (p.valid_from <= statement_timestamp() AND (n.valid_from IS NULL OR n.valid_from > statement_timestamp()))::boolean AS in_force
FROM sku_prices p
LEFT JOIN sku_prices n ON n.sku_id = p.sku_id AND n.meter = p.meter AND n.currency = p.currency AND n.valid_from =
    (SELECT min(m.valid_from) FROM sku_prices m
     WHERE m.sku_id = p.sku_id AND m.meter = p.meter AND m.currency = p.currency AND m.valid_from > p.valid_from)
WHERE (sqlc.arg(sku)::text = '' OR p.sku_id = sqlc.arg(sku)) AND (sqlc.arg(currency)::text = '' OR p.currency = sqlc.arg(currency))
  AND ((p.sku_id, p.currency, p.meter) > (sqlc.arg(after_sku)::text, sqlc.arg(after_currency)::text, sqlc.arg(after_meter)::text)
    OR p.sku_id = sqlc.arg(after_sku)::text AND p.currency = sqlc.arg(after_currency)::text AND p.meter = sqlc.arg(after_meter)::text
        AND p.valid_from < sqlc.arg(after_from)::timestamptz)
ORDER BY p.sku_id, p.currency, p.meter, p.valid_from DESC LIMIT sqlc.arg(page_size);
