-- +goose Up
CREATE DOMAIN signer_status AS text CONSTRAINT signer_status_check CHECK (VALUE IN (
    'staged', 'active', 'grace', 'retired', 'revoked'));

-- Versions of the key that tasks are signed with. The private half never
-- leaves the secrets engine.
CREATE TABLE signer_versions (
    id            text PRIMARY KEY CHECK (id ~ '^[a-z0-9-]{1,64}$'),
    status        signer_status NOT NULL,
    key_name      text NOT NULL UNIQUE,
    public_key    bytea NOT NULL CHECK (length(public_key) = 32),
    version       bigint NOT NULL DEFAULT 1,
    published_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    effective_at  timestamptz,
    retires_at    timestamptz,
    finished_at   timestamptz
);
CREATE UNIQUE INDEX signer_versions_one ON signer_versions (status) WHERE status IN ('staged', 'active', 'grace');
COMMENT ON COLUMN signer_versions.key_name IS 'Name of the key in the transit engine.';
COMMENT ON COLUMN signer_versions.retires_at IS 'End of the grace window.';

-- One row: the version of the set of verifiers that nodes are to use.
CREATE TABLE verifier_sets (
    only       boolean PRIMARY KEY DEFAULT true CHECK (only),
    version    bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

GRANT SELECT, INSERT, UPDATE ON signer_versions, verifier_sets TO gpuaas_app;
