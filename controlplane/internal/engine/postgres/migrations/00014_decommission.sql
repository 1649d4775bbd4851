-- +goose Up
-- Cleaning fails in ways of its own.
ALTER DOMAIN failure_class DROP CONSTRAINT failure_class_check;
ALTER DOMAIN failure_class ADD CONSTRAINT failure_class_check CHECK (VALUE IN (
    '', 'input_config_error', 'site_capability_missing', 'upstream_transient', 'bmc_power_failure', 'pxe_discovery_failure',
    'hardware_mismatch', 'deploy_cloud_init_failure', 'post_deploy_connectivity_failure', 'hardware_sync_failure',
    'agent_enrollment_failure', 'node_agent_unreachable', 'sanitization_failure', 'state_ambiguity'));

-- What a tenant had access to must be proven clean before it is scheduled anew,
-- and an operation that works on a node keeps it out of scheduling.
ALTER TABLE nodes ADD COLUMN held_by text NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN tainted_at timestamptz;
ALTER TABLE nodes ADD COLUMN clean_at timestamptz;
ALTER TABLE nodes ADD COLUMN held_unclean boolean NOT NULL DEFAULT false;
ALTER TABLE nodes ADD CONSTRAINT nodes_held CHECK (NOT schedulable OR held_by = '');
ALTER TABLE nodes ADD CONSTRAINT nodes_held_unclean CHECK (NOT held_unclean OR hold_reason <> '');
-- Whose machine comes back is looked for by name.
CREATE INDEX nodes_left ON nodes (region_code, hostname) WHERE status = 'deleted';
COMMENT ON COLUMN nodes.held_by IS 'The operation that keeps the node out of scheduling, such as decommission <id>; empty: none does.';
COMMENT ON COLUMN nodes.tainted_at IS 'When a tenant last got access to the node, or it was found unclean.';
COMMENT ON COLUMN nodes.held_unclean IS 'Whether the reason that holds the node is that it is not proven clean, which a clean validation takes away.';
COMMENT ON COLUMN nodes.clean_at IS 'When the node was last proven clean: a validation that found nothing.';

ALTER TABLE maas_site_profiles ADD COLUMN minimum_erase text NOT NULL DEFAULT 'none' CHECK (minimum_erase IN ('none', 'quick', 'secure'));
ALTER TABLE maas_site_profiles ADD COLUMN minimum_sanitization text NOT NULL DEFAULT 'clear' CHECK (minimum_sanitization IN ('clear', 'purge'));
ALTER TABLE maas_site_profiles ADD COLUMN remove_maas_record boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN maas_site_profiles.minimum_erase IS 'The least erasing that a release of a machine is asked for.';
COMMENT ON COLUMN maas_site_profiles.minimum_sanitization IS 'The least that the agent must do to data disks, by the levels of NIST SP 800-88.';
COMMENT ON COLUMN maas_site_profiles.remove_maas_record IS 'Delete the machine in MAAS when its node is fully decommissioned.';

-- Decommissions that were asked for together.
CREATE TABLE node_decommission_batches (
    id             uuid PRIMARY KEY,
    mode           text NOT NULL,
    selector       jsonb NOT NULL,
    total          integer NOT NULL CHECK (total > 0),
    max_parallel   integer NOT NULL CHECK (max_parallel > 0),
    max_failures   integer NOT NULL CHECK (max_failures >= 0),
    requested_by   text NOT NULL,
    correlation_id text NOT NULL,
    reason         text NOT NULL,
    requested_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    cancelled_at   timestamptz
);
CREATE INDEX node_decommission_batches_requested ON node_decommission_batches (requested_at DESC, id DESC);
COMMENT ON COLUMN node_decommission_batches.max_failures IS 'When more than so many are parked or cancelled, no further one is begun.';

