-- +goose Up
-- What keeps nodes out of scheduling, one row for each who does and why. Whoever lifts a hold lifts its own row, and a node
-- is held while it has any. nodes.hold_reason, nodes.held_by and nodes.held_unclean sum the rows up, for placement and counts.
CREATE TABLE node_holds (
    id           uuid PRIMARY KEY,
    node_id      uuid NOT NULL REFERENCES nodes,
    kind         text NOT NULL CHECK (kind IN ('operator', 'operation', 'repair', 'complaint', 'maintenance', 'drift', 'identity', 'unclean')),
    owner        text NOT NULL DEFAULT '' CHECK (length(owner) <= 200),
    reason       text NOT NULL CHECK (reason <> '' AND length(reason) <= 500),
    held_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    held_by      text NOT NULL DEFAULT '',
    held_by_name text NOT NULL DEFAULT '',
    UNIQUE (node_id, kind, owner)
);
CREATE UNIQUE INDEX node_holds_one_operation ON node_holds (node_id) WHERE kind = 'operation';
COMMENT ON COLUMN node_holds.owner IS 'What the hold belongs to, such as an allocation; empty: one of its kind for the node.';
COMMENT ON COLUMN node_holds.held_by IS 'Who set it; empty: it is older than this table.';
GRANT SELECT, INSERT, DELETE ON node_holds TO gpuaas_app;

INSERT INTO node_holds (id, node_id, kind, owner, reason, held_at)
SELECT gen_random_uuid(), n.id, 'operation', left(n.held_by, 200), left('held by ' || n.held_by, 500), n.updated_at
FROM nodes n WHERE n.held_by <> '';

INSERT INTO node_holds (id, node_id, kind, owner, reason, held_at)
SELECT gen_random_uuid(), n.id, k.kind, k.owner, n.hold_reason, n.updated_at
FROM nodes n CROSS JOIN LATERAL (SELECT
    CASE
        WHEN n.held_unclean THEN 'unclean'
        WHEN n.hold_reason ~ '^the node of allocation [0-9a-f-]{36} is being repaired$' THEN 'repair'
        WHEN n.hold_reason ~ '^the tenant of allocation [0-9a-f-]{36} complains' THEN 'complaint'
        WHEN n.hold_reason ~ '^announced maintenance [0-9a-f-]{36}$' THEN 'maintenance'
        WHEN n.hold_reason = 'MAAS has released its machine' THEN 'drift'
        WHEN EXISTS (SELECT FROM node_contacts c WHERE c.node_id = n.id AND c.refused_session <> '') THEN 'identity'
        ELSE 'operator' END AS kind,
    COALESCE(CASE
        WHEN n.held_unclean THEN ''
        ELSE substring(n.hold_reason FROM '^(?:the node of allocation|the tenant of allocation|announced maintenance) ([0-9a-f-]{36})')
    END, '') AS owner) AS k
WHERE n.hold_reason <> '';

-- The rows and what sums them up are changed together.
-- +goose StatementBegin
CREATE FUNCTION node_holds_agree() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of uuid := COALESCE(NEW.node_id, OLD.node_id);
BEGIN
    IF EXISTS (SELECT FROM nodes n WHERE n.id = of AND (
        (n.hold_reason <> '') <> EXISTS (SELECT FROM node_holds h WHERE h.node_id = of AND h.kind <> 'operation')
        OR n.held_by <> COALESCE((SELECT h.owner FROM node_holds h WHERE h.node_id = of AND h.kind = 'operation'), ''))) THEN
        RAISE EXCEPTION 'node % does not say what holds it', of USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER node_holds_agree AFTER INSERT OR DELETE ON node_holds DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION node_holds_agree();
