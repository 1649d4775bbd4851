-- +goose Up
CREATE TABLE audit_logs (
    seq            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             uuid NOT NULL UNIQUE,
    occurred_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor_kind     text NOT NULL CHECK (actor_kind IN ('user', 'service_account', 'system', 'anonymous')),
    actor_id       text NOT NULL,
    actor_name     text NOT NULL,
    actor_role     text NOT NULL,
    action         text NOT NULL,
    target_kind    text NOT NULL,
    target_id      text NOT NULL,
    org_id         uuid,
    project_id     uuid,
    result         text NOT NULL CHECK (result IN ('success', 'failure', 'denied')),
    reason         text NOT NULL DEFAULT '',
    correlation_id text NOT NULL,
    actor_ip       text NOT NULL DEFAULT '',
    metadata       jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_logs_action ON audit_logs (action, seq);
CREATE INDEX audit_logs_actor ON audit_logs (actor_id, seq);
CREATE INDEX audit_logs_target ON audit_logs (target_kind, target_id, seq);
CREATE INDEX audit_logs_org ON audit_logs (org_id, seq);
CREATE INDEX audit_logs_correlation ON audit_logs (correlation_id);

-- Grants keep the product from changing history; the trigger keeps even the
-- owner from doing it by accident.
-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_logs_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_logs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON audit_logs TO gpuaas_app;
