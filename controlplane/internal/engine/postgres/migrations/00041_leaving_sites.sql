-- +goose Up
-- A site that somebody wants to delete while nodes or jobs need it leaves once they
-- are gone.
ALTER TABLE maas_sites ADD COLUMN delete_requested_at timestamptz;
COMMENT ON COLUMN maas_sites.delete_requested_at IS 'Since when the site is to be deleted as soon as nothing belongs to it; enabling it takes that back.';

-- +goose Down
SELECT 1; -- the wish stays
