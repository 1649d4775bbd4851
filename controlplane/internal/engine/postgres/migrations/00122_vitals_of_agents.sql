-- +goose Up
-- What agents say about their own process with their calls. Null: an agent of before,
-- which does not say it.
ALTER TABLE node_contacts ADD COLUMN agent_memory bigint CHECK (agent_memory > 0), ADD COLUMN agent_started_at timestamptz;
COMMENT ON COLUMN node_contacts.agent_memory IS 'Bytes that the process of the agent had in memory at its last contact.';
ALTER TABLE agent_rollout_targets ADD COLUMN memory_before bigint;
COMMENT ON COLUMN agent_rollout_targets.memory_before IS 'What its agent used when it was told to update. Null: nobody knows.';

-- +goose Down
SELECT 1; -- what agents said stays known
