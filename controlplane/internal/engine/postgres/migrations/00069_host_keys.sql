-- +goose Up
-- The keys by which people recognise the SSH server of a node, one row for each installation. Rows begin when an
-- installation enrols; one that enrolled before has none until its agent says what they are.
CREATE TABLE node_host_keys (
    node_id     uuid NOT NULL REFERENCES nodes,
    generation  bigint NOT NULL,
    opened_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    keys        text[] NOT NULL DEFAULT '{}' CHECK (cardinality(keys) <= 16),
    known_at    timestamptz,
    reported    text[] NOT NULL DEFAULT '{}' CHECK (cardinality(reported) <= 16),
    changed_at  timestamptz,
    PRIMARY KEY (node_id, generation),
    CHECK ((cardinality(keys) = 0) = (known_at IS NULL))
);
COMMENT ON COLUMN node_host_keys.generation IS 'Of the node when it enrolled from this installation.';
COMMENT ON COLUMN node_host_keys.opened_at IS 'When it enrolled: what it says before a tenant had access since is believed.';
COMMENT ON COLUMN node_host_keys.keys IS 'What people shall find there; empty: its agent has not said.';
COMMENT ON COLUMN node_host_keys.reported IS 'What its agent said last.';
COMMENT ON COLUMN node_host_keys.changed_at IS 'Since when its agent says others, which nobody has believed; absent: it does not.';
GRANT SELECT, INSERT, UPDATE ON node_host_keys TO gpuaas_app;
