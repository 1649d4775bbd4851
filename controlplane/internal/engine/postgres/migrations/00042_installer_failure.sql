-- +goose Up
-- An installer that fails is told apart from a first boot that fails. Rows of before keep their class.
ALTER DOMAIN failure_class DROP CONSTRAINT failure_class_check;
ALTER DOMAIN failure_class ADD CONSTRAINT failure_class_check CHECK (VALUE IN (
    '', 'input_config_error', 'site_capability_missing', 'upstream_transient', 'bmc_power_failure', 'pxe_discovery_failure',
    'hardware_mismatch', 'deploy_installer_failure', 'deploy_cloud_init_failure', 'post_deploy_connectivity_failure',
    'hardware_sync_failure', 'agent_enrollment_failure', 'node_agent_unreachable', 'sanitization_failure', 'state_ambiguity'));
