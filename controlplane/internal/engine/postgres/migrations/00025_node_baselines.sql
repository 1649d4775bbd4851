-- +goose Up
-- What installations of nodes were like before any tenant was on them, as their
-- nodes signed it. Kept here, so that a machine that somebody took over cannot
-- change what it is compared with.
CREATE TABLE node_baselines (
    node_id            uuid NOT NULL REFERENCES nodes,
    generation         bigint NOT NULL,
    opened_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    installation       text NOT NULL DEFAULT '' CHECK (length(installation) <= 128),
    content            bytea CHECK (length(content) <= 1048576),
    digest             text NOT NULL DEFAULT '',
    signature          bytea,
    certificate_serial text NOT NULL DEFAULT '',
    taken_at           timestamptz,
    kept_at            timestamptz,
    PRIMARY KEY (node_id, generation),
    CHECK ((content IS NULL) = (kept_at IS NULL) AND (content IS NULL) = (signature IS NULL))
);
CREATE INDEX node_baselines_installation ON node_baselines (installation) WHERE installation <> '';
COMMENT ON COLUMN node_baselines.generation IS 'Of the node when it enrolled from this installation for the first time.';
COMMENT ON COLUMN node_baselines.opened_at IS 'When it enrolled: a baseline is taken as long as no tenant had access since.';
COMMENT ON COLUMN node_baselines.content IS 'The inventory as it was signed, compressed; absent: none has come.';
COMMENT ON COLUMN node_baselines.digest IS 'SHA-256 of the inventory as it was signed.';

-- What tasks of the control plane changed of an installation since.
CREATE TABLE node_baseline_amendments (
    task_id            uuid PRIMARY KEY,
    node_id            uuid NOT NULL,
    generation         bigint NOT NULL,
    task_type          text NOT NULL,
    entries            jsonb NOT NULL,
    signature          bytea NOT NULL,
    certificate_serial text NOT NULL,
    amended_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (node_id, generation) REFERENCES node_baselines
);
CREATE INDEX node_baseline_amendments_node ON node_baseline_amendments (node_id, generation, amended_at);

GRANT SELECT, INSERT, UPDATE ON node_baselines TO gpuaas_app;
GRANT SELECT, INSERT ON node_baseline_amendments TO gpuaas_app;
