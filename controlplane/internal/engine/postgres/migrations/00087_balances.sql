-- +goose Up
-- How far tenants may go with what they have, and how near they are to the end of it.
CREATE DOMAIN balance_status AS text CONSTRAINT balance_status_check CHECK (VALUE IN ('healthy', 'low', 'auto_release_pending', 'depleted'));

CREATE TABLE balances (
    org_id            uuid PRIMARY KEY REFERENCES billing_accounts,
    payment           text NOT NULL CHECK (payment IN ('prepaid', 'postpaid')),
    credit_line_minor bigint CHECK (credit_line_minor BETWEEN 0 AND 1000000000000000),
    low_minor         bigint NOT NULL CHECK (low_minor BETWEEN 0 AND 1000000000000000),
    low_seconds       bigint NOT NULL CHECK (low_seconds BETWEEN 0 AND 31622400),
    release_seconds   bigint NOT NULL CHECK (release_seconds BETWEEN 0 AND 31622400),
    rearm_percent     integer NOT NULL CHECK (rearm_percent BETWEEN 100 AND 1000),
    grace_seconds     bigint NOT NULL CHECK (grace_seconds BETWEEN 0 AND 2592000),
    status            balance_status NOT NULL DEFAULT 'healthy',
    since             timestamptz NOT NULL DEFAULT clock_timestamp(),
    version           bigint NOT NULL DEFAULT 1,
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by        text NOT NULL,
    CHECK (payment = 'postpaid' OR credit_line_minor IS NOT NULL),
    CHECK (release_seconds <= low_seconds)
);
COMMENT ON TABLE balances IS 'A tenant without a row pays afterwards, without limit. Whoever lets something to a tenant locks its row.';
COMMENT ON COLUMN balances.credit_line_minor IS 'How far below zero the tenant may go; NULL: without limit.';
COMMENT ON COLUMN balances.low_seconds IS 'The tenant is warned when what it has left lasts no longer than this, or is no more than low_minor.';
COMMENT ON COLUMN balances.release_seconds IS 'It is told that its allocations will be released when what it has left lasts no longer than this.';
COMMENT ON COLUMN balances.rearm_percent IS 'A warning is told again only after this share of its threshold was reached.';
COMMENT ON COLUMN balances.grace_seconds IS 'How long after the end its allocations are released.';
GRANT SELECT, INSERT, UPDATE ON balances TO gpuaas_app;

-- What is set aside for the first window of an allocation, until its meter has charged or was closed.
CREATE TABLE balance_holds (
    allocation_id uuid PRIMARY KEY REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
    org_id        uuid NOT NULL REFERENCES balances,
    amount_minor  bigint NOT NULL CHECK (amount_minor BETWEEN 0 AND 1000000000000000),
    made_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TRIGGER balance_holds_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON balance_holds
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON balance_holds TO gpuaas_app;

-- What was released because its tenant could not pay, each once.
CREATE TABLE balance_releases (
    allocation_id uuid PRIMARY KEY REFERENCES allocations,
    org_id        uuid NOT NULL REFERENCES organizations,
    reason        text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    requested_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TRIGGER balance_releases_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON balance_releases
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON balance_releases TO gpuaas_app;

-- The cost of an allocation from its beginning until a moment, as the rating has it: whole seconds, one floor. The rate is
-- price times paid share times units.
-- +goose StatementBegin
CREATE FUNCTION usage_cost(rate numeric, began timestamptz, until timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT div(rate * greatest(floor(extract(epoch FROM until - began)), 0), 36000000)::bigint
$$;
-- +goose StatementEnd
