-- +goose Up
-- Where artifacts are that not everybody may read, and with which login. Its secret is in
-- the secrets engine. Without a tenant they are the platform's.
CREATE TABLE artifact_sources (
    id         uuid PRIMARY KEY,
    org_id     uuid REFERENCES organizations,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    kind       text NOT NULL CHECK (kind IN ('registry', 's3', 'gcs', 'huggingface')),
    reach      text NOT NULL CHECK (length(reach) BETWEEN 1 AND 1000),
    login      text NOT NULL CHECK (length(login) <= 200),
    region     text NOT NULL CHECK (length(region) <= 100),
    shared     boolean NOT NULL,
    has_secret boolean NOT NULL,
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by text NOT NULL
);
COMMENT ON COLUMN artifact_sources.reach IS 'How repositories or addresses begin that the login is for.';
COMMENT ON COLUMN artifact_sources.shared IS 'It also reads what levels below its owner registered.';
CREATE UNIQUE INDEX artifact_sources_once ON artifact_sources (org_id, reach) NULLS NOT DISTINCT;
GRANT SELECT, INSERT, UPDATE, DELETE ON artifact_sources TO gpuaas_app;
CREATE INDEX artifacts_of_source ON artifacts (source);
