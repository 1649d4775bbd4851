-- name: Open :exec
INSERT INTO usage_meters (allocation_id, org_id) VALUES ($1, $2);

-- name: Due :many
-- Meters whose allocation has ended, or was not charged for an interval; those of a tenant one after the other.
SELECT m.org_id, m.allocation_id FROM usage_meters m JOIN allocations a ON a.id = m.allocation_id
WHERE m.closed_at IS NULL
  AND (a.release_requested_at IS NOT NULL OR a.status NOT IN ('requested', 'provisioning', 'active')
    OR coalesce(m.charged_until, a.active_at) <= sqlc.arg(not_since)::timestamptz)
  AND (m.org_id, m.allocation_id) > (sqlc.arg(after_org)::uuid, sqlc.arg(after_allocation)::uuid)
ORDER BY m.org_id, m.allocation_id LIMIT sqlc.arg(batch);

-- name: Lock :one
-- Whoever else holds the meter charges it. The allocation is locked, too: a release that is being asked for is waited for, and
-- one that comes later gets a later time. So does a price of a list that the terms follow.
SELECT m.allocation_id, m.org_id, m.charged_until, t.sku_id, t.pricing, t.currency, coalesce(t.price_minor, 0)::bigint AS price_minor, t.paid_share, t.units,
    a.node_id, a.access, a.active_at, a.release_requested_at, a.expires_at, (a.status IN ('requested', 'provisioning', 'active'))::boolean AS live,
    (t.pricing = 'follows_list' AND pg_advisory_xact_lock_shared(hashtextextended('price of ' || t.sku_id, 0)) IS NULL)::boolean AS unlocked
FROM usage_meters m JOIN allocation_terms t ON t.allocation_id = m.allocation_id JOIN allocations a ON a.id = m.allocation_id
WHERE m.allocation_id = $1 AND m.meter = 'held' AND m.closed_at IS NULL
FOR UPDATE OF m SKIP LOCKED FOR SHARE OF a;

-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: AddWindow :exec
INSERT INTO usage_windows (allocation_id, meter, starts_at, ends_at, follows, amount_minor, entry_id) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: Charged :exec
UPDATE usage_meters SET charged_until = $2 WHERE allocation_id = $1 AND meter = 'held';

-- name: Close :exec
UPDATE usage_meters SET closed_at = clock_timestamp() WHERE allocation_id = $1 AND meter = 'held';

-- name: Repairs :many
SELECT r.id, r.reason, r.began_at, r.ended_at FROM allocation_repairs r WHERE r.allocation_id = $1 ORDER BY r.began_at;

-- name: Outages :many
-- Times in which a node was quarantined or silent, from a moment on.
SELECT s.seq, s.to_status, s.began_at, s.ended_at, s.goes_on FROM (
    SELECT e.seq, e.to_status, e.occurred_at AS began_at,
        coalesce(lead(e.occurred_at) OVER (ORDER BY e.seq), statement_timestamp())::timestamptz AS ended_at,
        (lead(e.occurred_at) OVER (ORDER BY e.seq) IS NULL)::boolean AS goes_on
    FROM node_events e
    WHERE e.node_id = sqlc.arg(node_id) AND e.kind = 'state_changed' AND e.seq >= coalesce((SELECT max(b.seq) FROM node_events b
        WHERE b.node_id = sqlc.arg(node_id) AND b.kind = 'state_changed' AND b.occurred_at <= sqlc.arg(since)), 0)) AS s
WHERE s.to_status IN ('quarantined', 'offline') ORDER BY s.seq;

-- name: Given :many
-- The times that were given back: by reliefs, and by corrections of whole charges that stand. A relief that somebody has
-- corrected is among them, so that it is not given again.
SELECT e.window_start::timestamptz AS began_at, e.window_end::timestamptz AS ended_at FROM ledger_entries e
WHERE e.allocation_id = sqlc.arg(allocation_id) AND e.kind = 'relief'
UNION ALL
SELECT e.window_start::timestamptz, e.window_end::timestamptz FROM ledger_entries c JOIN ledger_entries e ON e.id = c.corrects_entry_id
WHERE c.org_id = sqlc.arg(org_id) AND c.kind = 'correction' AND e.allocation_id = sqlc.arg(allocation_id) AND e.kind = 'usage'
  AND ledger_entry_reversed(e.id);
