-- +goose Up
-- What a profile says of data disks and of the machines of retired nodes. Rows
-- of before keep what they did; new profiles get the defaults at the end.
ALTER TABLE maas_site_profiles
    ADD COLUMN data_disks text NOT NULL DEFAULT 'leave' CHECK (data_disks IN ('leave', 'initialize', 'require_clean')),
    ADD COLUMN retired_machines text NOT NULL DEFAULT 'leave' CHECK (retired_machines IN ('leave', 'power_off', 'release'));
UPDATE maas_site_profiles SET retired_machines = 'release' WHERE release_retired_machines;
ALTER TABLE maas_site_profiles ALTER COLUMN data_disks SET DEFAULT 'require_clean',
    ALTER COLUMN retired_machines SET DEFAULT 'power_off';
COMMENT ON COLUMN maas_site_profiles.data_disks IS 'What becomes of the disks that do not carry the system.';
COMMENT ON COLUMN maas_site_profiles.retired_machines IS 'What reconciliation does with the deployed machine of a retired node.';
COMMENT ON COLUMN maas_site_profiles.release_retired_machines IS 'Kept equal to retired_machines = release, for replicas of before.';

-- What the hardware of a machine of a SKU must have at least; an absent key asks for nothing.
ALTER TABLE skus ADD COLUMN hardware jsonb NOT NULL DEFAULT '{}';
