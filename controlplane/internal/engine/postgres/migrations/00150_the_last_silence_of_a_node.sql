-- +goose Up
-- A listing by last contact goes on from page to page while agents call. It sorts nodes as they were when its first
-- page was read, and for that it must know how long a node had been silent that has called since.
ALTER TABLE node_contacts ADD COLUMN silent_from timestamptz, ADD COLUMN silent_until timestamptz;
COMMENT ON COLUMN node_contacts.silent_from IS 'When the node was heard of before its last silence; the epoch: never. Null: the silence was not recorded.';
COMMENT ON COLUMN node_contacts.silent_until IS 'When that silence ended.';
