-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: Tenant :one
SELECT slug, name FROM organizations WHERE id = $1;

-- name: Stays :many
-- What could be used at some moment of a time, with its terms.
SELECT t.allocation_id, t.org_id, o.slug AS tenant, t.project_id, p.slug AS project, t.sku_id, a.node_id, a.hostname, a.name, a.labels,
    a.requested_by, a.requested_by_name, coalesce(t.currency, '')::text AS currency, coalesce(t.price_minor, 0)::bigint AS price_minor,
    t.paid_share, t.units, a.active_at::timestamptz AS active_at, m.charged_until, m.closed_at,
    a.release_requested_at, a.expires_at, a.status_changed_at, (a.status IN ('requested', 'provisioning', 'active'))::boolean AS live
FROM allocation_terms t JOIN allocations a ON a.id = t.allocation_id
    JOIN organizations o ON o.id = t.org_id JOIN projects p ON p.id = t.project_id
    LEFT JOIN usage_meters m ON m.allocation_id = t.allocation_id AND m.meter = 'held'
WHERE (sqlc.narg(org_id)::uuid IS NULL OR t.org_id = sqlc.narg(org_id)) AND (sqlc.narg(project_id)::uuid IS NULL OR t.project_id = sqlc.narg(project_id))
  AND a.active_at < sqlc.arg(until)::timestamptz AND (a.release_requested_at IS NULL OR a.release_requested_at > sqlc.arg(since)::timestamptz);

-- name: Adjustments :many
-- What was given back of charges, and corrections of both, with the allocation and the time that they are about.
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
SELECT e.allocation_id, (about.id = about.of_entry)::boolean AS relief,
    e.window_start::timestamptz AS window_start, e.window_end::timestamptz AS window_end, p.amount_minor
FROM about JOIN ledger_entries e ON e.id = about.of_entry AND e.kind IN ('usage', 'relief')
    JOIN ledger_postings p ON p.entry_id = about.id AND p.account = 'tenant'
WHERE e.window_start < sqlc.arg(until)::timestamptz AND e.window_end > sqlc.arg(since)::timestamptz;
