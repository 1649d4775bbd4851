-- +goose Up
-- What somebody else observed about the machine or the node of a job is part of
-- its ledger, too.
ALTER TABLE node_onboarding_events DROP CONSTRAINT node_onboarding_events_status_check;
ALTER TABLE node_onboarding_events ADD CONSTRAINT node_onboarding_events_status_check CHECK (status IN (
    'started', 'succeeded', 'failed', 'skipped', 'compensated', 'action', 'note', 'observed'));
ALTER TABLE node_decommission_events DROP CONSTRAINT node_decommission_events_status_check;
ALTER TABLE node_decommission_events ADD CONSTRAINT node_decommission_events_status_check CHECK (status IN (
    'started', 'succeeded', 'failed', 'skipped', 'compensated', 'action', 'note', 'observed'));
