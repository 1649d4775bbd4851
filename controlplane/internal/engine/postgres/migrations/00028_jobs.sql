-- +goose Up
-- Jobs of all families have one table, one ledger and one table of batches; a
-- family keeps only what is its own in tables of its own. Processes of the version
-- before cannot write any of it: stop all of them before this runs.

-- A process that was not stopped waits here, and fails afterwards, instead of
-- writing rows that nobody carries over.
LOCK TABLE node_onboarding_batches, node_onboardings, node_onboarding_events, node_decommission_batches, node_decommissions,
    node_decommission_events, node_decommission_evidence IN ACCESS EXCLUSIVE MODE;

-- What a status means to whoever carries jobs out. Statements go by it, because
-- each family has statuses of its own.
CREATE DOMAIN job_phase AS text CONSTRAINT job_phase_check CHECK (VALUE IN ('waiting', 'working', 'undoing', 'parked', 'over'));

-- Jobs that were asked for together.
CREATE TABLE job_batches (
    id             uuid PRIMARY KEY,
    family         text NOT NULL,
    total          integer NOT NULL CHECK (total > 0),
    max_parallel   integer CHECK (max_parallel > 0),
    max_failures   integer CHECK (max_failures >= 0),
    reason         text NOT NULL DEFAULT '',
    requested_by   text NOT NULL,
    correlation_id text NOT NULL,
    requested_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_at      timestamptz,
    cancelled_at   timestamptz
);
CREATE INDEX job_batches_family ON job_batches (family, id);
COMMENT ON COLUMN job_batches.max_parallel IS 'How many of it hold a place at once; null: as many as the family says.';
COMMENT ON COLUMN job_batches.max_failures IS 'When more than so many are parked or were cancelled, no further one is begun; null: that does not matter.';

-- A job. The row is what operators read and what fences effects; the workflow of
-- the same id drives it.
CREATE TABLE jobs (
    id               uuid PRIMARY KEY,
    family           text NOT NULL,
    kind             text NOT NULL DEFAULT '',
    batch_id         uuid REFERENCES job_batches,
    site_id          uuid REFERENCES maas_sites,
    node_id          uuid,
    subject          text NOT NULL,
    status           text NOT NULL,
    phase            job_phase NOT NULL,
    current_stage    text NOT NULL,
    current_attempt  integer NOT NULL DEFAULT 0,
    current_takes    integer NOT NULL DEFAULT 0,
    epoch            bigint NOT NULL DEFAULT 1 CONSTRAINT jobs_fence CHECK (epoch > 0),
    action           text NOT NULL DEFAULT '',
    adopted          boolean NOT NULL DEFAULT false,
    failure_class    failure_class NOT NULL DEFAULT '',
    error_code       text NOT NULL DEFAULT '',
    error_message    text NOT NULL DEFAULT '',
    error_remedy     text NOT NULL DEFAULT '',
    error_details    jsonb NOT NULL DEFAULT '{}',
    workflow_id      text NOT NULL,
    workflow_run_id  text NOT NULL DEFAULT '',
    requested_by     text NOT NULL,
    correlation_id   text NOT NULL,
    requested_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    admitted_at      timestamptz,
    started_at       timestamptz,
    stage_started_at timestamptz,
    parked_at        timestamptz,
    completed_at     timestamptz,
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT jobs_over CHECK ((phase = 'over') = (completed_at IS NOT NULL)),
    CONSTRAINT jobs_parked CHECK ((phase = 'parked') = (parked_at IS NOT NULL)),
    -- The lifecycle that these two families share.
    CONSTRAINT jobs_status CHECK (CASE WHEN family IN ('onboarding', 'decommission') THEN status::job_status IS NOT NULL ELSE true END),
    CONSTRAINT jobs_onboarding CHECK (family <> 'onboarding'
        OR site_id IS NOT NULL AND node_id IS NOT NULL AND subject ~ '^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$'),
    CONSTRAINT jobs_decommission CHECK (family <> 'decommission' OR node_id IS NOT NULL AND kind IN (
        'soft_reset', 'reimage', 'full_decommission', 'storage_cleanup', 'drain', 'retire', 'reactivate', 'remove'))
);
COMMENT ON COLUMN jobs.kind IS 'What sort of job of its family it is, such as the mode of a decommission; empty: the family has one sort.';
COMMENT ON COLUMN jobs.node_id IS 'The id that its node has, or will have once it is made; null: it is about no node.';
COMMENT ON COLUMN jobs.subject IS 'What it is about, for people: a host name, for instance.';
COMMENT ON COLUMN jobs.epoch IS 'Fences effects: grows with every action of an operator; a run of an older epoch can do nothing.';
COMMENT ON COLUMN jobs.current_takes IS 'How often the attempt was taken up: more than once when workers died in it.';
COMMENT ON COLUMN jobs.action IS 'What an operator asked for and the workflow has not finished yet.';
COMMENT ON COLUMN jobs.admitted_at IS 'When it was given a place within the limits of its batch and site.';
COMMENT ON COLUMN jobs.updated_at IS 'The token of whoever took the stage up last: a worker that lost touch holds an older one.';

