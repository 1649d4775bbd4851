-- +goose Up
-- What went wrong, as far as it decides what may be done about it.
CREATE DOMAIN failure_class AS text CONSTRAINT failure_class_check CHECK (VALUE IN (
    '', 'input_config_error', 'site_capability_missing', 'upstream_transient', 'bmc_power_failure', 'pxe_discovery_failure',
    'hardware_mismatch', 'deploy_cloud_init_failure', 'post_deploy_connectivity_failure', 'hardware_sync_failure',
    'agent_enrollment_failure', 'state_ambiguity'));

-- A node that a workflow onboards tells that workflow when its agent first polls.
ALTER TABLE nodes ADD COLUMN awaited_by text NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN first_poll_at timestamptz;
COMMENT ON COLUMN nodes.awaited_by IS 'Workflow that waits for the first poll of the agent; empty: none does.';
COMMENT ON COLUMN nodes.first_poll_at IS 'When the agent first polled with its present identity.';

-- Onboardings that were asked for together.
CREATE TABLE node_onboarding_batches (
    id             uuid PRIMARY KEY,
    site_id        uuid NOT NULL REFERENCES maas_sites,
    profile_id     uuid NOT NULL REFERENCES maas_site_profiles,
    sku_id         text NOT NULL REFERENCES skus,
    total          integer NOT NULL CHECK (total > 0),
    requested_by   text NOT NULL,
    correlation_id text NOT NULL,
    requested_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_at      timestamptz,
    cancelled_at   timestamptz
);
CREATE INDEX node_onboarding_batches_requested ON node_onboarding_batches (requested_at DESC, id DESC);

