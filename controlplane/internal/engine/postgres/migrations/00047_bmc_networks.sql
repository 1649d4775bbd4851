-- +goose Up
-- The networks that the BMCs of a site live in. Empty: any network.
ALTER TABLE maas_sites ADD COLUMN bmc_networks text[] NOT NULL DEFAULT '{}';
