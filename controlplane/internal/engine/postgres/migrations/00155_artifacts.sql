-- +goose Up
-- What nodes fetch: artifacts in registries and files by their digest, and the keys
-- whose signatures count. Without a tenant they are the platform's.
CREATE DOMAIN artifact_status AS text CONSTRAINT artifact_status_check CHECK (VALUE IN (
    'active', 'deprecated', 'revoked', 'retired'));

CREATE TABLE artifact_keys (
    id                uuid PRIMARY KEY,
    org_id            uuid REFERENCES organizations,
    name              text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    pem               text NOT NULL CHECK (length(pem) <= 4000),
    fingerprint       text NOT NULL CHECK (fingerprint ~ '^[0-9a-f]{64}$'),
    algorithm         text NOT NULL,
    repositories      text[] NOT NULL CHECK (cardinality(repositories) BETWEEN 1 AND 64),
    not_before        timestamptz NOT NULL,
    not_after         timestamptz NOT NULL CHECK (not_after > not_before),
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by        text NOT NULL,
    withdrawn_at      timestamptz,
    withdrawn_by      text NOT NULL DEFAULT '',
    withdrawn_because text NOT NULL DEFAULT ''
);
COMMENT ON COLUMN artifact_keys.fingerprint IS 'SHA-256 of the public key as PKIX DER.';
CREATE UNIQUE INDEX artifact_keys_once ON artifact_keys (org_id, fingerprint) NULLS NOT DISTINCT
    WHERE withdrawn_at IS NULL;

CREATE TABLE artifacts (
    id               uuid PRIMARY KEY,
    org_id           uuid REFERENCES organizations,
    project_id       uuid REFERENCES projects CHECK (project_id IS NULL OR org_id IS NOT NULL),
    name             text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    kind             text NOT NULL CHECK (kind IN ('oci', 'https_signed')),
    source           text NOT NULL CHECK (length(source) <= 2000),
    digest           text NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    size             bigint NOT NULL CHECK (size >= 0),
    media_type       text NOT NULL,
    artifact_type    text NOT NULL,
    layers           integer NOT NULL,
    platforms        jsonb NOT NULL,
    labels           jsonb NOT NULL,
    signature        text NOT NULL CHECK (signature IN ('verified', 'unsigned', 'refused')),
    signature_format text NOT NULL,
    signature_reason text NOT NULL,
    key_id           uuid REFERENCES artifact_keys CHECK ((key_id IS NOT NULL) = (signature = 'verified')),
    checked_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    status           artifact_status NOT NULL DEFAULT 'active',
    status_reason    text NOT NULL DEFAULT '',
    version          bigint NOT NULL DEFAULT 1,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by       text NOT NULL,
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by       text NOT NULL
);
COMMENT ON COLUMN artifacts.size IS 'What a node fetches at most: all layers of a manifest, or of the largest that an index names.';
COMMENT ON COLUMN artifacts.platforms IS 'The manifests that an index names, each with its platform, digest and size.';
CREATE UNIQUE INDEX artifacts_once ON artifacts (org_id, project_id, source) NULLS NOT DISTINCT
    WHERE status <> 'retired';
CREATE INDEX artifacts_of_digest ON artifacts (digest);
GRANT SELECT, INSERT, UPDATE ON artifacts, artifact_keys TO gpuaas_app;
