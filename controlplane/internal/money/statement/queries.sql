-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: OneMoment :exec
-- What a transaction reads is as it was at one moment.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;

-- name: Tenant :one
SELECT slug, name FROM organizations WHERE id = $1;

-- name: Stays :many
-- What could be used at some moment of a time, with its terms.
SELECT t.allocation_id, t.org_id, o.slug AS tenant, t.project_id, p.slug AS project, t.sku_id, a.node_id, a.hostname, a.name, a.labels,
    a.requested_by, a.requested_by_name, coalesce(t.currency, '')::text AS currency, coalesce(t.price_minor, 0)::bigint AS price_minor,
    t.pricing, t.paid_share, t.units, a.active_at::timestamptz AS active_at, m.charged_until, m.closed_at,
    a.release_requested_at, a.expires_at, a.status_changed_at, (a.status IN ('requested', 'provisioning', 'active'))::boolean AS live
FROM allocation_terms t JOIN allocations a ON a.id = t.allocation_id
    JOIN organizations o ON o.id = t.org_id JOIN projects p ON p.id = t.project_id
    LEFT JOIN usage_meters m ON m.allocation_id = t.allocation_id AND m.meter = 'held'
WHERE (sqlc.narg(org_id)::uuid IS NULL OR t.org_id = sqlc.narg(org_id)) AND (sqlc.narg(project_id)::uuid IS NULL OR t.project_id = sqlc.narg(project_id))
  AND a.active_at < sqlc.arg(until)::timestamptz AND (a.release_requested_at IS NULL OR a.release_requested_at > sqlc.arg(since)::timestamptz);

-- name: Unused :many
-- Reservations that were charged at some moment of a time.
SELECT t.reservation_id, t.org_id, o.slug AS tenant, t.project_id, coalesce(p.slug, '')::text AS project, t.sku_id, t.currency, t.units,
    t.starts_at, reservation_end(t)::timestamptz AS ends_at, m.charged_until
FROM reservation_terms t JOIN reservation_meters m ON m.reservation_id = t.reservation_id
    JOIN organizations o ON o.id = t.org_id LEFT JOIN projects p ON p.id = t.project_id
WHERE (sqlc.narg(org_id)::uuid IS NULL OR t.org_id = sqlc.narg(org_id)) AND (sqlc.narg(project_id)::uuid IS NULL OR t.project_id = sqlc.narg(project_id))
  AND t.starts_at < sqlc.arg(until)::timestamptz AND reservation_end(t) > sqlc.arg(since)::timestamptz
ORDER BY t.reservation_id;

-- name: UnusedUntil :many
-- What a reservation has come to until each of some moments.
SELECT x.micros::bigint AS micros, reserved_cost(t, x.micros)::bigint AS cost_minor
FROM reservation_terms t, unnest(sqlc.arg(moments)::timestamptz[]) WITH ORDINALITY AS at (moment, n),
    LATERAL (SELECT reserved_until(t, at.moment) AS micros OFFSET 0) x
WHERE t.reservation_id = sqlc.arg(reservation_id) ORDER BY at.n;

-- name: Adjustments :many
-- What was given back of charges, and corrections of both, with the allocation or reservation and the time that they are about.
WITH RECURSIVE up AS (
    SELECT c.id, c.corrects_entry_id AS of_entry FROM ledger_entries c
    WHERE c.kind = 'correction' AND (sqlc.narg(org_id)::uuid IS NULL OR c.org_id = sqlc.narg(org_id))
    UNION ALL
    SELECT up.id, e.corrects_entry_id FROM up JOIN ledger_entries e ON e.id = up.of_entry WHERE e.kind = 'correction'
), about AS (
    SELECT up.id, up.of_entry FROM up
    UNION ALL
    SELECT r.id, r.id FROM ledger_entries r WHERE r.kind = 'relief' AND (sqlc.narg(org_id)::uuid IS NULL OR r.org_id = sqlc.narg(org_id))
)
SELECT e.allocation_id, e.reservation_id, (about.id = about.of_entry)::boolean AS relief,
    e.window_start::timestamptz AS window_start, e.window_end::timestamptz AS window_end, p.amount_minor
FROM about JOIN ledger_entries e ON e.id = about.of_entry AND e.kind IN ('usage', 'relief')
    JOIN ledger_postings p ON p.entry_id = about.id AND p.account = 'tenant'
WHERE e.window_start < sqlc.arg(until)::timestamptz AND e.window_end > sqlc.arg(since)::timestamptz;

