-- +goose Up
-- What people select nodes by, besides what they are: where they stand, what they are kept for, and words of
-- their own.
ALTER TABLE nodes
    ADD COLUMN rack text NOT NULL DEFAULT '' CHECK (length(rack) <= 63),
    ADD COLUMN pool text NOT NULL DEFAULT '' CHECK (length(pool) <= 63),
    ADD COLUMN labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object');
COMMENT ON COLUMN nodes.rack IS 'The rack that the machine stands in; empty: nobody said. Placement spreads over racks.';
COMMENT ON COLUMN nodes.pool IS 'What the node is kept for; empty: the general pool.';
COMMENT ON COLUMN nodes.labels IS 'Words of the operators, as key and value, that nodes are selected by.';
