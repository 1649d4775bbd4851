-- +goose Up
CREATE DOMAIN agent_run_status AS text CONSTRAINT agent_run_status_check CHECK (VALUE IN (
    'waiting', 'delivering', 'awaiting_operator', 'reimaging', 'verifying', 'parked', 'succeeded', 'cancelled'));

-- What is done to the agent of one node, from the request to the proof. It never holds a
-- token.
CREATE TABLE agent_runs (
    id               uuid PRIMARY KEY,
    node_id          uuid NOT NULL REFERENCES nodes,
    hostname         text NOT NULL,
    mode             text NOT NULL CHECK (mode IN ('reimage', 'manual_install', 'rebootstrap')),
    scenario         text NOT NULL CHECK (scenario IN ('bootstrap_install', 'in_place_upgrade', 'repair_reinstall', 'certificate_repair', 'drift_reconcile')),
    safety_policy    text NOT NULL CHECK (safety_policy IN ('idle_only', 'after_drain', 'force')),
    target_version   text NOT NULL DEFAULT '',
    way              text NOT NULL CHECK (way IN ('decommission', 'self_update', 'operator')),
    brokered_because text NOT NULL DEFAULT '',
    status           agent_run_status NOT NULL DEFAULT 'waiting',
    detail           text NOT NULL DEFAULT '',
    error_code       text NOT NULL DEFAULT '',
    error_message    text NOT NULL DEFAULT '',
    error_remedy     text NOT NULL DEFAULT '',
    from_version     text NOT NULL DEFAULT '',
    generation       bigint NOT NULL,
    had_certificate  boolean NOT NULL,
    was_schedulable  boolean NOT NULL,
    attempt          integer NOT NULL DEFAULT 1,
    task_id          uuid,
    decommission_id  uuid,
    phase_started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    deadline_at      timestamptz,
    reason           text NOT NULL CHECK (reason <> ''),
    requested_by     text NOT NULL,
    requested_by_name text NOT NULL,
    correlation_id   text NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at      timestamptz,
    version          bigint NOT NULL DEFAULT 1
);
COMMENT ON COLUMN agent_runs.brokered_because IS 'Why somebody on the machine must do it although the mode asked for less; empty: nobody must, or the mode says so.';
COMMENT ON COLUMN agent_runs.generation IS 'That of the node when the phase began: a later one means that it enrolled anew.';
-- One run at a time owns the agent of a node.
CREATE UNIQUE INDEX agent_runs_live ON agent_runs (node_id) WHERE status NOT IN ('succeeded', 'cancelled');
CREATE INDEX agent_runs_of_node ON agent_runs (node_id, created_at DESC, id DESC);
GRANT SELECT, INSERT, UPDATE ON agent_runs TO gpuaas_app;

-- A run that is under way keeps rollouts off; one that is parked does not.
CREATE OR REPLACE VIEW node_occupations AS
SELECT c.node_id, 'claim'::text AS kind, c.allocation_id::text AS occupant
FROM allocation_resource_claims c WHERE c.ended_at IS NULL
UNION ALL
SELECT k.node_id, 'task', k.id::text FROM node_tasks k WHERE k.status IN ('queued', 'dispatched')
UNION ALL
SELECT t.node_id, 'operation', t.operation_id::text FROM operation_targets t JOIN operations o ON o.id = t.operation_id
WHERE t.status IN ('waiting', 'running') AND o.status IN ('queued', 'running')
UNION ALL
SELECT n.id, 'operation', n.held_by FROM nodes n WHERE n.held_by <> ''
UNION ALL
SELECT s.node_id, 'terminal', s.id::text FROM terminal_sessions s WHERE s.status IN ('issued', 'opening', 'open')
UNION ALL
SELECT r.node_id, 'agent run', r.id::text FROM agent_runs r
WHERE r.status IN ('waiting', 'delivering', 'awaiting_operator', 'reimaging', 'verifying');

-- +goose Down
SELECT 1; -- what was done to agents stays known
