-- +goose Up
-- What a node is busy with. A node is idle if it is not in here.
CREATE VIEW node_occupations AS
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
SELECT s.node_id, 'terminal', s.id::text FROM terminal_sessions s WHERE s.status IN ('issued', 'opening', 'open');
GRANT SELECT ON node_occupations TO gpuaas_app;

-- A node of a rollout that failed without a word may come back with the version.
ALTER TABLE agent_rollout_targets ADD COLUMN silent boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN agent_rollout_targets.silent IS
    'Its failure was silence: if it comes back with the version of the rollout, it is sent back.';
CREATE INDEX agent_rollout_targets_silent ON agent_rollout_targets (node_id) WHERE silent;

-- +goose Down
SELECT 1; -- what nodes were given stays known
