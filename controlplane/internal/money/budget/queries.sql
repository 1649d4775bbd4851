-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: OrgOf :one
SELECT org_id FROM projects WHERE id = $1;

-- name: Put :one
INSERT INTO project_budgets (project_id, org_id, currency, amount_minor, period, alerts, hard_stop, updated_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (project_id) DO UPDATE
SET amount_minor = excluded.amount_minor, period = excluded.period, alerts = excluded.alerts, hard_stop = excluded.hard_stop,
    updated_by = excluded.updated_by, updated_at = clock_timestamp(), version = project_budgets.version + 1
RETURNING *;

-- name: Remove :one
DELETE FROM project_budgets WHERE project_id = $1 RETURNING *;

-- name: Get :one
SELECT * FROM project_budgets WHERE project_id = $1;

-- name: List :many
SELECT * FROM project_budgets WHERE org_id = sqlc.arg(org_id) AND project_id > sqlc.arg(after)::uuid
ORDER BY project_id LIMIT sqlc.arg(page_size);

-- name: All :many
SELECT * FROM project_budgets WHERE project_id > sqlc.arg(after)::uuid ORDER BY project_id LIMIT sqlc.arg(batch);

-- name: Lock :one
SELECT * FROM project_budgets WHERE project_id = $1 FOR NO KEY UPDATE;

-- name: LockStop :one
-- Whoever rents for a project with a hard stop does so one after the other.
SELECT * FROM project_budgets WHERE project_id = $1 AND hard_stop FOR NO KEY UPDATE;

-- name: Spent :many
-- What projects with budgets have spent in a period until a moment, what their first windows set aside beyond that, and what all
-- of it comes to at the end of the period, as things are. It is computed from the rows that charges are made of: a meter that is
-- closed until where it charged, an open one until the moment or its end. So are reservations of the project. What was given back or corrected of charges of the
-- period is taken off.
WITH RECURSIVE budgets AS (
    SELECT b.project_id, b.org_id FROM project_budgets b WHERE b.project_id = ANY (sqlc.arg(projects)::uuid[])
), used AS (
    SELECT c.project_id, sum(c.spent) AS spent,
        sum(CASE WHEN c.live AND c.charged_until IS NULL THEN greatest(c.first_window - c.spent, 0) ELSE 0 END) AS aside,
        sum(CASE WHEN c.live THEN greatest(c.whole, c.spent) ELSE c.spent END) AS forecast
    FROM (
        SELECT t.project_id, m.charged_until,
            m.closed_at IS NULL AND a.status IN ('requested', 'provisioning', 'active') AND a.release_requested_at IS NULL
                AND coalesce(a.expires_at > sqlc.arg(at)::timestamptz, true) AS live,
            allocation_cost(t, coalesce(a.active_at, sqlc.arg(at)::timestamptz),
                coalesce(a.active_at, sqlc.arg(at)::timestamptz) + sqlc.arg(first_seconds)::bigint * interval '1 second') AS first_window,
            allocation_cost(t, coalesce(a.active_at, sqlc.arg(at)::timestamptz), least(a.expires_at, sqlc.arg(period_end)::timestamptz))
                - allocation_cost(t, coalesce(a.active_at, sqlc.arg(at)::timestamptz),
                    greatest(coalesce(a.active_at, sqlc.arg(at)::timestamptz), sqlc.arg(period_start)::timestamptz)) AS whole,
            CASE WHEN a.active_at IS NULL THEN 0 ELSE greatest(allocation_cost(t, a.active_at,
                    CASE WHEN m.closed_at IS NOT NULL THEN coalesce(m.charged_until, a.active_at)
                    ELSE least(coalesce(a.release_requested_at, sqlc.arg(at)::timestamptz), sqlc.arg(at)::timestamptz, a.expires_at) END)
                - allocation_cost(t, a.active_at, greatest(a.active_at, sqlc.arg(period_start)::timestamptz)), 0) END AS spent
        FROM usage_meters m JOIN allocation_terms t ON t.allocation_id = m.allocation_id
            JOIN budgets b ON b.project_id = t.project_id AND b.org_id = m.org_id
            JOIN allocations a ON a.id = m.allocation_id
        WHERE m.org_id IN (SELECT x.org_id FROM budgets x) AND (m.closed_at IS NULL OR m.closed_at >= sqlc.arg(period_start)::timestamptz)) AS c
    GROUP BY c.project_id
), unused AS (
    SELECT t.project_id, sum(c.spent) AS spent, sum(c.spent + div(c.rate * c.left, 36000000)) AS forecast
    FROM budgets b JOIN reservation_terms t ON t.project_id = b.project_id
        JOIN reservation_meters m ON m.reservation_id = t.reservation_id, LATERAL (
        SELECT reserved_cost(t, reserved_until(t, sqlc.arg(at)::timestamptz)) - reserved_cost(t, reserved_until(t, sqlc.arg(period_start)::timestamptz)) AS spent,
            reserved_rate(t, sqlc.arg(at)::timestamptz) AS rate,
            greatest(extract(epoch FROM least(t.ends_at, sqlc.arg(period_end)::timestamptz) - sqlc.arg(at)::timestamptz), 0)::numeric AS left OFFSET 0) c
    WHERE m.closed_at IS NULL OR m.closed_at >= sqlc.arg(period_start)::timestamptz
    GROUP BY t.project_id
), up AS (
    SELECT c.id, c.corrects_entry_id AS of_entry FROM ledger_entries c
    WHERE c.kind = 'correction' AND c.org_id IN (SELECT x.org_id FROM budgets x) AND c.period >= sqlc.arg(period_start)::timestamptz
    UNION ALL
    SELECT up.id, e.corrects_entry_id FROM up JOIN ledger_entries e ON e.id = up.of_entry WHERE e.kind = 'correction'
), about AS (
    SELECT up.id, up.of_entry FROM up
    UNION ALL
    SELECT r.id, r.id FROM ledger_entries r
    WHERE r.kind = 'relief' AND r.org_id IN (SELECT x.org_id FROM budgets x) AND r.period >= sqlc.arg(period_start)::timestamptz
), back AS (
    SELECT b.project_id, sum(p.amount_minor) AS minor
    FROM about JOIN ledger_entries e ON e.id = about.of_entry AND e.kind IN ('usage', 'relief')
        JOIN ledger_postings p ON p.entry_id = about.id AND p.account = 'tenant'
        LEFT JOIN allocation_terms t ON t.allocation_id = e.allocation_id
        LEFT JOIN reservation_terms r ON r.reservation_id = e.reservation_id
        JOIN budgets b ON b.project_id = coalesce(t.project_id, r.project_id)
    WHERE e.window_start >= sqlc.arg(period_start)::timestamptz AND e.window_start < sqlc.arg(period_end)::timestamptz
    GROUP BY b.project_id
)
SELECT b.project_id, (coalesce(u.spent, 0) + coalesce(n.spent, 0) - coalesce(k.minor, 0))::bigint AS spent_minor, coalesce(u.aside, 0)::bigint AS aside_minor,
    (coalesce(u.forecast, 0) + coalesce(n.forecast, 0) - coalesce(k.minor, 0))::bigint AS forecast_minor
FROM budgets b LEFT JOIN used u ON u.project_id = b.project_id LEFT JOIN unused n ON n.project_id = b.project_id LEFT JOIN back k ON k.project_id = b.project_id;

-- name: Told :many
-- What was told in a period.
SELECT * FROM project_budget_alerts WHERE period_start = sqlc.arg(period_start) AND project_id = ANY (sqlc.arg(projects)::uuid[])
ORDER BY project_id, percent;

-- name: Tell :execrows
INSERT INTO project_budget_alerts (project_id, period_start, percent, amount_minor, spent_minor, told_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING;

-- name: Arm :exec
-- A higher amount arms alerts again that are not reached any more.
DELETE FROM project_budget_alerts WHERE project_id = sqlc.arg(project_id) AND period_start = sqlc.arg(period_start)
    AND percent = ANY (sqlc.arg(percents)::integer[]);
