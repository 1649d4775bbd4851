-- +goose Up
-- A release of the agent on its way to many nodes. What was asked for never changes.
CREATE TABLE agent_rollouts (
    id             uuid PRIMARY KEY,
    version        text NOT NULL REFERENCES agent_releases,
    status         text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'paused', 'returning', 'completed', 'aborted')),
    target         jsonb NOT NULL,
    plan           jsonb NOT NULL,
    waves          integer NOT NULL CHECK (waves >= 1),
    wave           integer NOT NULL DEFAULT 0,
    paused_because text NOT NULL DEFAULT '',
    paused_code    text NOT NULL DEFAULT '',
    forgiven       integer NOT NULL DEFAULT 0,
    approved_wave  integer NOT NULL DEFAULT 0,
    reason         text NOT NULL CHECK (reason <> ''),
    requested_by   text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at    timestamptz,
    row_version    bigint NOT NULL DEFAULT 1
);
COMMENT ON COLUMN agent_rollouts.forgiven IS 'Failures that whoever resumed it has seen: only later ones pause it again.';
CREATE INDEX agent_rollouts_newest ON agent_rollouts (created_at DESC, id);

-- The list of nodes is frozen, and each has an outcome. Wave 0 are the canaries; nodes
-- that the rollout leaves alone have none.
CREATE TABLE agent_rollout_targets (
    rollout_id      uuid NOT NULL REFERENCES agent_rollouts,
    node_id         uuid NOT NULL REFERENCES nodes,
    hostname        text NOT NULL,
    kind            text NOT NULL,
    wave            integer,
    status          text NOT NULL CHECK (status IN ('pending', 'updating', 'baking', 'verified', 'failed', 'returning', 'returned', 'skipped_offline', 'excluded')),
    detail          text NOT NULL DEFAULT '',
    from_version    text NOT NULL DEFAULT '',
    was_schedulable boolean NOT NULL DEFAULT false,
    task_id         uuid,
    failures        integer NOT NULL DEFAULT 0,
    started_at      timestamptz,
    deadline_at     timestamptz,
    bake_until      timestamptz,
    finished_at     timestamptz,
    PRIMARY KEY (rollout_id, node_id)
);
-- Two rollouts never fight over a node.
CREATE UNIQUE INDEX agent_rollout_targets_live ON agent_rollout_targets (node_id)
    WHERE status IN ('pending', 'updating', 'baking', 'returning');
GRANT SELECT, INSERT, UPDATE ON agent_rollouts, agent_rollout_targets TO gpuaas_app;

-- +goose Down
SELECT 1; -- what nodes were given stays known
