-- +goose NO TRANSACTION
-- +goose Up
-- What finds the times in which a node was quarantined or silent, among all that its history keeps. It can be repeated,
-- because this file is no transaction: the index is made while others write.
CREATE INDEX CONCURRENTLY IF NOT EXISTS node_events_states ON node_events (node_id, seq) WHERE kind = 'state_changed';
