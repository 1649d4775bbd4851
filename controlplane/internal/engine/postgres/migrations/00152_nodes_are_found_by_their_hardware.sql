-- +goose Up
-- People look a machine up by what is printed on it. A listing compares its words with this column instead of taking
-- the document apart for every node.
ALTER TABLE node_hardware ADD COLUMN sought text NOT NULL GENERATED ALWAYS AS (
    ' ' || translate(lower(COALESCE(known->>'uuid', '') || ' ' || COALESCE(known->>'system_serial', '') || ' '
        || COALESCE(known->>'board_serial', '') || ' ' || COALESCE(known->>'chassis_serial', '') || ' '
        || COALESCE(known->>'macs', '')), ',":-.[]', ' ') || ' ') STORED;
COMMENT ON COLUMN node_hardware.sought IS 'System UUID, serials and MAC addresses of known, in lower case, without colons, dashes and dots, a space before and after each.';