-- name: Due :many
-- Tenants with a month that ended before a moment and has no statement.
SELECT org_id FROM billing_periods WHERE open_since + interval '1 month' <= sqlc.arg(ended_before)::timestamptz ORDER BY org_id;

-- name: Overdue :one
-- How long the oldest month is over that has no statement, in seconds.
SELECT coalesce(greatest(0, extract(epoch FROM clock_timestamp() - min(open_since + interval '1 month'))), 0)::float8 FROM billing_periods;

-- name: LockPeriod :one
SELECT billing_period_close(sqlc.arg(org_id))::timestamptz;

-- name: Uncharged :one
-- How many allocations and reservations are not charged until the end of a month.
SELECT ((SELECT count(*) FROM usage_meters m JOIN allocations a ON a.id = m.allocation_id
        WHERE m.org_id = sqlc.arg(org_id) AND m.closed_at IS NULL AND a.active_at < sqlc.arg(until)::timestamptz
          AND coalesce(m.charged_until, a.active_at) < sqlc.arg(until)::timestamptz)
    + (SELECT count(*) FROM reservation_meters m JOIN reservation_terms t ON t.reservation_id = m.reservation_id
        WHERE m.org_id = sqlc.arg(org_id) AND m.closed_at IS NULL
          AND coalesce(m.charged_until, t.starts_at) < least(sqlc.arg(until)::timestamptz, reservation_end(t))))::bigint;

-- name: Last :one
SELECT number, closing_minor FROM billing_statements WHERE org_id = $1 ORDER BY number DESC LIMIT 1;

-- name: ChargedIn :many
-- What is in the statement of a month, by allocation, and by price where that follows the list: no charge crosses the beginning of
-- a price. Late is what belongs to a time before the month.
SELECT e.allocation_id, l.price_id, coalesce(l.price_minor, t.price_minor, 0)::bigint AS price_minor, (e.window_end <= sqlc.arg(period)::timestamptz)::boolean AS late, min(e.window_start)::timestamptz AS since,
    max(e.window_end)::timestamptz AS until, (-sum(p.amount_minor))::bigint AS amount_minor, count(*) AS entries
FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'tenant'
    JOIN allocation_terms t ON t.allocation_id = e.allocation_id
    LEFT JOIN LATERAL (SELECT s.price_id, s.price_minor FROM sku_price_spans s
        WHERE t.pricing = 'follows_list' AND s.sku_id = t.sku_id AND s.meter = e.meter AND s.currency = t.currency
          AND s.begins <= e.window_start ORDER BY s.begins DESC LIMIT 1) l ON true
WHERE e.org_id = sqlc.arg(org_id) AND e.period = sqlc.arg(period)::timestamptz AND e.kind = 'usage'
GROUP BY 1, 2, 3, 4;

-- name: NotChargedIn :many
-- Windows of a month that cost nothing.
SELECT w.allocation_id, l.price_id, coalesce(l.price_minor, t.price_minor, 0)::bigint AS price_minor, min(w.starts_at)::timestamptz AS since, max(w.ends_at)::timestamptz AS until
FROM usage_windows w JOIN usage_meters m ON m.allocation_id = w.allocation_id AND m.meter = w.meter
    JOIN allocation_terms t ON t.allocation_id = w.allocation_id
    LEFT JOIN LATERAL (SELECT s.price_id, s.price_minor FROM sku_price_spans s
        WHERE t.pricing = 'follows_list' AND s.sku_id = t.sku_id AND s.meter = w.meter AND s.currency = t.currency
          AND s.begins <= w.starts_at ORDER BY s.begins DESC LIMIT 1) l ON true
WHERE m.org_id = sqlc.arg(org_id) AND w.entry_id IS NULL AND w.ends_at > sqlc.arg(period)::timestamptz AND w.ends_at <= sqlc.arg(until)::timestamptz
GROUP BY 1, 2, 3;

-- name: ReservedIn :many
-- What reservations were charged in the statement of a month, with the node-microseconds of that.
SELECT t.reservation_id, t.project_id, coalesce(p.slug, '')::text AS project, t.sku_id, t.region_code, t.nodes, t.units, t.price_id, t.price_minor,
    t.paid_share, w.late, w.since, w.until, w.since_micros, w.until_micros, w.amount_minor, w.entries,
    (div(t.price_minor::numeric * 10000 * t.units * (w.until_micros / 1000000), 36000000)
        - div(t.price_minor::numeric * 10000 * t.units * (w.since_micros / 1000000), 36000000))::bigint AS list_minor
