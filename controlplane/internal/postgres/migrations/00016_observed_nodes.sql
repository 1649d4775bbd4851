-- +goose Up
-- How a node was observed from outside is part of its history, too.
ALTER TABLE node_events DROP CONSTRAINT node_events_kind_check;
ALTER TABLE node_events ADD CONSTRAINT node_events_kind_check CHECK (kind IN (
    'created', 'state_changed', 'updated', 'enrolled', 'certificate_renewed', 'certificate_revoked', 'identity_conflict', 'agent_reported', 'observed'));
CREATE INDEX node_events_observed ON node_events (node_id, seq DESC) WHERE kind = 'observed';
COMMENT ON COLUMN node_events.snapshot IS 'The node after the change: what answers "as of"; of what was observed, that alone.';
