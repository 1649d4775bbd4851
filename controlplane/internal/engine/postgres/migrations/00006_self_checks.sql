-- +goose Up
-- A round trip through the whole control plane that an operator asked for.
CREATE TABLE self_checks (
    id             uuid PRIMARY KEY,
    status         self_check_status NOT NULL DEFAULT 'pending',
    requested_by   text NOT NULL,
    correlation_id text NOT NULL,
    steps          jsonb NOT NULL DEFAULT '[]',
    waiting_for    text NOT NULL DEFAULT '',
    version        bigint NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at    timestamptz
);
CREATE INDEX self_checks_created ON self_checks (created_at DESC, id DESC);
GRANT SELECT, INSERT, UPDATE ON self_checks TO gpuaas_app;