-- What one job at a time may have: a host name, a machine, a node. Claims end with
-- their job.
CREATE TABLE job_claims (
    job_id uuid NOT NULL REFERENCES jobs,
    kind   text NOT NULL,
    key    text NOT NULL,
    PRIMARY KEY (job_id, kind)
);
CREATE UNIQUE INDEX job_claims_key ON job_claims (kind, key) WHERE key <> '';
COMMENT ON COLUMN job_claims.key IS 'What is claimed; empty: nothing, or nothing any more.';

-- The ledger of a job.
CREATE TABLE job_events (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    job_id      uuid NOT NULL REFERENCES jobs,
    epoch       bigint NOT NULL,
    stage       text NOT NULL,
    attempt     integer NOT NULL,
    status      text NOT NULL CONSTRAINT job_events_status_check CHECK (status IN (
        'started', 'succeeded', 'failed', 'skipped', 'compensated', 'action', 'note', 'observed')),
    message     text NOT NULL DEFAULT '',
    details     jsonb NOT NULL DEFAULT '{}',
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, seq)
);

-- What onboardings have beside that.
CREATE TABLE onboarding_batches (
    batch_id   uuid PRIMARY KEY REFERENCES job_batches,
    site_id    uuid NOT NULL REFERENCES maas_sites,
    profile_id uuid NOT NULL REFERENCES maas_site_profiles,
    sku_id     text NOT NULL REFERENCES skus
);
CREATE TABLE onboarding_jobs (
    job_id           uuid PRIMARY KEY REFERENCES jobs,
    profile_id       uuid NOT NULL REFERENCES maas_site_profiles,
    sku_id           text NOT NULL REFERENCES skus,
    ipmi_ip          text NOT NULL CHECK (length(ipmi_ip) <= 45),
    pxe_mac          text NOT NULL DEFAULT '',
    maas_system_id   text NOT NULL DEFAULT '',
    initialize_disks boolean NOT NULL DEFAULT false,
    facts            jsonb NOT NULL DEFAULT '{}',
    observed_status  text NOT NULL DEFAULT '',
    observed_power   text NOT NULL DEFAULT '',
    observed_ips     text[] NOT NULL DEFAULT '{}',
    observed_at      timestamptz,
    observed_since   timestamptz
);
COMMENT ON COLUMN onboarding_jobs.observed_since IS 'Since when MAAS has been seen in observed_status.';
COMMENT ON COLUMN onboarding_jobs.facts IS 'What stages found out and later stages go by. Never a secret.';

-- What decommissions have beside that.
CREATE TABLE decommission_batches (
    batch_id uuid PRIMARY KEY REFERENCES job_batches,
    mode     text NOT NULL,
    selector jsonb NOT NULL
);
CREATE TABLE decommission_jobs (
    job_id            uuid PRIMARY KEY REFERENCES jobs,
    profile_id        uuid REFERENCES maas_site_profiles,
    ipmi_ip           text NOT NULL DEFAULT '',
    pxe_mac           text NOT NULL DEFAULT '',
    maas_system_id    text NOT NULL DEFAULT '',
    erase             text NOT NULL DEFAULT 'none' CHECK (erase IN ('none', 'quick', 'secure')),
    storage_cleanup   text NOT NULL DEFAULT 'none' CHECK (storage_cleanup IN ('none', 'local', 'weka', 'all')),
    reason            text NOT NULL,
    plan_hash         text NOT NULL DEFAULT '',
    origin            text NOT NULL DEFAULT '',
    overrides         jsonb NOT NULL DEFAULT '[]',
    follow_ups        jsonb NOT NULL DEFAULT '[]',
    requested_by_name text NOT NULL DEFAULT '',
    facts             jsonb NOT NULL DEFAULT '{}',
    observed_status   text NOT NULL DEFAULT '',
    observed_power    text NOT NULL DEFAULT '',
    observed_ips      text[] NOT NULL DEFAULT '{}',
    observed_at       timestamptz,
    observed_since    timestamptz
);
COMMENT ON COLUMN decommission_jobs.origin IS 'The state that the node was in when this was asked for.';
COMMENT ON COLUMN decommission_jobs.overrides IS 'Stages that an operator decided to go on without, with the residual risk.';
COMMENT ON COLUMN decommission_jobs.follow_ups IS 'What is left to be done by somebody.';
COMMENT ON COLUMN decommission_jobs.facts IS 'What stages found out and later stages go by. Never a secret.';

