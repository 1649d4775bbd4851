-- +goose Up
-- What a tenant had, and which installation the node runs on: an installation
-- that somebody had root on does not testify about itself.
ALTER TABLE nodes
    ADD COLUMN root_at              timestamptz,
    ADD COLUMN root_cause           text NOT NULL DEFAULT '' CHECK (root_cause IN ('', 'sudo', 'root_shell', 'privileged_container', 'physical_console', 'found')),
    ADD COLUMN root_ended_at        timestamptz,
    ADD COLUMN root_risk            text NOT NULL DEFAULT '' CHECK (length(root_risk) <= 2000),
    ADD COLUMN installed_at         timestamptz,
    ADD COLUMN installed_by         text NOT NULL DEFAULT '' CHECK (length(installed_by) <= 200),
    ADD COLUMN installed_generation bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN nodes.root_at IS 'When somebody last had root on it, or its machine came back so; it stands until root_ended_at is later.';
COMMENT ON COLUMN nodes.root_ended_at IS 'When a later installation was proven clean, or somebody accepted the risk in words (root_risk).';
COMMENT ON COLUMN nodes.installed_at IS 'When the installation that it runs on began to be made by an operation of ours; NULL: none that we know of.';
COMMENT ON COLUMN nodes.installed_generation IS 'The generation that this installation enrolled with; a node of another one was recovered by hand since.';

-- A node that was installed anew runs on what it was given when it began to enrol.
UPDATE nodes n SET installed_at = r.occurred_at, installed_by = 'a reimage before this was recorded', installed_generation = n.generation
FROM (SELECT DISTINCT ON (node_id) node_id, seq, occurred_at FROM node_events WHERE event = 'reimage' AND to_status = 'enrolling' ORDER BY node_id, seq DESC) r
WHERE r.node_id = n.id AND EXISTS (SELECT FROM node_events e WHERE e.node_id = n.id AND e.event = 'enrolled' AND e.to_status = 'active' AND e.seq > r.seq);
UPDATE nodes n SET installed_at = n.created_at, installed_by = 'onboarding ' || o.id, installed_generation = n.generation
FROM node_onboardings o
WHERE n.installed_at IS NULL AND o.node_id = n.id AND o.completed_at IS NOT NULL AND o.status IN ('completed', 'reconciled')
  AND COALESCE((o.facts ->> 'deploys')::integer, 0) > 0
  AND NOT EXISTS (SELECT FROM node_events e WHERE e.node_id = n.id AND e.event = 'reimage');

-- Whoever was given sudo on that installation had root on it, whatever a
-- validation through its own agent said since. A task that no node was ever
-- handed gave nobody anything.
UPDATE nodes n SET root_at = t.at, root_cause = 'sudo'
FROM (
    SELECT node_id, max(GREATEST(created_at, dispatched_at, finished_at)) AS at FROM node_tasks
    WHERE type = 'allocation.provision_user' AND params -> 'sudo' = 'true' AND (attempt > 0 OR finished_at IS NULL)
    GROUP BY node_id
) t
WHERE t.node_id = n.id AND (n.installed_at IS NULL OR t.at > n.installed_at);
