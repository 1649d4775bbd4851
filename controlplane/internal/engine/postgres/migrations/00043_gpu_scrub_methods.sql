-- +goose Up
-- The weakest method by which the memory of GPUs may be cleaned, by their vendor.
-- Nothing but overwriting will do unless somebody decides otherwise.
ALTER TABLE maas_site_profiles
    ADD COLUMN gpu_scrub_nvidia text NOT NULL DEFAULT 'overwrite' CHECK (gpu_scrub_nvidia IN ('overwrite', 'reset', 'power_cycle')),
    ADD COLUMN gpu_scrub_amd text NOT NULL DEFAULT 'overwrite' CHECK (gpu_scrub_amd IN ('overwrite', 'reset', 'power_cycle'));
COMMENT ON COLUMN maas_site_profiles.gpu_scrub_nvidia IS 'The weakest method by which the memory of GPUs of NVIDIA may be cleaned.';
COMMENT ON COLUMN maas_site_profiles.gpu_scrub_amd IS 'The weakest method by which the memory of GPUs of AMD may be cleaned.';
