-- name: Lock :one
-- Whoever lets something to a tenant, or changes how far it may go, does so one after the other.
SELECT org_id FROM balances WHERE org_id = $1 FOR NO KEY UPDATE;

-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: Put :one
INSERT INTO balances (org_id, payment, credit_line_minor, low_minor, low_seconds, release_seconds, rearm_percent, grace_seconds, updated_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (org_id) DO UPDATE
SET payment = excluded.payment, credit_line_minor = excluded.credit_line_minor, low_minor = excluded.low_minor,
    low_seconds = excluded.low_seconds, release_seconds = excluded.release_seconds, rearm_percent = excluded.rearm_percent,
    grace_seconds = excluded.grace_seconds, updated_by = excluded.updated_by, updated_at = clock_timestamp(),
    version = balances.version + 1
RETURNING *;

-- name: Move :exec
UPDATE balances SET status = $2, since = $3, entered_rate = $4 WHERE org_id = $1;

-- name: Look :one
-- What a tenant with an account has, uses and has set aside, in one statement: a charge that is booked meanwhile is seen whole or
-- not at all. It is of the moment in which it is asked for, unless somebody says another one. OFFSET 0: what is computed of an
-- allocation is computed once, and a hold is looked for only where it still counts. What most tenants do not have is not computed for
-- them: prices of the list, and reservations.
SELECT acc.currency, now.at::timestamptz AS at, (u.accrued + v.unused[1])::bigint AS accrued_minor, u.held_minor,
    ceil((u.rate + v.unused[2]) / 10000)::bigint AS burn_minor, (u.rate + v.unused[2])::text AS rate, u.live, (v.unused[3])::bigint AS reserved,
    (b.org_id IS NOT NULL)::boolean AS limited, coalesce(b.payment, '')::text AS payment, b.credit_line_minor, coalesce(b.low_minor, 0)::bigint AS low_minor,
    coalesce(b.low_seconds, 0)::bigint AS low_seconds, coalesce(b.release_seconds, 0)::bigint AS release_seconds,
    coalesce(b.rearm_percent, 0)::integer AS rearm_percent, coalesce(b.grace_seconds, 0)::bigint AS grace_seconds,
    coalesce(b.status::text, '')::text AS status, coalesce(b.since, acc.created_at)::timestamptz AS since, coalesce(b.version, 0)::bigint AS version,
    coalesce(b.entered_rate::text, '')::text AS entered_rate,
    coalesce((SELECT l.balance_minor FROM ledger_balances l WHERE l.org_id = acc.org_id AND l.account = 'tenant'), 0)::bigint AS posted_minor
FROM billing_accounts acc LEFT JOIN balances b ON b.org_id = acc.org_id, LATERAL (SELECT coalesce(sqlc.narg(at)::timestamptz, statement_timestamp()) AS at OFFSET 0) AS now, LATERAL (
    SELECT coalesce(sum(c.accrued), 0) AS accrued,
        coalesce(sum(greatest(coalesce(c.hold, 0) - c.accrued, 0)) FILTER (WHERE c.live), 0)::bigint AS held_minor,
        coalesce(sum(c.rate) FILTER (WHERE c.live AND c.active_at IS NOT NULL), 0) AS rate,
        count(*) FILTER (WHERE c.live AND c.rate > 0) AS live
    FROM (
        SELECT a.active_at, r.rate,
            a.status IN ('requested', 'provisioning', 'active') AND a.release_requested_at IS NULL
                AND coalesce(a.expires_at > now.at, true) AS live,
            CASE WHEN m.charged_until IS NULL THEN (SELECT h.amount_minor FROM balance_holds h WHERE h.allocation_id = m.allocation_id) END AS hold,
            CASE WHEN a.active_at IS NULL THEN 0
                WHEN t.pricing = 'fixed' THEN usage_cost(r.rate, a.active_at, r.until) - usage_cost(r.rate, a.active_at, coalesce(m.charged_until, a.active_at))
                ELSE allocation_cost(t, a.active_at, r.until) - allocation_cost(t, a.active_at, coalesce(m.charged_until, a.active_at)) END AS accrued
        FROM usage_meters m JOIN allocation_terms t ON t.allocation_id = m.allocation_id JOIN allocations a ON a.id = m.allocation_id,
            LATERAL (SELECT CASE WHEN t.pricing = 'fixed' THEN coalesce(t.price_minor, 0)::numeric * t.paid_share * t.units
                ELSE allocation_rate(t, now.at) END AS rate, least(coalesce(a.release_requested_at, now.at), now.at, a.expires_at) AS until OFFSET 0) AS r
        WHERE m.org_id = acc.org_id AND m.closed_at IS NULL OFFSET 0) AS c) AS u,
    LATERAL (SELECT CASE WHEN EXISTS (SELECT FROM reservation_meters rm WHERE rm.org_id = acc.org_id AND rm.closed_at IS NULL)
        THEN reserved_standing(acc.org_id, now.at) ELSE '{0,0,0}' END AS unused OFFSET 0) AS v
WHERE acc.org_id = sqlc.arg(org_id);

-- name: Standings :many
-- The same as Look for all tenants that are held to a limit. Each list of prices is read once; OFFSET 0: and so is what is
-- computed of an allocation.
WITH lists AS MATERIALIZED (
    SELECT p.sku_id, p.currency, p.begins, p.prices, p.bases FROM sku_price_lists p WHERE p.meter = 'held'
)
SELECT sqlc.embed(b), (coalesce(u.accrued, 0) + r.unused[1])::bigint AS accrued_minor, coalesce(u.held, 0)::bigint AS held_minor,
    ceil((coalesce(u.burn, 0) + r.unused[2]) / 10000)::bigint AS burn_minor, (coalesce(u.burn, 0) + r.unused[2])::text AS rate, coalesce(u.live, 0)::bigint AS live,
    (r.unused[3])::bigint AS reserved,
    coalesce(l.balance_minor, 0)::bigint AS posted_minor
FROM balances b LEFT JOIN ledger_balances l ON l.org_id = b.org_id AND l.account = 'tenant'
LEFT JOIN (
    SELECT v.org_id, sum(v.accrued) AS accrued, sum(CASE WHEN v.live THEN greatest(coalesce(v.hold, 0) - v.accrued, 0) ELSE 0 END) AS held,
        sum(CASE WHEN v.live AND v.active_at IS NOT NULL THEN v.rate ELSE 0 END) AS burn, count(*) FILTER (WHERE v.live AND v.rate > 0) AS live
    FROM (
        SELECT m.org_id, a.active_at, r.rate, h.amount_minor AS hold,
            a.status IN ('requested', 'provisioning', 'active') AND a.release_requested_at IS NULL
                AND coalesce(a.expires_at > sqlc.arg(at)::timestamptz, true) AS live,
            CASE WHEN a.active_at IS NULL THEN 0 ELSE
                CASE WHEN t.pricing = 'fixed' THEN usage_cost(r.rate, a.active_at, r.until) - usage_cost(r.rate, a.active_at, coalesce(m.charged_until, a.active_at))
                ELSE list_between(l.begins, l.prices, l.bases, r.share, r.origin,
                    list_moment(a.active_at, coalesce(m.charged_until, a.active_at)), r.listed_until) END
            END AS accrued
        FROM usage_meters m JOIN allocation_terms t ON t.allocation_id = m.allocation_id JOIN allocations a ON a.id = m.allocation_id
            LEFT JOIN balance_holds h ON h.allocation_id = m.allocation_id AND m.charged_until IS NULL
            LEFT JOIN lists l ON t.pricing = 'follows_list' AND l.sku_id = t.sku_id AND l.currency = t.currency,
            LATERAL (SELECT least(coalesce(a.release_requested_at, sqlc.arg(at)::timestamptz), sqlc.arg(at)::timestamptz, a.expires_at) AS until,
                list_moment(CASE WHEN t.pricing = 'follows_list' THEN a.active_at END, a.active_at) AS origin,
                list_moment(CASE WHEN t.pricing = 'follows_list' THEN a.active_at END, least(coalesce(a.release_requested_at, sqlc.arg(at)::timestamptz), sqlc.arg(at)::timestamptz, a.expires_at)) AS listed_until,
                t.paid_share::numeric * t.units AS share,
                CASE WHEN t.pricing = 'fixed' THEN coalesce(t.price_minor, 0) ELSE list_price_in(l.begins, l.prices, sqlc.arg(at)::timestamptz) END
                    ::numeric * t.paid_share * t.units AS rate OFFSET 0) AS r
        WHERE m.closed_at IS NULL) AS v
    GROUP BY v.org_id) AS u ON u.org_id = b.org_id
    CROSS JOIN LATERAL (SELECT reserved_standing(b.org_id, sqlc.arg(at)::timestamptz) AS unused OFFSET 0) AS r
WHERE b.credit_line_minor IS NOT NULL;

-- name: Limited :many
SELECT org_id FROM balances WHERE credit_line_minor IS NOT NULL ORDER BY org_id;

-- name: Hold :exec
INSERT INTO balance_holds (allocation_id, org_id, amount_minor) VALUES ($1, $2, $3);

-- name: Releasable :many
-- What costs a tenant something, in the order in which it is released: the newest first, and what is protected last.
SELECT a.id FROM allocations a JOIN allocation_terms t ON t.allocation_id = a.id
WHERE a.org_id = sqlc.arg(org_id) AND a.status IN ('requested', 'provisioning', 'active') AND a.release_requested_at IS NULL
  AND allocation_rate(t, sqlc.arg(at)::timestamptz) > 0
ORDER BY a.protected, a.created_at DESC, a.id DESC;

-- name: Endable :many
-- Reservations that cost a tenant something now, the newest first.
SELECT t.reservation_id FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
WHERE m.org_id = sqlc.arg(org_id) AND m.closed_at IS NULL AND reserved_rate(t, sqlc.arg(at)::timestamptz) > 0
ORDER BY t.frozen_at DESC, t.reservation_id DESC;

-- name: ReservationEnded :execrows
INSERT INTO balance_reservation_ends (reservation_id, org_id, reason) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: Released :execrows
INSERT INTO balance_releases (allocation_id, org_id, reason) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: Count :many
SELECT status::text AS status, count(*) AS balances FROM balances GROUP BY 1;

-- name: Uncharged :one
-- For how many seconds the oldest time of an allocation or a reservation waits to be charged; 0: none does.
SELECT coalesce(greatest(extract(epoch FROM clock_timestamp() - least(
    (SELECT min(coalesce(m.charged_until, a.active_at)) FROM usage_meters m JOIN allocations a ON a.id = m.allocation_id
     WHERE m.closed_at IS NULL AND a.active_at IS NOT NULL),
    (SELECT min(coalesce(m.charged_until, t.starts_at)) FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
     WHERE m.closed_at IS NULL))), 0), 0)::float8;