-- One operation that cleans, puts aside or removes a node. The row is what
-- operators read and what fences effects; the workflow of the same id drives it.
CREATE TABLE node_decommissions (
    id               uuid PRIMARY KEY,
    batch_id         uuid REFERENCES node_decommission_batches,
    node_id          uuid NOT NULL REFERENCES nodes,
    site_id          uuid REFERENCES maas_sites,
    profile_id       uuid REFERENCES maas_site_profiles,
    hostname         text NOT NULL,
    ipmi_ip          text NOT NULL DEFAULT '',
    pxe_mac          text NOT NULL DEFAULT '',
    maas_system_id   text NOT NULL DEFAULT '',
    mode             text NOT NULL CHECK (mode IN ('soft_reset', 'reimage', 'full_decommission', 'storage_cleanup', 'drain', 'retire', 'reactivate', 'remove')),
    erase            text NOT NULL DEFAULT 'none' CHECK (erase IN ('none', 'quick', 'secure')),
    storage_cleanup  text NOT NULL DEFAULT 'none' CHECK (storage_cleanup IN ('none', 'local', 'weka', 'all')),
    reason           text NOT NULL,
    plan_hash        text NOT NULL DEFAULT '',
    origin           text NOT NULL DEFAULT '',
    overrides        jsonb NOT NULL DEFAULT '[]',
    follow_ups       jsonb NOT NULL DEFAULT '[]',
    status           job_status NOT NULL DEFAULT 'pending',
    current_stage    text NOT NULL,
    current_attempt  integer NOT NULL DEFAULT 0,
    current_takes    integer NOT NULL DEFAULT 0,
    epoch            bigint NOT NULL DEFAULT 1,
    action           text NOT NULL DEFAULT '',
    adopted          boolean NOT NULL DEFAULT false,
    failure_class    failure_class NOT NULL DEFAULT '',
    error_code       text NOT NULL DEFAULT '',
    error_message    text NOT NULL DEFAULT '',
    error_remedy     text NOT NULL DEFAULT '',
    error_details    jsonb NOT NULL DEFAULT '{}',
    facts            jsonb NOT NULL DEFAULT '{}',
    observed_status  text NOT NULL DEFAULT '',
    observed_power   text NOT NULL DEFAULT '',
    observed_ips     text[] NOT NULL DEFAULT '{}',
    observed_at      timestamptz,
    observed_since   timestamptz,
    workflow_id      text NOT NULL,
    workflow_run_id  text NOT NULL DEFAULT '',
    requested_by     text NOT NULL,
    requested_by_name text NOT NULL DEFAULT '',
    correlation_id   text NOT NULL,
    requested_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    admitted_at      timestamptz,
    started_at       timestamptz,
    stage_started_at timestamptz,
    parked_at        timestamptz,
    completed_at     timestamptz,
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((status IN ('completed', 'cancelled', 'reconciled')) = (completed_at IS NOT NULL)),
    CHECK ((status IN ('failed_retryable', 'failed_manual_intervention')) = (parked_at IS NOT NULL))
);
-- A node has one operation at a time.
CREATE UNIQUE INDEX node_decommissions_live ON node_decommissions (node_id) WHERE completed_at IS NULL;
CREATE INDEX node_decommissions_requested ON node_decommissions (requested_at DESC, id DESC);
CREATE INDEX node_decommissions_node ON node_decommissions (node_id, id);
CREATE INDEX node_decommissions_batch ON node_decommissions (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX node_decommissions_open ON node_decommissions (status, id) WHERE completed_at IS NULL;
COMMENT ON COLUMN node_decommissions.origin IS 'The state that the node was in when this was asked for.';
COMMENT ON COLUMN node_decommissions.overrides IS 'Stages that an operator decided to go on without, with the residual risk.';
COMMENT ON COLUMN node_decommissions.follow_ups IS 'What is left to be done by somebody.';
COMMENT ON COLUMN node_decommissions.epoch IS 'Fences effects: grows with every action of an operator; a run of an older epoch can do nothing.';
COMMENT ON COLUMN node_decommissions.facts IS 'What stages found out and later stages go by. Never a secret.';

-- The ledger of a decommission.
CREATE TABLE node_decommission_events (
    seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    decommission_id uuid NOT NULL REFERENCES node_decommissions,
    epoch           bigint NOT NULL,
    stage           text NOT NULL,
    attempt         integer NOT NULL,
    status          text NOT NULL CHECK (status IN ('started', 'succeeded', 'failed', 'skipped', 'compensated', 'action', 'note')),
    message         text NOT NULL DEFAULT '',
    details         jsonb NOT NULL DEFAULT '{}',
    occurred_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX node_decommission_events_of ON node_decommission_events (decommission_id, seq);

-- What a stage saw that proves, or disproves, what it claims.
CREATE TABLE node_decommission_evidence (
    seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    decommission_id uuid NOT NULL REFERENCES node_decommissions,
    stage           text NOT NULL,
    attempt         integer NOT NULL,
    epoch           bigint NOT NULL,
    kind            text NOT NULL,
    evidence        jsonb NOT NULL,
    recorded_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX node_decommission_evidence_of ON node_decommission_evidence (decommission_id, seq);
COMMENT ON COLUMN node_decommission_evidence.kind IS 'What sort of evidence it is, which tells how to read it.';

-- Certificates and handover receipts: what was issued about the cleaning of a
-- node, each chained to the one before it.
CREATE TABLE decommission_certificates (
    id              uuid PRIMARY KEY,
    node_id         uuid NOT NULL REFERENCES nodes,
    seq             integer NOT NULL CHECK (seq > 0),
    kind            text NOT NULL CHECK (kind IN ('certificate', 'handover_receipt')),
    decommission_id uuid NOT NULL,
    document        jsonb NOT NULL,
    digest          text NOT NULL,
    previous_digest text NOT NULL DEFAULT '',
    key_id          text NOT NULL,
    issued_at       timestamptz NOT NULL,
    evidence_seq    bigint NOT NULL,
    UNIQUE (node_id, seq),
    UNIQUE (decommission_id, evidence_seq)
);
CREATE INDEX decommission_certificates_issued ON decommission_certificates (issued_at DESC, id DESC);
COMMENT ON COLUMN decommission_certificates.document IS 'The signed document, as it is handed out.';
COMMENT ON COLUMN decommission_certificates.evidence_seq IS 'The newest evidence that it was made of: an operation that went on afterwards gets another.';

GRANT SELECT, INSERT, UPDATE ON node_decommission_batches, node_decommissions TO gpuaas_app;
GRANT SELECT, INSERT ON node_decommission_events, node_decommission_evidence, decommission_certificates TO gpuaas_app;
