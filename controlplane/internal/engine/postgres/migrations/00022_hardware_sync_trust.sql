-- +goose Up
-- Root on deployed machines runs the program that reports hardware to MAAS. What
-- comes over plain HTTP is pinned by its digest unless somebody decided otherwise.
-- Sites that are there go on as before until somebody has decided.
ALTER TABLE maas_sites
    ADD COLUMN hw_sync_http text NOT NULL DEFAULT 'pinned' CHECK (hw_sync_http IN ('pinned', 'accepted', 'undecided')),
    ADD COLUMN deploy_password_shared_until timestamptz;
UPDATE maas_sites SET hw_sync_http = 'undecided' WHERE api_base_url LIKE 'http://%';
-- Machines get a login of their own from now on; those before were given this one.
UPDATE maas_sites SET deploy_password_shared_until = clock_timestamp() WHERE deploy_password_fingerprint <> '';
COMMENT ON COLUMN maas_sites.hw_sync_http IS 'What vouches for the program that reports hardware where MAAS speaks plain HTTP: its digest (pinned), nothing by decision (accepted), nothing as before (undecided).';
COMMENT ON COLUMN maas_sites.deploy_password_shared_until IS 'Until when machines were given the deploy password of the site; NULL: none ever was.';