FROM (SELECT x.reservation_id, (e.id IS NOT NULL AND x.ends_at <= sqlc.arg(period)::timestamptz)::boolean AS late, min(x.starts_at)::timestamptz AS since,
        max(x.ends_at)::timestamptz AS until, min(x.since_micros)::bigint AS since_micros, max(x.until_micros)::bigint AS until_micros,
        sum(x.amount_minor)::bigint AS amount_minor, count(e.id) AS entries
    FROM reservation_windows x JOIN reservation_meters m ON m.reservation_id = x.reservation_id LEFT JOIN ledger_entries e ON e.id = x.entry_id
    WHERE m.org_id = sqlc.arg(org_id) AND (e.period = sqlc.arg(period)::timestamptz
        OR e.id IS NULL AND x.ends_at > sqlc.arg(period)::timestamptz AND x.ends_at <= sqlc.arg(until)::timestamptz)
    GROUP BY 1, 2) w
    JOIN reservation_terms t ON t.reservation_id = w.reservation_id LEFT JOIN projects p ON p.id = t.project_id
WHERE w.until_micros > w.since_micros
ORDER BY t.starts_at, t.reservation_id, w.late DESC;

-- name: OthersIn :many
-- What else is in the statement of a month, with the entry that a correction goes back to.
WITH RECURSIVE up AS (
    SELECT c.id, c.corrects_entry_id AS of_entry FROM ledger_entries c
    WHERE c.org_id = sqlc.arg(org_id) AND c.period = sqlc.arg(period)::timestamptz AND c.kind = 'correction'
    UNION ALL
    SELECT up.id, e.corrects_entry_id FROM up JOIN ledger_entries e ON e.id = up.of_entry WHERE e.kind = 'correction'
)
SELECT sqlc.embed(e), p.amount_minor, coalesce(r.kind, '')::text AS of_kind, r.allocation_id AS of_allocation, r.reservation_id AS of_reservation, r.window_start AS of_start,
    r.window_end AS of_end
FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'tenant'
    LEFT JOIN (up JOIN ledger_entries r ON r.id = up.of_entry AND r.kind <> 'correction') ON up.id = e.id
WHERE e.org_id = sqlc.arg(org_id) AND e.period = sqlc.arg(period)::timestamptz AND e.kind <> 'usage'
ORDER BY e.booked_at, e.id;

-- name: Rented :many
-- What allocations of a tenant are, and what was agreed for them.
SELECT t.allocation_id, t.project_id, p.slug AS project, t.sku_id, t.basis, t.free_because, t.pricing, coalesce(t.currency, '')::text AS currency, t.price_id,
    coalesce(t.price_minor, 0)::bigint AS price_minor, t.paid_share, t.units, a.name, a.labels, a.region_code, a.node_id, a.hostname, a.requested_by, a.requested_by_name,
    a.active_at::timestamptz AS active_at
FROM allocation_terms t JOIN allocations a ON a.id = t.allocation_id JOIN projects p ON p.id = t.project_id
WHERE t.org_id = sqlc.arg(org_id) AND t.allocation_id = ANY (sqlc.arg(allocations)::uuid[]);

-- name: Issue :exec
INSERT INTO billing_statements (id, org_id, currency, number, previous, label, period_start, period_end, opening_minor, closing_minor,
    usage_minor, relief_minor, corrections_minor, money_in_minor, entries, late_entries, document, digest, issued_at, issued_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20);

-- name: List :many
-- The newest first, without their documents.
SELECT id, org_id, currency, number, label, period_start, period_end, opening_minor, closing_minor, usage_minor, relief_minor,
    corrections_minor, money_in_minor, entries, late_entries, digest, issued_at, issued_by
FROM billing_statements WHERE org_id = sqlc.arg(org_id) AND (sqlc.arg(before)::integer = 0 OR number < sqlc.arg(before))
ORDER BY number DESC LIMIT sqlc.arg(page_size);

-- name: Document :one
SELECT label, document FROM billing_statements WHERE org_id = $1 AND id = $2;

-- name: Compared :many
-- What allocations were charged: by their windows, and by the ledger.
SELECT m.allocation_id, m.org_id, m.charged_until, a.active_at, t.sku_id, t.pricing, t.currency, coalesce(t.price_minor, 0)::bigint AS price_minor,
    t.paid_share, t.units, w.amount_minor AS windows_minor, l.amount_minor AS ledger_minor
