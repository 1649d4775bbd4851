-- +goose Up
-- What tenants pay with, and what was agreed for each allocation when it was made.
CREATE TABLE billing_accounts (
    org_id     uuid PRIMARY KEY REFERENCES organizations,
    currency   text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    paid_share integer NOT NULL DEFAULT 10000 CHECK (paid_share BETWEEN 0 AND 10000),
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by text NOT NULL,
    UNIQUE (org_id, currency)
);
COMMENT ON COLUMN billing_accounts.currency IS 'For ever: everything of the tenant is in it.';
COMMENT ON COLUMN billing_accounts.paid_share IS 'What the tenant pays of a price, in ten-thousandths: 8500 is a discount of 15 %.';
-- +goose StatementBegin
CREATE FUNCTION billing_account_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' OR NEW.org_id <> OLD.org_id OR NEW.currency <> OLD.currency THEN
        RAISE EXCEPTION 'a billing account and its currency stay' USING ERRCODE = 'check_violation', CONSTRAINT = 'billing_accounts_currency_stays';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER billing_accounts_stay BEFORE UPDATE OR DELETE ON billing_accounts
    FOR EACH ROW EXECUTE FUNCTION billing_account_stays();
GRANT SELECT, INSERT, UPDATE ON billing_accounts TO gpuaas_app;

-- Projects that pay nothing, by somebody's word.
CREATE TABLE billing_free_projects (
    project_id uuid PRIMARY KEY REFERENCES projects,
    org_id     uuid NOT NULL REFERENCES billing_accounts,
    reason     text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    set_by     text NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON billing_free_projects TO gpuaas_app;

CREATE TABLE allocation_terms (
    allocation_id uuid PRIMARY KEY REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
    org_id        uuid NOT NULL REFERENCES organizations,
    project_id    uuid NOT NULL REFERENCES projects,
    sku_id        text NOT NULL REFERENCES skus,
    basis         text NOT NULL CHECK (basis IN ('priced', 'free_project', 'no_account')),
    currency      text,
    price_id      uuid REFERENCES sku_prices,
    price_minor   bigint CHECK (price_minor BETWEEN 0 AND 1000000000000),
    paid_share    integer NOT NULL CHECK (paid_share BETWEEN 0 AND 10000),
    units         integer NOT NULL CHECK (units BETWEEN 1 AND 1024),
    free_because  text NOT NULL DEFAULT '',
    frozen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- One currency per tenant: that of its account.
    FOREIGN KEY (org_id, currency) REFERENCES billing_accounts (org_id, currency),
    CHECK ((basis = 'no_account') = (currency IS NULL)),
    CHECK ((basis = 'no_account') = (price_minor IS NULL)),
    CHECK (basis = 'priced' OR paid_share = 0 AND free_because <> '')
);
COMMENT ON TABLE allocation_terms IS 'What was agreed for an allocation when it was made. An allocation without a row was made by a release that knew no billing, and is not charged.';
COMMENT ON COLUMN allocation_terms.units IS 'GPUs; one for a machine without.';
CREATE TRIGGER allocation_terms_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON allocation_terms
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON allocation_terms TO gpuaas_app;
