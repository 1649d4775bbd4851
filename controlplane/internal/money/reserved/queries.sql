-- name: Alone :exec
-- Whoever reserves for a tenant or charges what it has reserved of a SKU does so one after the other: no reservation begins in a time
-- that is charged.
SELECT pg_advisory_xact_lock(hashtextextended('reserved of ' || sqlc.arg(sku)::text || ' by ' || sqlc.arg(org)::text, 0));

-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: Freeze :exec
INSERT INTO reservation_terms (reservation_id, org_id, project_id, sku_id, region_code, nodes, starts_at, ends_at, currency, price_id, price_minor,
    paid_share, units)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: Open :exec
INSERT INTO reservation_meters (reservation_id, org_id) VALUES ($1, $2);

-- name: Due :many
-- Meters whose reservation has ended, or was not charged for an interval; those of a tenant one after the other.
SELECT m.org_id, m.reservation_id FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
WHERE m.closed_at IS NULL
  AND (reservation_end(t) <= sqlc.arg(now)::timestamptz OR coalesce(m.charged_until, t.starts_at) <= sqlc.arg(not_since)::timestamptz)
  AND (m.org_id, m.reservation_id) > (sqlc.arg(after_org)::uuid, sqlc.arg(after_reservation)::uuid)
ORDER BY m.org_id, m.reservation_id LIMIT sqlc.arg(batch);

-- name: Lock :one
-- Whoever else holds the meter charges it, or looks at it. The reservation is locked, too: a cancellation that is being asked for is
-- waited for, and one that comes later gets a later time.
SELECT t.org_id, t.sku_id FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
    JOIN reservations r ON r.id = m.reservation_id
WHERE m.reservation_id = $1 AND m.closed_at IS NULL FOR UPDATE OF m SKIP LOCKED FOR SHARE OF r;

-- name: LockUses :exec
-- Whoever begins or ends the use of a node at this moment is waited for; who comes later gets a later time.
SELECT 1 FROM allocations WHERE org_id = $1 AND sku_id = $2 AND status NOT IN ('released', 'failed') ORDER BY id FOR SHARE;

-- name: Read :one
SELECT t.org_id, t.currency, t.starts_at, reservation_end(t)::timestamptz AS ends_at, m.charged_until, coalesce(w.until_micros, 0)::bigint AS micros
FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
    LEFT JOIN reservation_windows w ON w.reservation_id = m.reservation_id AND w.ends_at = m.charged_until
WHERE m.reservation_id = $1;

-- name: Rate :one
-- What a window of a reservation comes to, after what was charged before it.
SELECT x.until_micros::bigint AS until_micros, (reserved_cost(t, x.until_micros) - reserved_cost(t, sqlc.arg(since_micros)::bigint))::bigint AS amount_minor
FROM reservation_terms t, LATERAL (SELECT sqlc.arg(since_micros)::bigint
    + reserved_micros(t, sqlc.arg(starts_at)::timestamptz, sqlc.arg(ends_at)::timestamptz) AS until_micros) x
WHERE t.reservation_id = sqlc.arg(reservation_id);

-- name: AddWindow :exec
INSERT INTO reservation_windows (reservation_id, starts_at, ends_at, follows, since_micros, until_micros, amount_minor, entry_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: Charged :exec
UPDATE reservation_meters SET charged_until = $2 WHERE reservation_id = $1;

-- name: Close :exec
UPDATE reservation_meters SET closed_at = clock_timestamp() WHERE reservation_id = $1;

-- name: Running :many
-- Who has reservations that are charged and run, by SKU.
SELECT DISTINCT t.sku_id, t.org_id FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
WHERE m.closed_at IS NULL AND t.starts_at <= sqlc.arg(now)::timestamptz AND reservation_end(t) > sqlc.arg(now)::timestamptz
ORDER BY t.sku_id, t.org_id;

-- name: LockOf :many
-- All that somebody has reserved of a SKU, as Lock does for one. A charge that has one of them is waited for: it never waits for another.
SELECT m.reservation_id FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
    JOIN reservations r ON r.id = m.reservation_id
WHERE m.org_id = sqlc.arg(org_id) AND t.sku_id = sqlc.arg(sku_id) AND m.closed_at IS NULL
ORDER BY m.reservation_id FOR UPDATE OF m FOR SHARE OF r;

-- name: Judge :many
-- Of reservations of one owner and SKU that run, in the order in which nodes are dealt to them: what is not used, what was lacking
-- until now, and of each kind of nodes in use whether it could be dealt to it.
SELECT t.reservation_id, t.nodes, n.unused, n.short, coalesce(u.kind, 0)::bigint AS kind, coalesce(u.nodes, 0)::bigint AS in_use,
    coalesce(reserved_fits(t, u.project_id, u.region_code), false)::boolean AS fits
FROM reservation_terms t CROSS JOIN LATERAL (SELECT reserved_unused(t, sqlc.arg(at)::timestamptz)::bigint AS unused, coalesce((SELECT s.nodes
        FROM reservation_shortages s WHERE s.reservation_id = t.reservation_id AND s.ended_at IS NULL), 0)::bigint AS short OFFSET 0) n
    LEFT JOIN (SELECT i.project_id, i.region_code, i.nodes, row_number() OVER (ORDER BY i.project_id, i.region_code) AS kind
        FROM reserved_in_use(sqlc.arg(org_id)::uuid, sqlc.arg(sku_id)::text, sqlc.arg(at)::timestamptz) AS i (project_id, region_code, nodes)) u ON true
WHERE t.reservation_id = ANY (sqlc.arg(reservations)::uuid[]) AND t.starts_at <= sqlc.arg(at)::timestamptz
    AND reservation_end(t) > sqlc.arg(at)::timestamptz
ORDER BY t.project_id IS NULL, t.region_code = '', t.starts_at, t.reservation_id, kind;

-- name: EndShortage :exec
UPDATE reservation_shortages SET ended_at = sqlc.arg(at)::timestamptz WHERE reservation_id = sqlc.arg(reservation_id) AND ended_at IS NULL;

-- name: BeginShortage :exec
INSERT INTO reservation_shortages (reservation_id, began_at, nodes) VALUES ($1, $2, $3);

-- name: Costs :many
-- What reservations are charged for, and what they have cost until a moment.
SELECT t.reservation_id, t.currency, t.price_id, t.price_minor, t.paid_share, t.units, reserved_nodes(t, sqlc.arg(at)::timestamptz)::bigint AS unused,
    reserved_cost(t, reserved_until(t, sqlc.arg(at)::timestamptz))::bigint AS cost_minor, ceil(reserved_rate(t, sqlc.arg(at)::timestamptz) / 10000)::bigint AS hour_minor
FROM reservation_terms t WHERE t.reservation_id = ANY (sqlc.arg(reservations)::uuid[]);
