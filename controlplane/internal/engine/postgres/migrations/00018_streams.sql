-- +goose Up
-- Members of a project see the events of their project, not those of its
-- neighbours. Rows from before have none; nothing but new rows needs it.
ALTER TABLE outbox_events ADD COLUMN project_id uuid;

-- A terminal ends with the token that it was asked for with.
ALTER TABLE terminal_sessions ADD COLUMN requester_token uuid;
COMMENT ON COLUMN terminal_sessions.requester_token IS 'The API token by which the session was asked for; it is looked at for as long as the session lasts.';

-- What callers may still ask in the near future, shared by all replicas, which
-- take from it in batches. Lost with a crash of the database: then everybody
-- starts with a full burst.
CREATE UNLOGGED TABLE rate_allowances (
    caller  text PRIMARY KEY,
    tokens  double precision NOT NULL,
    leased  integer NOT NULL, -- by the last statement that asked
    at      timestamptz NOT NULL
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE, DELETE ON rate_allowances TO gpuaas_app;
