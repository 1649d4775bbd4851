-- +goose Up
-- What the platform, tenants and projects allow of operations. What is NULL is not settled by this level.
CREATE TABLE operation_policy_overrides (
    operation_type                 text NOT NULL,
    scope                          text NOT NULL CHECK (scope IN ('global', 'tenant', 'project')),
    org_id                         uuid REFERENCES organizations,
    project_id                     uuid REFERENCES projects,
    hard_deny                      boolean NOT NULL DEFAULT false,
    enabled                        boolean,
    max_concurrency                bigint CHECK (max_concurrency > 0),
    timeout_seconds                bigint CHECK (timeout_seconds > 0),
    allowed_artifact_sources       text[],
    allowed_target_kinds           text[],
    require_signature_verification boolean,
    max_artifact_size_bytes        bigint CHECK (max_artifact_size_bytes > 0),
    reason                         text NOT NULL DEFAULT '',
    version                        bigint NOT NULL DEFAULT 1,
    updated_at                     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by                     text NOT NULL,
    CHECK ((org_id IS NULL) = (scope = 'global') AND (project_id IS NULL) = (scope <> 'project')),
    CHECK (NOT hard_deny OR scope = 'global')
);
CREATE UNIQUE INDEX operation_policy_overrides_of_level
    ON operation_policy_overrides (operation_type, org_id, project_id) NULLS NOT DISTINCT;
COMMENT ON COLUMN operation_policy_overrides.operation_type IS 'Type of an operation, or * for all of them.';
COMMENT ON COLUMN operation_policy_overrides.hard_deny IS 'Nobody below the platform can enable it.';
GRANT SELECT, INSERT, UPDATE, DELETE ON operation_policy_overrides TO gpuaas_app;
