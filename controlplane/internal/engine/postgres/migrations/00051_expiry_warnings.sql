-- +goose Up
-- Which warning before its end the tenant of an allocation got last. No warning is given for a time that was past
-- already when the end was set.
ALTER TABLE allocations ADD COLUMN expiry_set_at timestamptz, ADD COLUMN expiry_warned bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN allocations.expiry_set_at IS 'When expires_at was changed last; NULL: it is as it was at the beginning.';
COMMENT ON COLUMN allocations.expiry_warned IS 'Seconds before expires_at of the last warning; 0: none was given.';
