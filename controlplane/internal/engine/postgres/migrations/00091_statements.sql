-- +goose Up
-- Every entry of a ledger belongs to the statement of one month: that of its own time, or, if that is closed, the first one
-- that is not.
CREATE TABLE billing_periods (
    org_id     uuid PRIMARY KEY REFERENCES billing_accounts,
    open_since timestamptz NOT NULL
);
COMMENT ON COLUMN billing_periods.open_since IS 'Beginning of the first month that has no statement, in UTC.';
INSERT INTO billing_periods (org_id, open_since) SELECT org_id, date_trunc('month', created_at, 'UTC') FROM billing_accounts;
-- +goose StatementBegin
CREATE FUNCTION billing_period_opens() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    INSERT INTO billing_periods (org_id, open_since) VALUES (NEW.org_id, date_trunc('month', NEW.created_at, 'UTC'));
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER billing_accounts_open_period AFTER INSERT ON billing_accounts FOR EACH ROW EXECUTE FUNCTION billing_period_opens();
GRANT SELECT ON billing_periods TO gpuaas_app;

ALTER TABLE ledger_entries ADD COLUMN period timestamptz;
ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_append_only;
UPDATE ledger_entries e SET period = greatest(p.open_since,
    date_trunc('month', coalesce(e.window_end - interval '1 microsecond', e.booked_at), 'UTC'))
FROM billing_periods p WHERE p.org_id = e.org_id;
ALTER TABLE ledger_entries ENABLE TRIGGER ledger_entries_append_only;
ALTER TABLE ledger_entries ALTER COLUMN period SET NOT NULL;
COMMENT ON COLUMN ledger_entries.period IS 'Beginning of the month whose statement has the entry. A trigger sets it.';
CREATE INDEX ledger_entries_of_period ON ledger_entries (org_id, period);
-- Whoever books keeps the month open until the transaction ends: nothing comes into a month that is closed.
-- +goose StatementBegin
CREATE FUNCTION ledger_entry_period() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    since timestamptz;
BEGIN
    SELECT open_since INTO since FROM billing_periods WHERE org_id = NEW.org_id FOR SHARE;
    NEW.period := greatest(since, date_trunc('month', coalesce(NEW.window_end - interval '1 microsecond', NEW.booked_at), 'UTC'));
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_entries_period BEFORE INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION ledger_entry_period();

-- Statements of a tenant are a chain: number, time and balance of one go on in the next.
CREATE TABLE billing_statements (
    id                uuid PRIMARY KEY,
    org_id            uuid NOT NULL,
    currency          text NOT NULL,
    number            integer NOT NULL CHECK (number >= 1),
    previous          integer,
    label             text NOT NULL UNIQUE,
    period_start      timestamptz NOT NULL,
    period_end        timestamptz NOT NULL,
    opening_minor     bigint NOT NULL,
    closing_minor     bigint NOT NULL,
    usage_minor       bigint NOT NULL,
    relief_minor      bigint NOT NULL,
    corrections_minor bigint NOT NULL,
    money_in_minor    bigint NOT NULL,
    entries           bigint NOT NULL,
    late_entries      bigint NOT NULL,
    document          text NOT NULL,
    digest            text NOT NULL,
    issued_at         timestamptz NOT NULL,
    issued_by         text NOT NULL,
    FOREIGN KEY (org_id, currency) REFERENCES billing_accounts (org_id, currency),
    UNIQUE (org_id, number),
    UNIQUE (org_id, number, period_end, closing_minor),
    FOREIGN KEY (org_id, previous, period_start, opening_minor)
        REFERENCES billing_statements (org_id, number, period_end, closing_minor),
    CHECK (number = coalesce(previous, 0) + 1),
    CHECK (previous IS NOT NULL OR opening_minor = 0),
    CHECK (period_end = period_start + interval '1 month'),
    CHECK (closing_minor = opening_minor - usage_minor + relief_minor + corrections_minor + money_in_minor)
);
COMMENT ON COLUMN billing_statements.document IS 'The statement, as JSON. CSV, HTML and FOCUS are made of it.';
COMMENT ON COLUMN billing_statements.digest IS 'SHA-256 of the document, in hexadecimal.';

-- The month of a tenant that is to be closed, locked against whoever books.
-- +goose StatementBegin
CREATE FUNCTION billing_period_close(of_org uuid) RETURNS timestamptz LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT open_since FROM billing_periods WHERE org_id = of_org FOR UPDATE
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION billing_period_close(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION billing_period_close(uuid) TO gpuaas_app;

-- A statement is of a month that is over and the first that is open, has all that was booked in it, and closes it.
-- +goose StatementBegin
CREATE FUNCTION billing_statement_issued() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    since timestamptz;
    booked numeric;
    n bigint;
BEGIN
    SELECT open_since INTO since FROM billing_periods WHERE org_id = NEW.org_id FOR UPDATE;
    IF NEW.period_start IS DISTINCT FROM since OR NEW.period_end > clock_timestamp() THEN
        RAISE EXCEPTION 'the month from % cannot be closed: % is open', NEW.period_start, since
            USING ERRCODE = 'check_violation', CONSTRAINT = 'billing_statements_in_turn';
    END IF;
    SELECT count(*), coalesce(sum(p.amount_minor), 0) INTO n, booked
    FROM ledger_entries e JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'tenant'
    WHERE e.org_id = NEW.org_id AND e.period = NEW.period_start;
    IF booked <> NEW.closing_minor - NEW.opening_minor OR n <> NEW.entries THEN
        RAISE EXCEPTION 'the statement has % entries that change the balance by %, booked are % and %', NEW.entries,
            NEW.closing_minor - NEW.opening_minor, n, booked USING ERRCODE = 'check_violation', CONSTRAINT = 'billing_statements_add_up';
    END IF;
    UPDATE billing_periods SET open_since = NEW.period_end WHERE org_id = NEW.org_id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER billing_statements_issued BEFORE INSERT ON billing_statements FOR EACH ROW EXECUTE FUNCTION billing_statement_issued();
CREATE TRIGGER billing_statements_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_statements
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON billing_statements TO gpuaas_app;
CREATE INDEX usage_windows_without_charge ON usage_windows (ends_at) WHERE entry_id IS NULL;

-- What the ledger was compared with: the newest row says how it stands.
CREATE TABLE billing_checks (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    began_at      timestamptz NOT NULL,
    ended_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    allocations   bigint NOT NULL,
    tenants       bigint NOT NULL,
    disagreements bigint NOT NULL,
    found         jsonb NOT NULL
);
COMMENT ON COLUMN billing_checks.found IS 'The first hundred disagreements.';
GRANT SELECT, INSERT, DELETE ON billing_checks TO gpuaas_app;