-- What is there is carried over: batches first, then jobs, then what belongs to jobs.
INSERT INTO job_batches (id, family, total, requested_by, correlation_id, requested_at, paused_at, cancelled_at)
SELECT id, 'onboarding', total, requested_by, correlation_id, requested_at, paused_at, cancelled_at FROM node_onboarding_batches;
INSERT INTO onboarding_batches (batch_id, site_id, profile_id, sku_id) SELECT id, site_id, profile_id, sku_id FROM node_onboarding_batches;
INSERT INTO job_batches (id, family, total, max_parallel, max_failures, reason, requested_by, correlation_id, requested_at, cancelled_at)
SELECT id, 'decommission', total, max_parallel, max_failures, reason, requested_by, correlation_id, requested_at, cancelled_at FROM node_decommission_batches;
INSERT INTO decommission_batches (batch_id, mode, selector) SELECT id, mode, selector FROM node_decommission_batches;

INSERT INTO jobs (id, family, kind, batch_id, site_id, node_id, subject, status, phase, current_stage, current_attempt, current_takes, epoch, action, adopted,
    failure_class, error_code, error_message, error_remedy, error_details, workflow_id, workflow_run_id, requested_by, correlation_id, requested_at, admitted_at,
    started_at, stage_started_at, parked_at, completed_at, updated_at)
SELECT o.id, o.family, o.kind, o.batch_id, o.site_id, o.node_id, o.hostname, o.status,
    CASE o.status WHEN 'pending' THEN 'waiting' WHEN 'running' THEN 'working' WHEN 'compensating' THEN 'undoing'
        WHEN 'failed_retryable' THEN 'parked' WHEN 'failed_manual_intervention' THEN 'parked' ELSE 'over' END,
    o.current_stage, o.current_attempt, o.current_takes, o.epoch, o.action, o.adopted,
    o.failure_class, o.error_code, o.error_message, o.error_remedy, o.error_details, o.workflow_id, o.workflow_run_id, o.requested_by, o.correlation_id,
    o.requested_at, o.admitted_at, o.started_at, o.stage_started_at, o.parked_at, o.completed_at, o.updated_at
FROM (SELECT id, 'onboarding' AS family, '' AS kind, batch_id, site_id, node_id, hostname, status, current_stage, current_attempt, current_takes, epoch, action,
          adopted, failure_class, error_code, error_message, error_remedy, error_details, workflow_id, workflow_run_id, requested_by, correlation_id,
          requested_at, admitted_at, started_at, stage_started_at, parked_at, completed_at, updated_at FROM node_onboardings
      UNION ALL
      SELECT id, 'decommission', mode, batch_id, site_id, node_id, hostname, status, current_stage, current_attempt, current_takes, epoch, action,
          adopted, failure_class, error_code, error_message, error_remedy, error_details, workflow_id, workflow_run_id, requested_by, correlation_id,
          requested_at, admitted_at, started_at, stage_started_at, parked_at, completed_at, updated_at FROM node_decommissions) o;
INSERT INTO onboarding_jobs (job_id, profile_id, sku_id, ipmi_ip, pxe_mac, maas_system_id, initialize_disks, facts,
    observed_status, observed_power, observed_ips, observed_at, observed_since)
SELECT id, profile_id, sku_id, ipmi_ip, pxe_mac, maas_system_id, initialize_disks, facts,
    observed_status, observed_power, observed_ips, observed_at, observed_since FROM node_onboardings;
INSERT INTO decommission_jobs (job_id, profile_id, ipmi_ip, pxe_mac, maas_system_id, erase, storage_cleanup, reason, plan_hash, origin, overrides, follow_ups,
    requested_by_name, facts, observed_status, observed_power, observed_ips, observed_at, observed_since)
SELECT id, profile_id, ipmi_ip, pxe_mac, maas_system_id, erase, storage_cleanup, reason, plan_hash, origin, overrides, follow_ups,
    requested_by_name, facts, observed_status, observed_power, observed_ips, observed_at, observed_since FROM node_decommissions;

INSERT INTO job_claims (job_id, kind, key)
SELECT id, 'onboarding.hostname', site_id || ' ' || hostname FROM node_onboardings WHERE completed_at IS NULL
UNION ALL SELECT id, 'onboarding.bmc', site_id || ' ' || ipmi_ip FROM node_onboardings WHERE completed_at IS NULL
UNION ALL SELECT id, 'onboarding.machine', CASE WHEN maas_system_id <> '' THEN site_id || ' ' || maas_system_id ELSE '' END
    FROM node_onboardings WHERE completed_at IS NULL