FROM usage_meters m JOIN allocations a ON a.id = m.allocation_id JOIN allocation_terms t ON t.allocation_id = m.allocation_id
    CROSS JOIN LATERAL (SELECT coalesce(sum(x.amount_minor), 0)::bigint AS amount_minor FROM usage_windows x
        WHERE x.allocation_id = m.allocation_id AND x.meter = m.meter) w
    CROSS JOIN LATERAL (SELECT coalesce(-sum(p.amount_minor), 0)::bigint AS amount_minor
        FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'tenant'
        WHERE e.allocation_id = m.allocation_id AND e.meter = m.meter AND e.kind = 'usage') l
WHERE (sqlc.narg(org_id)::uuid IS NULL OR m.org_id = sqlc.narg(org_id)) AND m.allocation_id > sqlc.arg(after)::uuid
ORDER BY m.allocation_id LIMIT sqlc.arg(batch);

-- name: ComparedReserved :many
-- What reservations were charged: by the rule, by their windows, and by the ledger.
SELECT t.reservation_id, t.org_id, t.currency, reserved_cost(t, reserved_micros(t, t.starts_at, coalesce(m.charged_until, t.starts_at)))::bigint AS rated_minor,
    coalesce((SELECT sum(x.amount_minor) FROM reservation_windows x WHERE x.reservation_id = t.reservation_id), 0)::bigint AS windows_minor,
    coalesce((SELECT -sum(p.amount_minor) FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'tenant'
        WHERE e.reservation_id = t.reservation_id AND e.kind = 'usage'), 0)::bigint AS ledger_minor
FROM reservation_terms t JOIN reservation_meters m ON m.reservation_id = t.reservation_id
WHERE (sqlc.narg(org_id)::uuid IS NULL OR t.org_id = sqlc.narg(org_id)) AND t.reservation_id > sqlc.arg(after)::uuid
ORDER BY t.reservation_id LIMIT sqlc.arg(batch);

-- name: Balances :many
-- Balances of tenants as they are kept, and as their postings and statements sum up.
SELECT a.org_id, a.currency, coalesce(b.balance_minor, 0)::bigint AS kept_minor,
    coalesce((SELECT sum(p.amount_minor) FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'tenant'
        WHERE e.org_id = a.org_id), 0)::bigint AS posted_minor,
    coalesce(s.closing_minor, 0)::bigint AS stated_minor,
    coalesce((SELECT sum(p.amount_minor) FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'tenant'
        WHERE e.org_id = a.org_id AND e.period < o.open_since), 0)::bigint AS closed_minor
FROM billing_accounts a JOIN billing_periods o ON o.org_id = a.org_id
    LEFT JOIN ledger_balances b ON b.org_id = a.org_id AND b.account = 'tenant'
    LEFT JOIN LATERAL (SELECT closing_minor FROM billing_statements x WHERE x.org_id = a.org_id ORDER BY number DESC LIMIT 1) s ON true
WHERE sqlc.narg(org_id)::uuid IS NULL OR a.org_id = sqlc.narg(org_id) ORDER BY a.org_id;

-- name: AddCheck :exec
INSERT INTO billing_checks (began_at, allocations, tenants, disagreements, found, never_charged, never_charged_found)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: NeverCharged :many
-- What is used and has no meter: nothing will ever be charged for it. The first ones, and how many there are.
SELECT a.id, a.org_id, a.sku_id, a.active_at::timestamptz AS active_at, coalesce(t.basis, '')::text AS basis, count(*) OVER () AS total
FROM allocations a LEFT JOIN allocation_terms t ON t.allocation_id = a.id
WHERE a.status = 'active' AND a.release_requested_at IS NULL AND (sqlc.narg(org_id)::uuid IS NULL OR a.org_id = sqlc.narg(org_id))
  AND NOT EXISTS (SELECT FROM usage_meters m WHERE m.allocation_id = a.id AND m.meter = 'held')
ORDER BY a.active_at, a.id LIMIT sqlc.arg(most);

-- name: PruneChecks :exec
DELETE FROM billing_checks WHERE ended_at < clock_timestamp() - interval '90 days';

-- name: LastCheck :one
SELECT * FROM billing_checks ORDER BY id DESC LIMIT 1;

-- name: CheckStats :one
SELECT coalesce((SELECT c.disagreements FROM billing_checks c ORDER BY c.id DESC LIMIT 1), 0)::bigint AS disagreements,
    coalesce((SELECT extract(epoch FROM clock_timestamp() - c.ended_at) FROM billing_checks c ORDER BY c.id DESC LIMIT 1), 0)::float8 AS age;

-- name: OpenSince :one
SELECT open_since FROM billing_periods WHERE org_id = $1;
