-- +goose Up
-- The keys of an allocation change while it is active: somebody removes a key, or may not use the project any more.
ALTER TABLE allocations ADD COLUMN keys_revision integer NOT NULL DEFAULT 0,
    ADD COLUMN keys_changing_since timestamptz,
    ADD COLUMN keys_waiting_for text NOT NULL DEFAULT '';
COMMENT ON COLUMN allocations.ssh_keys IS 'The keys that shall open it.';
COMMENT ON COLUMN allocations.keys_revision IS 'How often the keys were changed since it was asked for.';
COMMENT ON COLUMN allocations.keys_changing_since IS 'Since when its node is behind with that; absent: it is not.';
COMMENT ON COLUMN allocations.keys_waiting_for IS 'What that waits for, in words.';

-- A session that was opened for an allocation ends with it.
ALTER TABLE terminal_sessions ADD COLUMN allocation_id uuid;
COMMENT ON COLUMN terminal_sessions.allocation_id IS 'The allocation that it was opened for; absent: none.';

-- Keys that were removed, and people who left, before allocations followed that: a workflow looks at all of them once.
INSERT INTO outbox_events (id, destination, partition, aggregate_kind, aggregate_id, event_type, envelope, correlation_id)
SELECT gen_random_uuid(), 'temporal', 0, 'workflow', 'allocation-keys-review-of-all', 'ReviewAllocationKeys',
       '{"type": "ReviewAllocationKeys", "id": "allocation-keys-review-of-all", "queue": "gpuaas", "input": {}}', 'migration 60'
WHERE EXISTS (SELECT FROM allocations WHERE status = 'active');
