-- +goose Up
CREATE DOMAIN finding_status AS text CHECK (VALUE IN ('open', 'confirmed', 'acted', 'closed'));

ALTER TABLE maas_site_profiles ADD COLUMN release_retired_machines boolean NOT NULL DEFAULT false;
ALTER TABLE maas_site_profiles ADD COLUMN return_healed_nodes boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN maas_site_profiles.release_retired_machines IS 'Reconciliation releases and so powers off the machine of a retired node that MAAS still shows as deployed.';
COMMENT ON COLUMN maas_site_profiles.return_healed_nodes IS 'Reconciliation returns a node to service that it had quarantined itself, once the node is proven healthy.';

-- What tells one installation of a machine from the next, as it was when the
-- node was last known to be what runs there.
ALTER TABLE node_maas_state ADD COLUMN installation_id bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN node_maas_state.installation_id IS 'The installation of MAAS that the node runs on; 0: not seen yet.';
ALTER TABLE node_maas_state ADD COLUMN last_tried_at timestamptz;
COMMENT ON COLUMN node_maas_state.last_tried_at IS 'When reading the machine failed since it was last read; so it is not asked for again before all others.';
CREATE INDEX node_maas_state_sweep ON node_maas_state (site_id, (coalesce(last_tried_at, last_reconciled_at)) NULLS FIRST, node_id);
CREATE INDEX node_maas_state_drifted ON node_maas_state (node_id) WHERE drift_detected;

