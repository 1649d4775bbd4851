-- +goose Up
-- Requests for nodes that found no capacity and wait for it. The allocations begin when they are placed.
CREATE DOMAIN allocation_request_status AS text CHECK (VALUE IN ('waiting', 'placed', 'cancelled', 'expired', 'refused'));

CREATE TABLE allocation_requests (
    id                uuid PRIMARY KEY,
    org_id            uuid NOT NULL REFERENCES organizations,
    project_id        uuid NOT NULL REFERENCES projects,
    status            allocation_request_status NOT NULL DEFAULT 'waiting',
    sku_id            text NOT NULL REFERENCES skus,
    nodes             integer NOT NULL CHECK (nodes BETWEEN 1 AND 64),
    ask               jsonb NOT NULL,
    requested_by      text NOT NULL,
    requested_by_name text NOT NULL DEFAULT '',
    requester_kind    text NOT NULL,
    correlation_id    text NOT NULL DEFAULT '',
    wait_until        timestamptz NOT NULL,
    allocation_ids    uuid[] NOT NULL DEFAULT '{}',
    code              text NOT NULL DEFAULT '',
    reason            text NOT NULL DEFAULT '',
    remedy            text NOT NULL DEFAULT '',
    ended_by          text NOT NULL DEFAULT '',
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at          timestamptz,
    version           bigint NOT NULL DEFAULT 1,
    CHECK ((status = 'waiting') = (ended_at IS NULL)),
    CHECK ((status = 'placed') = (allocation_ids <> '{}'))
);
CREATE INDEX allocation_requests_waiting ON allocation_requests (sku_id, created_at) WHERE status = 'waiting';
CREATE INDEX allocation_requests_of_project ON allocation_requests (project_id, id DESC);
CREATE INDEX allocation_requests_served ON allocation_requests (sku_id, ended_at) WHERE status = 'placed';
COMMENT ON COLUMN allocation_requests.ask IS 'What was asked for, without keys themselves: they are looked up when it is placed.';
COMMENT ON COLUMN allocation_requests.wait_until IS 'When it stops waiting.';

-- The queue of each SKU. Projects take turns: one that was served since the oldest of those who wait began to wait comes
-- after those that were not. Within a project, and among projects whose turn is equal, the older request comes first.
CREATE VIEW allocation_queue AS
SELECT w.*, row_number() OVER (PARTITION BY w.sku_id ORDER BY w.turn, w.served_at NULLS FIRST, w.created_at, w.id)::integer AS position
FROM (
    SELECT r.*, row_number() OVER (PARTITION BY r.sku_id, r.project_id ORDER BY r.created_at, r.id) AS turn,
        (SELECT max(p.ended_at) FROM allocation_requests p
         WHERE p.status = 'placed' AND p.sku_id = r.sku_id AND p.project_id = r.project_id
           AND p.ended_at > (SELECT min(o.created_at) FROM allocation_requests o WHERE o.status = 'waiting' AND o.sku_id = r.sku_id)
        ) AS served_at
    FROM allocation_requests r WHERE r.status = 'waiting') AS w;

-- Nodes that could be let now, but for how lately they were heard of. The query Candidates says the same, and locks them.
CREATE VIEW nodes_to_let AS
SELECT n.id, n.sku_id, n.region_code, n.pool, n.labels, n.capabilities, n.clean_at, c.last_contact_at
FROM nodes n JOIN node_contacts c ON c.node_id = n.id
WHERE n.status = 'active' AND n.schedulable AND n.allocation_id IS NULL AND n.hold_reason = '' AND n.held_by = ''
  AND (n.tainted_at IS NULL OR n.clean_at > n.tainted_at)
  AND (n.root_at IS NULL OR n.root_ended_at > n.root_at)
  AND NOT EXISTS (SELECT FROM reconciliation_findings f WHERE f.node_id = n.id AND f.status <> 'closed' AND f.severity = 'critical');

-- Whoever waits is told at once that a node may be had. Nothing is told while nobody waits for the SKU.
-- +goose StatementBegin
CREATE FUNCTION node_may_be_let() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    IF EXISTS (SELECT FROM allocation_requests WHERE status = 'waiting' AND sku_id = NEW.sku_id) THEN
        PERFORM pg_notify('allocation_requests', NEW.sku_id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER node_may_be_let AFTER UPDATE ON nodes FOR EACH ROW
    WHEN (NEW.status = 'active' AND NEW.schedulable AND NEW.allocation_id IS NULL AND NEW.hold_reason = '' AND NEW.held_by = ''
        AND (OLD.status <> 'active' OR NOT OLD.schedulable OR OLD.allocation_id IS NOT NULL OR OLD.hold_reason <> '' OR OLD.held_by <> ''
            OR OLD.clean_at IS DISTINCT FROM NEW.clean_at OR OLD.root_ended_at IS DISTINCT FROM NEW.root_ended_at
            OR (OLD.sku_id, OLD.pool, OLD.region_code, OLD.labels, OLD.capabilities)
                IS DISTINCT FROM (NEW.sku_id, NEW.pool, NEW.region_code, NEW.labels, NEW.capabilities)))
    EXECUTE FUNCTION node_may_be_let();

GRANT SELECT, INSERT, UPDATE ON allocation_requests TO gpuaas_app;
GRANT SELECT ON allocation_queue, nodes_to_let TO gpuaas_app;
