-- +goose Up
-- Packages of the agent that were uploaded. A version is given once, and its row stays.
CREATE TABLE agent_releases (
    version               text PRIMARY KEY CHECK (length(version) BETWEEN 5 AND 64),
    commit                text NOT NULL CHECK (commit ~ '^[0-9a-f]{7,40}$'),
    architecture          text NOT NULL CHECK (architecture IN ('amd64', 'arm64')),
    digest                text NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    size                  bigint NOT NULL CHECK (size > 0),
    notes                 text NOT NULL CHECK (length(notes) <= 4000),
    minimum_control_plane text NOT NULL,
    protocol_min          integer NOT NULL CHECK (protocol_min >= 1),
    protocol_max          integer NOT NULL CHECK (protocol_max >= protocol_min),
    programs              jsonb NOT NULL,
    key_id                text NOT NULL,
    signature             bytea NOT NULL,
    added_by              text NOT NULL,
    created_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    withdrawn_at          timestamptz,
    withdrawn_by          text NOT NULL DEFAULT '',
    withdrawn_because     text NOT NULL DEFAULT ''
);
COMMENT ON COLUMN agent_releases.programs IS 'SHA-256 of each program by its name.';
COMMENT ON COLUMN agent_releases.signature IS 'By a release key, whose private half no control plane has.';

-- Which release the nodes of a channel want. Nodes that are pinned, or that nobody
-- assigned, follow no channel.
CREATE TABLE agent_channels (
    channel    text PRIMARY KEY CHECK (channel IN ('stable', 'candidate')),
    version    text REFERENCES agent_releases,
    previous   text REFERENCES agent_releases,
    reason     text NOT NULL DEFAULT '',
    changed_by text NOT NULL DEFAULT '',
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO agent_channels (channel) VALUES ('stable'), ('candidate');

-- Versions that no node is given, whether they were released or not.
CREATE TABLE agent_blocked_versions (
    version    text PRIMARY KEY CHECK (length(version) BETWEEN 1 AND 64),
    reason     text NOT NULL CHECK (reason <> ''),
    blocked_by text NOT NULL,
    blocked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The oldest version that a node may be given; empty: any.
CREATE TABLE agent_floors (
    only_one   boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    version    text NOT NULL DEFAULT '',
    reason     text NOT NULL DEFAULT '',
    changed_by text NOT NULL DEFAULT '',
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO agent_floors DEFAULT VALUES;

GRANT SELECT, INSERT, UPDATE ON agent_releases TO gpuaas_app;
GRANT SELECT, UPDATE ON agent_channels, agent_floors TO gpuaas_app;
GRANT SELECT, INSERT, DELETE ON agent_blocked_versions TO gpuaas_app;

-- A channel meant nothing so far, and stable was what nodes had by default. Nobody
-- assigned them, so nothing is wanted of them.
ALTER TABLE nodes DROP CONSTRAINT nodes_agent_channel_check,
    ADD CONSTRAINT nodes_agent_channel_check CHECK (agent_channel IN ('stable', 'candidate', 'pinned', 'unassigned')),
    ALTER COLUMN agent_channel SET DEFAULT 'unassigned';
UPDATE nodes SET agent_channel = 'unassigned' WHERE agent_channel = 'stable';

-- +goose Down
SELECT 1; -- releases stay
