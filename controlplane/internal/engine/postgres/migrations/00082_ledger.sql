-- +goose Up
-- Double entry. Entries and postings are never changed; what was wrong is corrected by another entry.
CREATE TABLE ledger_entries (
    id                uuid PRIMARY KEY,
    org_id            uuid NOT NULL,
    currency          text NOT NULL,
    kind              text NOT NULL CHECK (kind IN ('credit', 'usage', 'relief', 'correction')),
    reference         text NOT NULL DEFAULT '' CHECK (length(reference) <= 200),
    reason            text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    allocation_id     uuid REFERENCES allocations,
    meter             text,
    window_start      timestamptz,
    window_end        timestamptz,
    corrects_entry_id uuid,
    made_by           text NOT NULL,
    correlation_id    text NOT NULL DEFAULT '',
    booked_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (id, org_id, currency),
    -- One currency per tenant: that of its account.
    FOREIGN KEY (org_id, currency) REFERENCES billing_accounts (org_id, currency),
    CONSTRAINT ledger_entries_corrects FOREIGN KEY (corrects_entry_id, org_id, currency) REFERENCES ledger_entries (id, org_id, currency),
    CONSTRAINT ledger_entries_corrected_once UNIQUE (corrects_entry_id),
    CHECK ((kind = 'correction') = (corrects_entry_id IS NOT NULL)),
    CHECK (kind <> 'credit' OR reference <> ''),
    CHECK ((kind IN ('usage', 'relief')) = (allocation_id IS NOT NULL)),
    CHECK (num_nonnulls(allocation_id, meter, window_start, window_end) IN (0, 4)),
    CHECK (window_end > window_start)
);
CREATE UNIQUE INDEX ledger_entries_reference ON ledger_entries (org_id, reference) WHERE kind = 'credit';
CREATE UNIQUE INDEX ledger_entries_window ON ledger_entries (allocation_id, meter, kind, reference, window_start)
    WHERE kind IN ('usage', 'relief');
CREATE INDEX ledger_entries_of_tenant ON ledger_entries (org_id, id DESC);
COMMENT ON COLUMN ledger_entries.reference IS 'Of a credit: what names it elsewhere, used once per tenant. Of a relief: what it is for.';

CREATE TABLE ledger_postings (
    entry_id     uuid NOT NULL,
    account      text NOT NULL CHECK (account IN ('tenant', 'revenue', 'credits', 'payments', 'adjustments')),
    org_id       uuid NOT NULL,
    currency     text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor <> 0 AND amount_minor BETWEEN -1000000000000000 AND 1000000000000000),
    PRIMARY KEY (entry_id, account),
    FOREIGN KEY (entry_id, org_id, currency) REFERENCES ledger_entries (id, org_id, currency)
);

CREATE TABLE ledger_balances (
    org_id        uuid NOT NULL,
    account       text NOT NULL,
    currency      text NOT NULL,
    balance_minor bigint NOT NULL,
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, account),
    FOREIGN KEY (org_id, currency) REFERENCES billing_accounts (org_id, currency),
    CONSTRAINT ledger_balances_bounds CHECK (balance_minor BETWEEN -100000000000000000 AND 100000000000000000)
);
COMMENT ON TABLE ledger_balances IS 'The sums of all postings, kept by the trigger of the postings alone.';

-- An entry has at least two postings, and they sum to zero, when its transaction commits. The same holds for whoever
-- adds a posting to an entry of before.
-- +goose StatementBegin
CREATE FUNCTION ledger_entry_adds_up() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
DECLARE
    entry uuid;
    total numeric;
    n bigint;
BEGIN
    IF TG_TABLE_NAME = 'ledger_entries' THEN entry := NEW.id; ELSE entry := NEW.entry_id; END IF;
    SELECT count(*), coalesce(sum(amount_minor), 0) INTO n, total FROM ledger_postings WHERE entry_id = entry;
    IF n < 2 OR total <> 0 THEN
        RAISE EXCEPTION 'entry % has % postings that sum to %', entry, n, total
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_entries_add_up';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER ledger_entries_add_up AFTER INSERT ON ledger_entries DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION ledger_entry_adds_up();
CREATE CONSTRAINT TRIGGER ledger_postings_add_up AFTER INSERT ON ledger_postings DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION ledger_entry_adds_up();

-- +goose StatementBegin
CREATE FUNCTION ledger_posted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    INSERT INTO ledger_balances (org_id, account, currency, balance_minor) VALUES (NEW.org_id, NEW.account, NEW.currency, NEW.amount_minor)
    ON CONFLICT (org_id, account) DO UPDATE
    SET balance_minor = ledger_balances.balance_minor + excluded.balance_minor, updated_at = clock_timestamp();
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_posted AFTER INSERT ON ledger_postings FOR EACH ROW EXECUTE FUNCTION ledger_posted();

CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_postings_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_postings
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON ledger_entries, ledger_postings TO gpuaas_app;
GRANT SELECT ON ledger_balances TO gpuaas_app;
