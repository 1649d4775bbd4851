-- +goose Up
-- Who accepted the risk of what somebody with root may have left on a node.
ALTER TABLE nodes ADD COLUMN root_accepted_by text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE nodes DROP COLUMN root_accepted_by;
