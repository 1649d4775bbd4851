-- +goose Up
-- What a site needs of its MAAS beside an image: scripts as NAME or NAME@VERSION, and
-- capabilities of a closed list that the control plane can look for.
ALTER TABLE maas_sites
    ADD COLUMN required_scripts text[] NOT NULL DEFAULT '{}',
    ADD COLUMN required_capabilities text[] NOT NULL DEFAULT '{}';
