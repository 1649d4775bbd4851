-- +goose Up
-- The inventory. What MAAS knows of a machine is kept elsewhere.
CREATE TABLE nodes (
    id                       uuid PRIMARY KEY,
    status                   node_status NOT NULL,
    hostname                 text NOT NULL CHECK (hostname ~ '^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$'),
    host                     text NOT NULL CHECK (length(host) <= 253),
    port                     integer NOT NULL DEFAULT 22 CHECK (port BETWEEN 1 AND 65535),
    sku_id                   text NOT NULL REFERENCES skus,
    gpus_total               integer NOT NULL CHECK (gpus_total BETWEEN 0 AND 64),
    region_code              text NOT NULL CHECK (region_code ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    onboarding_mode          text NOT NULL CHECK (onboarding_mode IN ('manual', 'maas')),
    ssh_username             text NOT NULL DEFAULT '' CHECK (length(ssh_username) <= 32),
    access_method            text NOT NULL DEFAULT 'agent' CHECK (access_method IN ('agent', 'ssh')),
    schedulable              boolean NOT NULL DEFAULT false,
    hold_reason              text NOT NULL DEFAULT '' CHECK (length(hold_reason) <= 500),
    generation               bigint NOT NULL DEFAULT 1,
    agent_channel            text NOT NULL DEFAULT 'stable' CHECK (agent_channel IN ('stable', 'candidate', 'pinned')),
    desired_agent_version    text NOT NULL DEFAULT '',
    desired_delivery_mode    text NOT NULL DEFAULT 'rebootstrap' CHECK (desired_delivery_mode IN ('reimage', 'manual_install', 'rebootstrap')),
    reported_agent_version   text NOT NULL DEFAULT '',
    reported_agent_commit    text NOT NULL DEFAULT '',
    last_delivery_attempt_at timestamptz,
    last_delivery_result     text NOT NULL DEFAULT '',
    last_delivery_correlation_id text NOT NULL DEFAULT '',
    agent_instance           text NOT NULL DEFAULT '',
    verifier_version         bigint NOT NULL DEFAULT 0,
    certificate_not_after    timestamptz,
    capabilities             jsonb NOT NULL DEFAULT '{}',
    version                  bigint NOT NULL DEFAULT 1,
    created_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    status_changed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (NOT schedulable OR status = 'active' AND hold_reason = '')
);
CREATE UNIQUE INDEX nodes_hostname ON nodes (region_code, hostname) WHERE status <> 'deleted';
CREATE INDEX nodes_status ON nodes (status, id);
CREATE INDEX nodes_created ON nodes (created_at DESC, id DESC);
COMMENT ON COLUMN nodes.generation IS 'Fences effects: grows whenever the node is taken over (reimage, new identity); tasks of an older generation are void.';
COMMENT ON COLUMN nodes.hold_reason IS 'Why an active node must not be scheduled; empty: nothing holds it.';
COMMENT ON COLUMN nodes.agent_instance IS 'Fingerprint of the machine that enrolled; another machine with the same certificate is refused.';
COMMENT ON COLUMN nodes.capabilities IS 'The facts that the scheduler goes by, such as gpu.vendor; everything else that inspection found is in node_inspections.';
COMMENT ON COLUMN nodes.certificate_not_after IS 'End of the newest certificate; absent: none was issued, or all were revoked.';
COMMENT ON COLUMN nodes.verifier_version IS 'Version of the set of task verifiers that the agent says it uses.';

-- What inspection found on the machine. Apart from nodes, because it is large
-- and seldom read.
CREATE TABLE node_inspections (
    node_id      uuid PRIMARY KEY REFERENCES nodes,
    found        jsonb NOT NULL,
    inspected_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- When the agent was last heard of. Apart from nodes, because it changes with
-- every poll: narrow rows, written in batches.
CREATE TABLE node_contacts (
    node_id           uuid PRIMARY KEY REFERENCES nodes,
    last_contact_at   timestamptz NOT NULL,
    recovering_since  timestamptz,
    session_id        text NOT NULL DEFAULT '',
    previous_session  text NOT NULL DEFAULT '',
    refused_session   text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
CREATE INDEX node_contacts_age ON node_contacts (last_contact_at);
COMMENT ON COLUMN node_contacts.recovering_since IS 'Since when a node that was offline has been heard of again without a gap.';
COMMENT ON COLUMN node_contacts.session_id IS 'The agent process that polls now; previous_session is the one before it, which must not come back.';

-- One row: since when somebody has been listening to agents without a gap.
-- While nobody listens, silence says nothing about the nodes.
CREATE TABLE node_listening (
    one_row         boolean PRIMARY KEY DEFAULT true CHECK (one_row),
    listening_since timestamptz NOT NULL,
    last_flush_at   timestamptz NOT NULL
);

-- Every change of a node: what it was, what caused it, who did it. Kept for
-- ever; the state at any time can be read from it.
CREATE TABLE node_events (
    seq            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id        uuid NOT NULL REFERENCES nodes,
    occurred_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind           text NOT NULL CHECK (kind IN ('created', 'state_changed', 'updated', 'enrolled', 'certificate_renewed', 'certificate_revoked', 'identity_conflict', 'agent_reported')),
    event          text NOT NULL DEFAULT '',
    from_status    text NOT NULL DEFAULT '',
    to_status      text NOT NULL DEFAULT '',
    cause          text NOT NULL,
    actor_kind     text NOT NULL,
    actor_id       text NOT NULL,
    correlation_id text NOT NULL,
    snapshot       jsonb NOT NULL
);
CREATE INDEX node_events_node ON node_events (node_id, seq DESC);
COMMENT ON COLUMN node_events.snapshot IS 'The node after the change: what answers "as of".';

-- Tokens that a node may bootstrap and enrol with. Only the hash is kept.
CREATE TABLE node_tokens (
    token_hash      bytea PRIMARY KEY CHECK (length(token_hash) = 32),
    node_id         uuid NOT NULL REFERENCES nodes,
    purpose         text NOT NULL CHECK (purpose IN ('bootstrap', 'recovery')),
    expires_at      timestamptz NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by      text NOT NULL,
    consumed_at     timestamptz,
    consumed_by_key text NOT NULL DEFAULT '',
    revoked_at      timestamptz
);
CREATE INDEX node_tokens_node ON node_tokens (node_id);
COMMENT ON COLUMN node_tokens.consumed_by_key IS 'Fingerprint of the public key that consumed it: the same key may repeat a request whose answer was lost, another may not.';

-- Certificates that were issued to nodes; the denylist is the revoked ones.
CREATE TABLE node_certificates (
    serial          text PRIMARY KEY,
    node_id         uuid NOT NULL REFERENCES nodes,
    key_fingerprint text NOT NULL,
    issued_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    not_after       timestamptz NOT NULL,
    revoked_at      timestamptz,
    revoked_reason  text NOT NULL DEFAULT ''
);
CREATE INDEX node_certificates_node ON node_certificates (node_id, issued_at DESC);

GRANT SELECT, INSERT, UPDATE ON nodes, node_inspections, node_tokens, node_certificates, node_listening TO gpuaas_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON node_contacts TO gpuaas_app;
GRANT SELECT, INSERT ON node_events TO gpuaas_app;
