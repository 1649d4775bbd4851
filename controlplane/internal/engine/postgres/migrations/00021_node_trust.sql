-- +goose Up
-- What nodes trust besides the keys of tasks: the issuer of their certificates
-- and the authorities of the listener that they come to. The newest version
-- counts; older ones are kept to show what was trusted when.
CREATE TABLE node_trust (
    about      text NOT NULL CHECK (about IN ('node_issuer', 'listener_bundle')),
    version    bigint NOT NULL CHECK (version > 0),
    pem        text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (about, version)
);
GRANT SELECT, INSERT ON node_trust TO gpuaas_app;

ALTER TABLE nodes ADD COLUMN trust_bundle text NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN trust_refused text NOT NULL DEFAULT '';
COMMENT ON COLUMN nodes.trust_bundle IS 'SHA-256 of the bundle that its agent verifies the control plane with; empty: it does not say.';
COMMENT ON COLUMN nodes.trust_refused IS 'Code and subject of what its agent last refused to trust; empty: nothing.';
