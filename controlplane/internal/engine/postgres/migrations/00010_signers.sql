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
    verifier_version bigint NOT NULL CHECK (verifier_version > 0),
    version       bigint NOT NULL DEFAULT 1,
    published_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    effective_at  timestamptz,
    retires_at    timestamptz,
    finished_at   timestamptz,
    -- At most one of each. Checked at commit, because a rollback exchanges two.
    CONSTRAINT signer_versions_one EXCLUDE USING btree (status WITH =)
        WHERE (status IN ('staged', 'active', 'grace')) DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX signer_versions_published ON signer_versions (published_at DESC, id DESC);
COMMENT ON COLUMN signer_versions.verifier_version IS 'The first set of verifiers that this key is part of: a node that uses this set or a newer one accepts it.';
COMMENT ON COLUMN signer_versions.key_name IS 'Name of the key in the transit engine.';
COMMENT ON COLUMN signer_versions.retires_at IS 'End of the grace window.';

-- One row: the version of the set of verifiers that nodes are to use. It grows
-- whenever what nodes accept changes, not when the same keys change places.
CREATE TABLE verifier_sets (
    singleton  boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    version    bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

GRANT SELECT, INSERT, UPDATE ON signer_versions, verifier_sets TO gpuaas_app;
