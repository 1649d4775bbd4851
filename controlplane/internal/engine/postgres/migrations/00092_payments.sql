-- +goose Up
-- Money that comes through a payment provider, and goes back.
ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_kind_check;
ALTER TABLE ledger_entries ADD CONSTRAINT ledger_entries_kind_check
    CHECK (kind IN ('credit', 'usage', 'relief', 'correction', 'payment', 'refund')) NOT VALID;
ALTER TABLE ledger_entries VALIDATE CONSTRAINT ledger_entries_kind_check;

-- What providers told, each event once. A payment and a refund are booked once, however many events tell of them.
CREATE TABLE payment_events (
    provider     text NOT NULL CHECK (provider ~ '^[a-z][a-z0-9_]{0,30}$'),
    event_id     text NOT NULL CHECK (length(event_id) BETWEEN 1 AND 200),
    kind         text NOT NULL CHECK (kind IN ('payment', 'refund')),
    object_id    text NOT NULL CHECK (length(object_id) BETWEEN 1 AND 200),
    payment_id   text NOT NULL CHECK (length(payment_id) BETWEEN 1 AND 200),
    org_id       uuid NOT NULL,
    currency     text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor BETWEEN 1 AND 1000000000000000),
    entry_id     uuid NOT NULL UNIQUE REFERENCES ledger_entries,
    received_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider, event_id),
    CONSTRAINT payment_events_once UNIQUE (provider, kind, object_id),
    FOREIGN KEY (org_id, currency) REFERENCES billing_accounts (org_id, currency),
    CHECK (kind = 'refund' OR payment_id = object_id)
);
COMMENT ON COLUMN payment_events.object_id IS 'What the provider calls the payment or the refund.';
COMMENT ON COLUMN payment_events.payment_id IS 'The payment; of a refund, the one that goes back.';
CREATE INDEX payment_events_of_payment ON payment_events (provider, payment_id);
CREATE INDEX payment_events_of_tenant ON payment_events (org_id, entry_id DESC);
CREATE TRIGGER payment_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON payment_events TO gpuaas_app;