UNION ALL SELECT id, 'decommission.node', node_id::text FROM node_decommissions WHERE completed_at IS NULL;

-- Entries keep their numbers: readers go on after the last one that they have.
INSERT INTO job_events (seq, job_id, epoch, stage, attempt, status, message, details, occurred_at) OVERRIDING SYSTEM VALUE
SELECT seq, onboarding_id, epoch, stage, attempt, status, message, details, occurred_at FROM node_onboarding_events
UNION ALL SELECT seq, decommission_id, epoch, stage, attempt, status, message, details, occurred_at FROM node_decommission_events;
SELECT setval(pg_get_serial_sequence('job_events', 'seq'), COALESCE((SELECT max(seq) FROM job_events), 0) + 1, false);

ALTER TABLE node_decommission_evidence DROP CONSTRAINT node_decommission_evidence_decommission_id_fkey;
ALTER TABLE node_decommission_evidence ADD CONSTRAINT node_decommission_evidence_decommission_id_fkey
    FOREIGN KEY (decommission_id) REFERENCES decommission_jobs;
DROP TABLE node_onboarding_events, node_decommission_events;
DROP TABLE node_onboardings, node_decommissions;
DROP TABLE node_onboarding_batches, node_decommission_batches;

CREATE INDEX jobs_family ON jobs (family, id);
CREATE INDEX jobs_live ON jobs (site_id, family, phase, requested_at) WHERE completed_at IS NULL;
CREATE INDEX jobs_batch ON jobs (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX jobs_node ON jobs (node_id, id);

-- For whoever reads jobs of one family whole. Nobody writes through these.
CREATE VIEW node_onboarding_batches AS
SELECT b.id, o.site_id, o.profile_id, o.sku_id, b.total, b.requested_by, b.correlation_id, b.requested_at, b.paused_at, b.cancelled_at,
    b.max_parallel, b.max_failures, b.reason
FROM job_batches b JOIN onboarding_batches o ON o.batch_id = b.id WHERE b.family = 'onboarding';

CREATE VIEW node_onboardings AS
SELECT j.id, j.batch_id, j.site_id, o.profile_id, o.sku_id, j.subject AS hostname, o.ipmi_ip, o.pxe_mac, o.maas_system_id, j.node_id, o.initialize_disks,
    j.status::job_status AS status, j.current_stage, j.current_attempt, j.current_takes, j.epoch, j.action, j.adopted,
    j.failure_class, j.error_code, j.error_message, j.error_remedy, j.error_details, o.facts,
    o.observed_status, o.observed_power, o.observed_ips, o.observed_at, o.observed_since,
    j.workflow_id, j.workflow_run_id, j.requested_by, j.correlation_id, j.requested_at, j.admitted_at, j.started_at, j.stage_started_at,
    j.parked_at, j.completed_at, j.updated_at
FROM jobs j JOIN onboarding_jobs o ON o.job_id = j.id WHERE j.family = 'onboarding';

CREATE VIEW node_decommission_batches AS
SELECT b.id, d.mode, d.selector, b.total, b.max_parallel, b.max_failures, b.requested_by, b.correlation_id, b.reason, b.requested_at, b.cancelled_at, b.paused_at
FROM job_batches b JOIN decommission_batches d ON d.batch_id = b.id WHERE b.family = 'decommission';

CREATE VIEW node_decommissions AS
SELECT j.id, j.batch_id, j.node_id, j.site_id, d.profile_id, j.subject AS hostname, d.ipmi_ip, d.pxe_mac, d.maas_system_id,
    j.kind AS mode, d.erase, d.storage_cleanup, d.reason, d.plan_hash, d.origin, d.overrides, d.follow_ups,
    j.status::job_status AS status, j.current_stage, j.current_attempt, j.current_takes, j.epoch, j.action, j.adopted,
    j.failure_class, j.error_code, j.error_message, j.error_remedy, j.error_details, d.facts,
    d.observed_status, d.observed_power, d.observed_ips, d.observed_at, d.observed_since,
    j.workflow_id, j.workflow_run_id, j.requested_by, d.requested_by_name, j.correlation_id, j.requested_at, j.admitted_at, j.started_at, j.stage_started_at,
    j.parked_at, j.completed_at, j.updated_at
FROM jobs j JOIN decommission_jobs d ON d.job_id = j.id WHERE j.family = 'decommission';

GRANT SELECT, INSERT, UPDATE ON job_batches, jobs, onboarding_jobs, decommission_jobs TO gpuaas_app;
GRANT SELECT, INSERT ON job_events, onboarding_batches, decommission_batches TO gpuaas_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON job_claims TO gpuaas_app;
GRANT SELECT ON node_onboarding_batches, node_onboardings, node_decommission_batches, node_decommissions TO gpuaas_app;
