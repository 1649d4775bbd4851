-- +goose Up
-- Money that comes through a payment provider, and goes back.
-- +goose StatementBegin
DO $$
DECLARE
    kinds text;
BEGIN
    SELECT pg_get_constraintdef(oid) INTO kinds FROM pg_constraint
    WHERE conname = 'ledger_entries_kind_check' AND conrelid = 'ledger_entries'::regclass;
    ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_kind_check;
    EXECUTE 'ALTER TABLE ledger_entries ADD CONSTRAINT ledger_entries_kind_check '
        || regexp_replace(kinds, 'ARRAY\[', 'ARRAY[''payment''::text, ''refund''::text, ');
END $$;
-- +goose StatementEnd

-- What providers told, each event once. A payment and a refund are booked once, however many events tell of them.
CREATE TABLE payment_events (
    provider     text NOT NULL CHECK (provider IN ('stripe')),
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
    FOREIGN KEY (org_id, currency) REFERENCES billing_accounts (org_id, currency)
);
COMMENT ON COLUMN payment_events.object_id IS 'What the provider calls the payment or the refund.';
COMMENT ON COLUMN payment_events.payment_id IS 'The payment; of a refund, the one that goes back.';
CREATE INDEX payment_events_of_payment ON payment_events (provider, payment_id);
CREATE TRIGGER payment_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payment_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON payment_events TO gpuaas_app;
