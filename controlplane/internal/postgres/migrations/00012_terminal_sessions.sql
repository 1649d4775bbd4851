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
    correlation_id   text NOT NULL,
    gateway          text NOT NULL DEFAULT '',
    close_reason     text NOT NULL DEFAULT '',
    bytes_in         bigint NOT NULL DEFAULT 0,
    bytes_out        bigint NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    opened_at        timestamptz,
    closed_at        timestamptz
);
CREATE INDEX terminal_sessions_created ON terminal_sessions (created_at DESC, id DESC);
CREATE INDEX terminal_sessions_minter ON terminal_sessions (requested_by, created_at);
COMMENT ON COLUMN terminal_sessions.gateway IS 'Address of the replica that holds the session.';

GRANT SELECT, INSERT, UPDATE ON terminal_sessions TO gpuaas_app;
