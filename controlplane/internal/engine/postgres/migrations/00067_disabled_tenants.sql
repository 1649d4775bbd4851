-- +goose Up
-- A tenant that is disabled keeps what it has, and gets nothing new.
ALTER TABLE organizations ADD COLUMN disabled_at timestamptz;
ALTER TABLE organizations ADD COLUMN disabled_reason text NOT NULL DEFAULT '';
ALTER TABLE organizations ADD COLUMN disabled_by text NOT NULL DEFAULT '';
COMMENT ON COLUMN organizations.disabled_at IS 'Since when the tenant may ask for nothing new; null: it may.';
COMMENT ON COLUMN organizations.disabled_reason IS 'Why, as its people are told.';

-- The queue of each SKU, as before, without the requests of tenants that are disabled: these wait on, and nothing is kept for them.
CREATE OR REPLACE VIEW allocation_queue AS
SELECT t.*, row_number() OVER (PARTITION BY t.sku_id ORDER BY t.turn, t.tenant_served_at NULLS FIRST, t.created_at, t.id)::integer AS position
FROM (
    SELECT p.*, row_number() OVER (PARTITION BY p.sku_id, p.org_id
        ORDER BY p.project_turn, p.project_served_at NULLS FIRST, p.created_at, p.id) AS turn
    FROM (
        SELECT r.*, row_number() OVER (PARTITION BY r.sku_id, r.project_id ORDER BY r.created_at, r.id) AS project_turn,
            served.of_project AS project_served_at, served.of_tenant AS tenant_served_at
        FROM allocation_requests r
            LEFT JOIN LATERAL (
                SELECT max(s.ended_at) FILTER (WHERE s.project_id = r.project_id) AS of_project, max(s.ended_at) AS of_tenant
                FROM allocation_requests s
                WHERE s.status = 'placed' AND s.sku_id = r.sku_id AND s.org_id = r.org_id
                  AND s.ended_at > (SELECT min(o.created_at) FROM allocation_requests o WHERE o.status = 'waiting' AND o.sku_id = r.sku_id)
            ) AS served ON true
        WHERE r.status = 'waiting'
          AND NOT EXISTS (SELECT FROM organizations o WHERE o.id = r.org_id AND o.disabled_at IS NOT NULL)) AS p) AS t;
