-- +goose Up
-- Times in which the node of an allocation is repaired while its tenant keeps it. What was charged for them is given back
-- by these rows, so an end is written once and no row is deleted.
CREATE TABLE allocation_repairs (
    id             uuid PRIMARY KEY,
    allocation_id  uuid NOT NULL REFERENCES allocations,
    node_id        uuid NOT NULL REFERENCES nodes,
    maintenance_id uuid,
    reason         text NOT NULL,
    began_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    began_by       text NOT NULL,
    ended_at       timestamptz,
    ended_by       text NOT NULL DEFAULT '',
    ended_because  text NOT NULL DEFAULT '',
    CHECK (ended_at >= began_at)
);
CREATE UNIQUE INDEX allocation_repairs_open ON allocation_repairs (allocation_id) WHERE ended_at IS NULL;
CREATE INDEX allocation_repairs_of ON allocation_repairs (allocation_id, began_at);
COMMENT ON COLUMN allocation_repairs.reason IS 'Why, in words for the tenant.';
COMMENT ON COLUMN allocation_repairs.maintenance_id IS 'The announced maintenance that it is for; NULL: it was not announced.';
GRANT SELECT, INSERT, UPDATE ON allocation_repairs TO gpuaas_app;

-- What operators announce to the tenants of nodes.
CREATE DOMAIN maintenance_status AS text CHECK (VALUE IN
    ('announced', 'consented', 'declined', 'under_way', 'done', 'lapsed', 'cancelled'));

CREATE TABLE maintenances (
    id                uuid PRIMARY KEY,
    announcement_id   uuid NOT NULL,
    allocation_id     uuid NOT NULL REFERENCES allocations,
    node_id           uuid NOT NULL REFERENCES nodes,
    hostname          text NOT NULL,
    org_id            uuid NOT NULL REFERENCES organizations,
    project_id        uuid NOT NULL REFERENCES projects,
    status            maintenance_status NOT NULL DEFAULT 'announced',
    kind              text NOT NULL CHECK (kind IN ('release', 'reboot', 'pause')),
    consent_asked     boolean NOT NULL,
    not_before        timestamptz NOT NULL,
    due_at            timestamptz NOT NULL,
    reason            text NOT NULL,
    announced_by      text NOT NULL,
    announced_by_name text NOT NULL DEFAULT '',
    begins_now        boolean NOT NULL DEFAULT false,
    answered_at       timestamptz,
    answered_by       text NOT NULL DEFAULT '',
    answered_by_name  text NOT NULL DEFAULT '',
    answer            text NOT NULL DEFAULT '',
    ended_because     text NOT NULL DEFAULT '',
    warned            bigint NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    status_changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at          timestamptz,
    version           bigint NOT NULL DEFAULT 1,
    CHECK (not_before <= due_at),
    CHECK ((status IN ('done', 'lapsed', 'cancelled')) = (ended_at IS NOT NULL))
);
CREATE UNIQUE INDEX maintenances_open ON maintenances (allocation_id) WHERE ended_at IS NULL;
CREATE INDEX maintenances_of_project ON maintenances (project_id, id DESC);
CREATE INDEX maintenances_announced ON maintenances (announcement_id);
COMMENT ON COLUMN maintenances.announcement_id IS 'Those that were announced together share it.';
COMMENT ON COLUMN maintenances.reason IS 'Why, in words for the tenant.';
COMMENT ON COLUMN maintenances.begins_now IS 'The tenant agreed to it at once, whatever the window.';
COMMENT ON COLUMN maintenances.answer IS 'What the tenant said with the answer.';
COMMENT ON COLUMN maintenances.warned IS 'Seconds before its time of the last warning; 0: none was given.';
GRANT SELECT, INSERT, UPDATE ON maintenances TO gpuaas_app;

-- The open maintenances, and whether each may be carried out now. One that ends the allocation may be with the tenant's
-- consent within its window, and without it from the deadline on where consent was not asked for. One that the tenant
-- keeps the node through may be within its window, with consent where that was asked for. A tenant who said "now" has
-- opened the window.
CREATE VIEW maintenances_open_now AS
SELECT m.*, m.status <> 'declined' AND CASE
    WHEN m.status = 'under_way' THEN true
    WHEN m.status = 'consented' THEN m.begins_now OR m.not_before <= clock_timestamp()
    WHEN m.consent_asked THEN false
    WHEN m.kind = 'release' THEN m.due_at <= clock_timestamp()
    ELSE m.not_before <= clock_timestamp() END AS may_begin
FROM maintenances m WHERE m.ended_at IS NULL;
GRANT SELECT ON maintenances_open_now TO gpuaas_app;
