-- +goose Up
-- The queue of each SKU. Tenants take turns, and the projects of a tenant take turns within: one that was served since the
-- oldest of those who wait began to wait comes after those that were not. So more projects are not more turns. Within a
-- project, and among those whose turn is equal, the older request comes first.
DROP VIEW allocation_queue;
CREATE VIEW allocation_queue AS
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
        WHERE r.status = 'waiting') AS p) AS t;
GRANT SELECT ON allocation_queue TO gpuaas_app;
DROP INDEX allocation_requests_served;
CREATE INDEX allocation_requests_served ON allocation_requests (sku_id, org_id, ended_at) WHERE status = 'placed';

-- What is due is read per webhook, and what is under way by itself: neither looks at all that waits.
DROP INDEX webhook_deliveries_due;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_at, seq) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_under_way ON webhook_deliveries (leased_until) WHERE leased_until IS NOT NULL;
