-- +goose Up
-- One row per Idempotency-Key of a caller. effect_committed is set in the
-- transaction that changed something, so that a crash between that commit and
-- the stored answer is recognised instead of repeated.
CREATE TABLE idempotency_keys (
    caller           text NOT NULL,
    key              text NOT NULL CHECK (length(key) BETWEEN 1 AND 128),
    request_hash     bytea NOT NULL CHECK (length(request_hash) = 32),
    locked_until     timestamptz NOT NULL,
    attempt          integer NOT NULL DEFAULT 1, -- whoever lost the lock to a later attempt cannot commit
    effect_committed boolean NOT NULL DEFAULT false,
    status           integer,
    headers          jsonb,
    body             bytea,
    body_withheld    boolean NOT NULL DEFAULT false, -- the answer held a secret
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (caller, key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys TO gpuaas_app;
