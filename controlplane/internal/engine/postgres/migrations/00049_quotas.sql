-- +goose Up
-- What a tenant or a project may hold, of one SKU or in all. No row means no limit.
CREATE TABLE quotas (
    id         uuid PRIMARY KEY,
    org_id     uuid NOT NULL REFERENCES organizations,
    project_id uuid REFERENCES projects,
    sku        text NOT NULL DEFAULT '',
    gpus       integer CHECK (gpus >= 0),
    nodes      integer CHECK (nodes >= 0),
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by text NOT NULL,
    CHECK (num_nonnulls(gpus, nodes) >= 1)
);
CREATE UNIQUE INDEX quotas_of_owner ON quotas (org_id, project_id, sku) NULLS NOT DISTINCT;
COMMENT ON COLUMN quotas.project_id IS 'NULL: the quota of the tenant, over all its projects.';
COMMENT ON COLUMN quotas.sku IS 'Empty: whatever the SKU.';
COMMENT ON COLUMN quotas.gpus IS 'NULL: this quota does not limit GPUs.';
COMMENT ON COLUMN quotas.nodes IS 'NULL: this quota does not limit nodes.';
GRANT SELECT, INSERT, UPDATE, DELETE ON quotas TO gpuaas_app;
