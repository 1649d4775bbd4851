-- +goose Up
-- What tenants rent. An allocation lives as its lifecycle table says; its claim on a node is a row of its own, which
-- outlives the allocation until the node is proven clean or has left the fleet.
CREATE DOMAIN allocation_status AS text CHECK (VALUE IN
    ('requested', 'provisioning', 'active', 'releasing', 'released', 'failed', 'release_failed'));

CREATE TABLE allocations (
    id                      uuid PRIMARY KEY,
    org_id                  uuid NOT NULL REFERENCES organizations,
    project_id              uuid NOT NULL REFERENCES projects,
    group_id                uuid,
    name                    text NOT NULL DEFAULT '' CHECK (length(name) <= 100),
    labels                  jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    status                  allocation_status NOT NULL DEFAULT 'requested',
    capacity_shape          text NOT NULL CHECK (capacity_shape IN ('baremetal', 'gpu_slice')),
    sku_id                  text NOT NULL REFERENCES skus,
    sku_terms               jsonb NOT NULL,
    price_minor             bigint NOT NULL,
    price_currency          text NOT NULL,
    gpus                    integer NOT NULL CHECK (gpus >= 0),
    region_code             text NOT NULL,
    node_id                 uuid NOT NULL REFERENCES nodes,
    hostname                text NOT NULL,
    wish                    jsonb NOT NULL DEFAULT '{}',
    placements              integer NOT NULL DEFAULT 1,
    access                  text NOT NULL CHECK (access IN ('user', 'root')),
    username                text NOT NULL DEFAULT '',
    uid                     integer NOT NULL DEFAULT 0,
    ssh_keys                jsonb NOT NULL DEFAULT '[]',
    protected               boolean NOT NULL DEFAULT false,
    expires_at              timestamptz,
    event_id                uuid NOT NULL,
    requested_by            text NOT NULL,
    requested_by_name       text NOT NULL DEFAULT '',
    correlation_id          text NOT NULL DEFAULT '',
    waiting_for             text NOT NULL DEFAULT '',
    failure_code            text NOT NULL DEFAULT '',
    failure_reason          text NOT NULL DEFAULT '',
    failure_remedy          text NOT NULL DEFAULT '',
    release_cause           text NOT NULL DEFAULT '',
    release_reason          text NOT NULL DEFAULT '',
    release_requested_by    text NOT NULL DEFAULT '',
    release_failed_reason   text NOT NULL DEFAULT '',
    complaint               jsonb,
    cleanup_id              uuid,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    provisioning_started_at timestamptz,
    active_at               timestamptz,
    release_requested_at    timestamptz,
    released_at             timestamptz,
    failed_at               timestamptz,
    release_failed_at       timestamptz,
    status_changed_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    version                 bigint NOT NULL DEFAULT 1,
    CHECK ((status = 'failed') = (failed_at IS NOT NULL)),
    CHECK ((status = 'released') = (released_at IS NOT NULL))
);
CREATE INDEX allocations_of_project ON allocations (project_id, id DESC);
CREATE INDEX allocations_of_tenant ON allocations (org_id) WHERE status NOT IN ('released', 'failed');
CREATE INDEX allocations_status ON allocations (status, id DESC);
CREATE INDEX allocations_expiring ON allocations (expires_at) WHERE status = 'active' AND expires_at IS NOT NULL;
CREATE INDEX allocations_of_group ON allocations (group_id) WHERE group_id IS NOT NULL;
COMMENT ON COLUMN allocations.price_minor IS 'Price of one GPU for one hour when the allocation was asked for; the SKU may change later.';
COMMENT ON COLUMN allocations.sku_terms IS 'What the SKU promised when the allocation was asked for.';
COMMENT ON COLUMN allocations.wish IS 'What the node had to have and where it was to stand; a second placement goes by it.';
COMMENT ON COLUMN allocations.event_id IS 'Names the workflow that provisions it: provisioning-<event_id>.';
COMMENT ON COLUMN allocations.cleanup_id IS 'The operation that cleans up after it.';
COMMENT ON COLUMN allocations.release_requested_at IS 'When the tenant stopped paying; a retry of the release keeps it.';

CREATE TABLE allocation_resource_claims (
    id            uuid PRIMARY KEY,
    allocation_id uuid NOT NULL REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
    claim_kind    text NOT NULL CHECK (claim_kind IN ('node_exclusive', 'slot')),
    node_id       uuid NOT NULL REFERENCES nodes,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    ended_because text NOT NULL DEFAULT '',
    CHECK ((ended_at IS NULL) = (ended_because = ''))
);
CREATE UNIQUE INDEX allocation_claims_node ON allocation_resource_claims (node_id)
    WHERE ended_at IS NULL AND claim_kind = 'node_exclusive';
CREATE INDEX allocation_claims_of ON allocation_resource_claims (allocation_id);
CREATE INDEX allocation_claims_history ON allocation_resource_claims (node_id, created_at);
COMMENT ON TABLE allocation_resource_claims IS 'Who has a node. At most one live claim of a whole node exists.';
COMMENT ON COLUMN allocation_resource_claims.ended_because IS 'The proof that the node is clean, or that it left the fleet.';

CREATE TABLE allocation_events (
    seq           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    allocation_id uuid NOT NULL REFERENCES allocations,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    event         text NOT NULL,
    status        allocation_status NOT NULL,
    actor_kind    text NOT NULL,
    actor         text NOT NULL,
    message       text NOT NULL,
    details       jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX allocation_events_of ON allocation_events (allocation_id, seq);
COMMENT ON TABLE allocation_events IS 'The timeline of an allocation, as its tenant may read it.';

-- The next uid of a node: an account never gets the uid of an earlier one on the same installation.
CREATE TABLE allocation_uids (
    node_id  uuid PRIMARY KEY REFERENCES nodes,
    next_uid integer NOT NULL DEFAULT 20000
);

-- Which allocation has a node, beside the node, so that placement finds free nodes by an index and sees a claim that
-- was made while it waited for a lock. The claims are the truth; this trigger alone writes the column.
ALTER TABLE nodes ADD COLUMN allocation_id uuid;
CREATE INDEX nodes_free ON nodes (sku_id, region_code, clean_at NULLS FIRST, id)
    WHERE status = 'active' AND schedulable AND allocation_id IS NULL;
COMMENT ON COLUMN nodes.allocation_id IS 'The allocation that claims the whole node; only the trigger of allocation_resource_claims writes it.';
-- +goose StatementBegin
CREATE FUNCTION allocation_claim_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    IF NEW.claim_kind = 'node_exclusive' THEN
        UPDATE nodes SET allocation_id = CASE WHEN NEW.ended_at IS NULL THEN NEW.allocation_id END WHERE id = NEW.node_id;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER allocation_claim_changed AFTER INSERT OR UPDATE ON allocation_resource_claims
    FOR EACH ROW EXECUTE FUNCTION allocation_claim_changed();

-- A session that a tenant asked for goes on only while the requester may use allocations of the project.
ALTER TABLE terminal_sessions ADD COLUMN org_id uuid, ADD COLUMN project_id uuid;
COMMENT ON COLUMN terminal_sessions.project_id IS 'The project whose allocation it was opened for; absent: an administrator of the platform opened it.';

GRANT SELECT, INSERT, UPDATE ON allocations, allocation_resource_claims, allocation_uids TO gpuaas_app;
GRANT SELECT, INSERT ON allocation_events TO gpuaas_app;
