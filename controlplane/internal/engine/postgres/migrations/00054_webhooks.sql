-- +goose Up
-- Where a project wants to be told what happens in it. The secret that signs is in the secrets engine.
CREATE TABLE webhooks (
    id                uuid PRIMARY KEY,
    org_id            uuid NOT NULL REFERENCES organizations,
    project_id        uuid NOT NULL REFERENCES projects,
    name              text NOT NULL,
    url               text NOT NULL,
    kinds             text[] NOT NULL DEFAULT '{}',
    disabled_at       timestamptz,
    disabled_reason   text NOT NULL DEFAULT '',
    failing_since     timestamptz,
    last_delivered_at timestamptz,
    secret_rotated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    version           bigint NOT NULL DEFAULT 1,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by        text NOT NULL,
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX webhooks_of_project ON webhooks (project_id, name);
COMMENT ON COLUMN webhooks.kinds IS 'Types of events, or their beginnings with a star at the end; empty: all.';
COMMENT ON COLUMN webhooks.failing_since IS 'When the first attempt failed after the last success; NULL: it works, or was not tried.';

-- What a webhook is told, and how that went. No foreign key: a webhook that is deleted at the same moment must not
-- make the transaction fail in which something happened.
CREATE TABLE webhook_deliveries (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq          bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    webhook_id   uuid NOT NULL,
    project_id   uuid NOT NULL,
    event_id     uuid NOT NULL,
    event_type   text NOT NULL,
    envelope     jsonb NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    next_at      timestamptz DEFAULT clock_timestamp(), -- NULL: it is over
    leased_until timestamptz,                           -- a worker is at it until then
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempted_at timestamptz,
    finished_at  timestamptz,
    delivered    boolean NOT NULL DEFAULT false,
    answer_code  integer NOT NULL DEFAULT 0,
    answer_ms    integer NOT NULL DEFAULT 0,
    answer_text  text NOT NULL DEFAULT '',
    failure      text NOT NULL DEFAULT '',
    CHECK ((next_at IS NULL) = (finished_at IS NOT NULL))
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_log ON webhook_deliveries (webhook_id, seq);
CREATE INDEX webhook_deliveries_over ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON webhooks, webhook_deliveries TO gpuaas_app;

-- A delivery exists exactly when its event does, whichever release appends the event.
-- +goose StatementBegin
CREATE FUNCTION tell_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_deliveries (webhook_id, project_id, event_id, event_type, envelope)
    SELECT w.id, w.project_id, NEW.id, NEW.event_type, NEW.envelope
    FROM webhooks w
    WHERE w.project_id = NEW.project_id AND w.disabled_at IS NULL
      AND (w.kinds = '{}' OR EXISTS (
          SELECT FROM unnest(w.kinds) kind
          WHERE NEW.event_type = kind OR right(kind, 1) = '*' AND starts_with(NEW.event_type, left(kind, -1))));
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER tell_webhooks AFTER INSERT ON outbox_events FOR EACH ROW
    WHEN (NEW.destination = 'nats' AND NEW.project_id IS NOT NULL) EXECUTE FUNCTION tell_webhooks();
