-- +goose Up
CREATE DOMAIN terminal_session_status AS text CONSTRAINT terminal_session_status_check CHECK (VALUE IN (
    'issued', 'opening', 'open', 'closed', 'failed'));

-- An interactive session on a node, from the minting of its token to its end.
-- The token itself is kept only as a hash and works once.
CREATE TABLE terminal_sessions (
    id               uuid PRIMARY KEY,
    node_id          uuid NOT NULL REFERENCES nodes,
    username         text NOT NULL CHECK (username ~ '^[a-z_][a-z0-9_-]{0,31}$'),
    status           terminal_session_status NOT NULL DEFAULT 'issued',
    token_hash       bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    token_expires_at timestamptz NOT NULL,
    token_used_at    timestamptz,
    requested_by     text NOT NULL,
    requester_kind   text NOT NULL,
    requester_name   text NOT NULL,
    window_columns   integer NOT NULL CHECK (window_columns BETWEEN 1 AND 1000),
    window_rows      integer NOT NULL CHECK (window_rows BETWEEN 1 AND 1000),
    correlation_id   text NOT NULL,
    gateway          text NOT NULL DEFAULT '',
    seen_at          timestamptz,
    close_reason     text NOT NULL DEFAULT '',
    bytes_in         bigint NOT NULL DEFAULT 0,
    bytes_out        bigint NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    opened_at        timestamptz,
    closed_at        timestamptz,
    CHECK ((status IN ('closed', 'failed')) = (closed_at IS NOT NULL)),
    CHECK (status NOT IN ('opening', 'open') OR seen_at IS NOT NULL AND token_used_at IS NOT NULL)
);
CREATE INDEX terminal_sessions_created ON terminal_sessions (created_at DESC, id DESC);
CREATE INDEX terminal_sessions_minter ON terminal_sessions (requested_by, created_at);
CREATE INDEX terminal_sessions_unfinished ON terminal_sessions (status) WHERE status IN ('issued', 'opening', 'open');
COMMENT ON COLUMN terminal_sessions.gateway IS 'The replica that holds the session: its address and, because several can have the same, its instance.';
COMMENT ON COLUMN terminal_sessions.seen_at IS 'When that replica last said that it holds the session; a session of a replica that is gone is ended by any other.';

GRANT SELECT, INSERT, UPDATE ON terminal_sessions TO gpuaas_app;
