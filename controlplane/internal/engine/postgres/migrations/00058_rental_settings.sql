-- +goose Up
-- How long a tenant and its projects rent, and whether they may have root. What is NULL is not settled by this owner.
CREATE TABLE rental_settings (
    org_id         uuid NOT NULL REFERENCES organizations,
    project_id     uuid REFERENCES projects,
    default_expiry bigint CHECK (default_expiry >= 0),
    max_expiry     bigint CHECK (max_expiry > 0),
    root_access    boolean,
    version        bigint NOT NULL DEFAULT 1,
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by     text NOT NULL
);
CREATE UNIQUE INDEX rental_settings_of_owner ON rental_settings (org_id, project_id) NULLS NOT DISTINCT;
COMMENT ON COLUMN rental_settings.project_id IS 'NULL: the settings of the tenant, which bound those of its projects.';
COMMENT ON COLUMN rental_settings.default_expiry IS 'Seconds that an allocation lasts whose request names no end; 0: it never ends by itself.';
COMMENT ON COLUMN rental_settings.max_expiry IS 'Seconds that an allocation may last at most, from its placement or its last extension; NULL: also for ever.';
GRANT SELECT, INSERT, UPDATE ON rental_settings TO gpuaas_app;

-- Whether root access needs another SKU.
ALTER TABLE skus ADD COLUMN user_access_only boolean NOT NULL DEFAULT false;
