-- +goose Up
-- Placement takes the free nodes of a SKU and pool in the order in which they were cleaned, mostly of any region: the
-- index gives them in that order, so that the first few rows are enough however large the fleet is.
DROP INDEX nodes_free;
CREATE INDEX nodes_free ON nodes (sku_id, pool, clean_at NULLS FIRST, id)
    WHERE status = 'active' AND schedulable AND allocation_id IS NULL;
-- What a project has now, without all that it ever had.
CREATE INDEX allocations_live_of_project ON allocations (project_id) WHERE status NOT IN ('released', 'failed');
