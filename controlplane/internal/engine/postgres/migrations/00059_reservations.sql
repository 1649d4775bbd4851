-- +goose Up
-- Capacity that is kept for a tenant or a project in a time window. Which nodes these are is decided whenever somebody
-- asks for one: a reservation names a number, and holds no node for longer than a question takes.
CREATE TABLE reservations (
    id              uuid PRIMARY KEY,
    org_id          uuid NOT NULL REFERENCES organizations,
    project_id      uuid REFERENCES projects,
    sku_id          text NOT NULL REFERENCES skus,
    nodes           integer NOT NULL CHECK (nodes BETWEEN 1 AND 10000),
    region_code     text NOT NULL DEFAULT '',
    rack            text NOT NULL DEFAULT '',
    pool            text NOT NULL DEFAULT '',
    labels          jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    starts_at       timestamptz NOT NULL,
    ends_at         timestamptz NOT NULL CHECK (ends_at > starts_at),
    reason          text NOT NULL DEFAULT '',
    forced          boolean NOT NULL DEFAULT false,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by      text NOT NULL,
    created_by_name text NOT NULL DEFAULT '',
    cancelled_at    timestamptz,
    cancelled_by    text NOT NULL DEFAULT '',
    cancel_reason   text NOT NULL DEFAULT ''
);
CREATE INDEX reservations_live ON reservations (sku_id, ends_at) WHERE cancelled_at IS NULL;
CREATE INDEX reservations_of_tenant ON reservations (org_id, id DESC);
COMMENT ON COLUMN reservations.project_id IS 'NULL: all projects of the tenant may use it.';
COMMENT ON COLUMN reservations.pool IS 'Empty: the general pool.';
COMMENT ON COLUMN reservations.forced IS 'It was made although there are not as many nodes as are reserved.';
GRANT SELECT, INSERT, UPDATE ON reservations TO gpuaas_app;

CREATE OR REPLACE VIEW nodes_to_let AS
SELECT n.id, n.sku_id, n.region_code, n.pool, n.labels, n.capabilities, n.clean_at, c.last_contact_at, n.rack
FROM nodes n JOIN node_contacts c ON c.node_id = n.id
WHERE n.status = 'active' AND n.schedulable AND n.allocation_id IS NULL AND n.hold_reason = '' AND n.held_by = ''
  AND (n.tainted_at IS NULL OR n.clean_at > n.tainted_at)
  AND (n.root_at IS NULL OR n.root_ended_at > n.root_at)
  AND NOT EXISTS (SELECT FROM reconciliation_findings f WHERE f.node_id = n.id AND f.status <> 'closed' AND f.severity = 'critical');
