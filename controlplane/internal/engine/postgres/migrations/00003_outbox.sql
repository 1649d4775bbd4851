-- +goose Up
-- What a transaction wants to tell the outside once it has committed: an event
-- for NATS, or the start of a workflow for Temporal.
CREATE TABLE outbox_events (
    seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              uuid NOT NULL UNIQUE,
    destination     text NOT NULL CHECK (destination IN ('nats', 'temporal')),
    -- Events of one aggregate are delivered in commit order, so they share a
    -- partition, and one relay at a time works on a partition.
    partition       smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    aggregate_kind  text NOT NULL,
    aggregate_id    text NOT NULL,
    event_type      text NOT NULL, -- of a workflow start: the workflow type
    envelope        jsonb NOT NULL,
    org_id          uuid,
    correlation_id  text NOT NULL,
    trace_parent    text NOT NULL DEFAULT '',
    status          outbox_event_status NOT NULL DEFAULT 'pending',
    attempt_count   integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error      text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at     timestamptz -- when it was published or discarded
);
CREATE INDEX outbox_events_pending ON outbox_events (destination, partition, seq) WHERE status = 'pending';
-- The few that wait for another attempt: each holds back its aggregate.
CREATE INDEX outbox_events_waiting ON outbox_events (destination, aggregate_kind, aggregate_id, seq)
    WHERE status = 'pending' AND attempt_count > 0;
CREATE INDEX outbox_events_failed ON outbox_events (seq) WHERE status = 'failed';
CREATE INDEX outbox_events_finished ON outbox_events (finished_at) WHERE status IN ('published', 'discarded');

-- A relay holds the row lock of a partition while it delivers from it.
CREATE TABLE outbox_partitions (
    destination text NOT NULL,
    partition   smallint NOT NULL,
    PRIMARY KEY (destination, partition)
);
INSERT INTO outbox_partitions SELECT d, p FROM unnest(ARRAY['nats', 'temporal']) d, generate_series(0, 15) p;

GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_events TO gpuaas_app;
GRANT SELECT, UPDATE ON outbox_partitions TO gpuaas_app; -- FOR UPDATE needs UPDATE