-- One machine on its way to becoming a node. The row is what operators read and
-- what fences effects; the workflow of the same id drives it.
CREATE TABLE node_onboardings (
    id                 uuid PRIMARY KEY,
    batch_id           uuid REFERENCES node_onboarding_batches,
    site_id            uuid NOT NULL REFERENCES maas_sites,
    profile_id         uuid NOT NULL REFERENCES maas_site_profiles,
    sku_id             text NOT NULL REFERENCES skus,
    hostname           text NOT NULL CHECK (hostname ~ '^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$'),
    ipmi_ip            text NOT NULL CHECK (length(ipmi_ip) <= 45),
    pxe_mac            text NOT NULL DEFAULT '',
    maas_system_id     text NOT NULL DEFAULT '',
    node_id            uuid NOT NULL,
    initialize_disks   boolean NOT NULL DEFAULT false,
    status             job_status NOT NULL DEFAULT 'pending',
    current_stage      text NOT NULL,
    current_attempt    integer NOT NULL DEFAULT 0,
    current_takes      integer NOT NULL DEFAULT 0,
    epoch              bigint NOT NULL DEFAULT 1,
    action             text NOT NULL DEFAULT '',
    adopted            boolean NOT NULL DEFAULT false,
    failure_class      failure_class NOT NULL DEFAULT '',
    error_code         text NOT NULL DEFAULT '',
    error_message      text NOT NULL DEFAULT '',
    error_remedy       text NOT NULL DEFAULT '',
    error_details      jsonb NOT NULL DEFAULT '{}',
    facts              jsonb NOT NULL DEFAULT '{}',
    observed_status    text NOT NULL DEFAULT '',
    observed_power     text NOT NULL DEFAULT '',
    observed_ips       text[] NOT NULL DEFAULT '{}',
    observed_at        timestamptz,
    observed_since     timestamptz,
    workflow_id        text NOT NULL,
    workflow_run_id    text NOT NULL DEFAULT '',
    requested_by       text NOT NULL,
    correlation_id     text NOT NULL,
    requested_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    admitted_at        timestamptz,
    started_at         timestamptz,
    stage_started_at   timestamptz,
    parked_at          timestamptz,
    completed_at       timestamptz,
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((status IN ('completed', 'cancelled', 'reconciled')) = (completed_at IS NOT NULL)),
    CHECK ((status IN ('failed_retryable', 'failed_manual_intervention')) = (parked_at IS NOT NULL))
);
-- A machine is onboarded once at a time, whatever it is called by.
CREATE UNIQUE INDEX node_onboardings_hostname ON node_onboardings (site_id, hostname) WHERE completed_at IS NULL;
CREATE UNIQUE INDEX node_onboardings_ipmi_ip ON node_onboardings (site_id, ipmi_ip) WHERE completed_at IS NULL;
CREATE UNIQUE INDEX node_onboardings_machine ON node_onboardings (site_id, maas_system_id) WHERE completed_at IS NULL AND maas_system_id <> '';
CREATE INDEX node_onboardings_requested ON node_onboardings (requested_at DESC, id DESC);
CREATE INDEX node_onboardings_batch ON node_onboardings (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX node_onboardings_live ON node_onboardings (site_id, status, requested_at) WHERE completed_at IS NULL;
CREATE INDEX node_onboardings_node ON node_onboardings (node_id);
COMMENT ON COLUMN node_onboardings.node_id IS 'The id that the node has, or will have once it is made.';
COMMENT ON COLUMN node_onboardings.epoch IS 'Fences effects: grows with every action of an operator; a run of an older epoch can do nothing.';
COMMENT ON COLUMN node_onboardings.current_takes IS 'How often the attempt was taken up: more than once when workers died in it.';
COMMENT ON COLUMN node_onboardings.action IS 'What an operator asked for and the workflow has not finished yet.';
COMMENT ON COLUMN node_onboardings.admitted_at IS 'When it was given a place within the limits of its batch and site.';
COMMENT ON COLUMN node_onboardings.observed_since IS 'Since when MAAS has been seen in observed_status.';
COMMENT ON COLUMN node_onboardings.facts IS 'What stages found out and later stages go by. Never a secret.';

-- The ledger of an onboarding.
CREATE TABLE node_onboarding_events (
    seq           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    onboarding_id uuid NOT NULL REFERENCES node_onboardings,
    epoch         bigint NOT NULL,
    stage         text NOT NULL,
    attempt       integer NOT NULL,
    status        text NOT NULL CHECK (status IN ('started', 'succeeded', 'failed', 'skipped', 'compensated', 'action', 'note')),
    message       text NOT NULL DEFAULT '',
    details       jsonb NOT NULL DEFAULT '{}',
    occurred_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX node_onboarding_events_of ON node_onboarding_events (onboarding_id, seq);

-- What is bound to which machine of MAAS now, and how it was last seen there.
CREATE TABLE node_maas_state (
    node_id               uuid PRIMARY KEY REFERENCES nodes,
    site_id               uuid NOT NULL REFERENCES maas_sites,
    profile_id            uuid NOT NULL REFERENCES maas_site_profiles,
    maas_system_id        text NOT NULL CHECK (maas_system_id <> ''),
    ipmi_ip               text NOT NULL DEFAULT '',
    pxe_mac               text NOT NULL DEFAULT '',
    last_maas_status      text NOT NULL DEFAULT '',
    last_maas_power_state text NOT NULL DEFAULT '',
    last_maas_ips         text[] NOT NULL DEFAULT '{}',
    last_reconciled_at    timestamptz,
    drift_detected        boolean NOT NULL DEFAULT false,
    drift_details         jsonb NOT NULL DEFAULT '{}',
    drift_resolved_at     timestamptz,
    bound_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at            timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX node_maas_state_machine ON node_maas_state (site_id, maas_system_id);
CREATE INDEX node_maas_state_ipmi ON node_maas_state (site_id, ipmi_ip);

GRANT SELECT, INSERT, UPDATE ON node_onboarding_batches, node_onboardings TO gpuaas_app;
GRANT SELECT, INSERT ON node_onboarding_events TO gpuaas_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON node_maas_state TO gpuaas_app;