-- How far reconciliation of a site has come. One row a site, made at the first
-- cycle.
CREATE TABLE reconciliation_sites (
    site_id            uuid PRIMARY KEY REFERENCES maas_sites,
    event_cursor       bigint NOT NULL DEFAULT 0,
    exceptions_seen    integer NOT NULL DEFAULT 0,
    exceptions_at      timestamptz,
    sweep_began_at     timestamptz,
    sweep_ended_at     timestamptz,
    last_cycle_at      timestamptz,
    last_informed_at   timestamptz,
    last_outcome       text NOT NULL DEFAULT '',
    last_error_code    text NOT NULL DEFAULT '',
    last_error_message text NOT NULL DEFAULT '',
    tripped_at         timestamptz,
    tripped_nodes      uuid[] NOT NULL DEFAULT '{}',
    confirmed_at       timestamptz,
    confirmed_by       text NOT NULL DEFAULT '',
    running_id         uuid,
    running_until      timestamptz,
    settings_at        timestamptz,
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN reconciliation_sites.event_cursor IS 'The newest event of MAAS that was read; 0: none yet.';
COMMENT ON COLUMN reconciliation_sites.exceptions_seen IS 'How many machines the last complete listing of those that are not deployed had.';
COMMENT ON COLUMN reconciliation_sites.last_informed_at IS 'When MAAS last answered all that a cycle asked.';
COMMENT ON COLUMN reconciliation_sites.tripped_at IS 'Since when nothing is quarantined here, because too many nodes would have been.';
COMMENT ON COLUMN reconciliation_sites.tripped_nodes IS 'The nodes that would have been quarantined.';
COMMENT ON COLUMN reconciliation_sites.running_id IS 'The attempt at a run that has the site; others wait until it ends, or was not heard of until running_until.';
COMMENT ON COLUMN reconciliation_sites.settings_at IS 'When the settings of the site were last looked over for what nothing uses.';
COMMENT ON COLUMN reconciliation_sites.confirmed_at IS 'When an operator said that those nodes are to be quarantined.';

-- One look at a site: a cycle of the schedule, or what somebody or a suspicion
-- asked for. Kept for a while, for people.
CREATE TABLE reconciliation_runs (
    id             uuid PRIMARY KEY,
    site_id        uuid NOT NULL REFERENCES maas_sites,
    trigger        text NOT NULL CHECK (trigger IN ('schedule', 'operator', 'suspicion', 'resolution')),
    full_sweep     boolean NOT NULL DEFAULT false,
    dry_run        boolean NOT NULL DEFAULT false,
    node_id        uuid REFERENCES nodes,
    resolution     text NOT NULL DEFAULT '',
    reason         text NOT NULL DEFAULT '',
    requested_by   text NOT NULL DEFAULT '',
    correlation_id text NOT NULL DEFAULT '',
    outcome        text NOT NULL DEFAULT '',
    error_code     text NOT NULL DEFAULT '',
    error_message  text NOT NULL DEFAULT '',
    error_remedy   text NOT NULL DEFAULT '',
    report         jsonb NOT NULL DEFAULT '{}',
    requested_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    began_at       timestamptz,
    ended_at       timestamptz
);
CREATE INDEX reconciliation_runs_site ON reconciliation_runs (site_id, requested_at DESC, id DESC);
CREATE INDEX reconciliation_runs_newest ON reconciliation_runs (requested_at DESC, id DESC);
CREATE INDEX reconciliation_runs_open ON reconciliation_runs (site_id, trigger) WHERE ended_at IS NULL;
COMMENT ON COLUMN reconciliation_runs.outcome IS 'How it ended; empty: it has not.';
COMMENT ON COLUMN reconciliation_runs.report IS 'What was asked of MAAS, what was found, and what was done or would have been.';

-- Something in which MAAS, the agents and the inventory disagree.
CREATE TABLE reconciliation_findings (
    id              uuid PRIMARY KEY,
    site_id         uuid NOT NULL REFERENCES maas_sites,
    node_id         uuid REFERENCES nodes,
    type            text NOT NULL,
    severity        text NOT NULL CHECK (severity IN ('debug', 'info', 'warning', 'critical')),
    subject         text NOT NULL,
    status          finding_status NOT NULL,
    maas_system_id  text NOT NULL DEFAULT '',
    hostname        text NOT NULL DEFAULT '',
    expected        text NOT NULL,
    observed        text NOT NULL,
    message         text NOT NULL,
    details         jsonb NOT NULL DEFAULT '{}',
    looks           integer NOT NULL DEFAULT 1,
    occurrence      integer NOT NULL DEFAULT 1,
    action          text NOT NULL DEFAULT '',
    withheld        text NOT NULL DEFAULT '',
    action_note     text NOT NULL DEFAULT '',
    opened_at       timestamptz NOT NULL,
    last_seen_at    timestamptz NOT NULL,
    confirmed_at    timestamptz,
    acted_at        timestamptz,
    acknowledged_at timestamptz,
    acknowledged_by text NOT NULL DEFAULT '',
    acknowledgement text NOT NULL DEFAULT '',
    closed_at       timestamptz,
    closed_because  text NOT NULL DEFAULT '',
    CHECK ((status = 'closed') = (closed_at IS NOT NULL))
);
CREATE UNIQUE INDEX reconciliation_findings_present ON reconciliation_findings (site_id, type, subject) WHERE status <> 'closed';
CREATE INDEX reconciliation_findings_node ON reconciliation_findings (node_id, opened_at DESC);
CREATE INDEX reconciliation_findings_listed ON reconciliation_findings (opened_at DESC, id DESC);
CREATE INDEX reconciliation_findings_past ON reconciliation_findings (site_id, type, subject, opened_at DESC);
COMMENT ON COLUMN reconciliation_findings.subject IS 'What it is about: a node, a machine or a setting; with the type it says whether two findings are the same.';
COMMENT ON COLUMN reconciliation_findings.looks IS 'How many looks have shown it.';
COMMENT ON COLUMN reconciliation_findings.occurrence IS 'The how manieth of its kind this is for its subject, within a month.';
COMMENT ON COLUMN reconciliation_findings.action IS 'What reconciliation does about it by itself; empty: nothing.';
COMMENT ON COLUMN reconciliation_findings.withheld IS 'Why it does not; empty: nothing is in the way.';

-- Nodes that something else than MAAS raised doubts about.
CREATE TABLE reconciliation_suspicions (
    node_id uuid PRIMARY KEY REFERENCES nodes,
    site_id uuid NOT NULL REFERENCES maas_sites,
    reason  text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX reconciliation_suspicions_site ON reconciliation_suspicions (site_id, at);

-- How a node was observed from outside is part of its history, too.
ALTER TABLE node_events DROP CONSTRAINT node_events_kind_check;
ALTER TABLE node_events ADD CONSTRAINT node_events_kind_check CHECK (kind IN (
    'created', 'state_changed', 'updated', 'enrolled', 'certificate_renewed', 'certificate_revoked', 'identity_conflict', 'agent_reported', 'observed'));
CREATE INDEX node_events_observed ON node_events (node_id, seq DESC) WHERE kind = 'observed';
COMMENT ON COLUMN node_events.snapshot IS 'The node after the change: what answers "as of"; of what was observed, that alone.';

-- What somebody else observed about the machine or the node of a job is part of
-- its ledger, too.
ALTER TABLE node_onboarding_events DROP CONSTRAINT node_onboarding_events_status_check;
ALTER TABLE node_onboarding_events ADD CONSTRAINT node_onboarding_events_status_check CHECK (status IN (
    'started', 'succeeded', 'failed', 'skipped', 'compensated', 'action', 'note', 'observed'));
ALTER TABLE node_decommission_events DROP CONSTRAINT node_decommission_events_status_check;
ALTER TABLE node_decommission_events ADD CONSTRAINT node_decommission_events_status_check CHECK (status IN (
    'started', 'succeeded', 'failed', 'skipped', 'compensated', 'action', 'note', 'observed'));

GRANT SELECT, INSERT, UPDATE ON reconciliation_sites, reconciliation_findings TO gpuaas_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON reconciliation_runs, reconciliation_suspicions TO gpuaas_app;
