-- +goose Up
-- What time of allocations was charged. A window begins where the one before it ends, and the first one where the
-- allocation became active: there is no gap, no overlap and no fork.
CREATE TABLE usage_meters (
    allocation_id uuid NOT NULL REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
    meter         text NOT NULL DEFAULT 'held' CHECK (meter IN ('held')),
    org_id        uuid NOT NULL REFERENCES billing_accounts,
    charged_until timestamptz,
    closed_at     timestamptz,
    PRIMARY KEY (allocation_id, meter)
);
CREATE INDEX usage_meters_open ON usage_meters (org_id, allocation_id) WHERE closed_at IS NULL;
COMMENT ON COLUMN usage_meters.charged_until IS 'End of the last window; NULL: nothing was charged.';
GRANT SELECT, INSERT, UPDATE ON usage_meters TO gpuaas_app;

CREATE TABLE usage_windows (
    allocation_id uuid NOT NULL,
    meter         text NOT NULL,
    starts_at     timestamptz NOT NULL,
    ends_at       timestamptz NOT NULL,
    follows       timestamptz,
    amount_minor  bigint NOT NULL CHECK (amount_minor BETWEEN 0 AND 1000000000000000),
    entry_id      uuid UNIQUE REFERENCES ledger_entries,
    PRIMARY KEY (allocation_id, meter, starts_at),
    UNIQUE (allocation_id, meter, ends_at),
    FOREIGN KEY (allocation_id, meter) REFERENCES usage_meters (allocation_id, meter),
    FOREIGN KEY (allocation_id, meter, follows) REFERENCES usage_windows (allocation_id, meter, ends_at),
    CHECK (ends_at > starts_at),
    CHECK (follows IS NULL OR follows = starts_at),
    CHECK ((amount_minor = 0) = (entry_id IS NULL))
);
CREATE UNIQUE INDEX usage_windows_first ON usage_windows (allocation_id, meter) WHERE follows IS NULL;
COMMENT ON COLUMN usage_windows.follows IS 'End of the window before; NULL: it is the first one, and begins with the allocation.';
-- +goose StatementBegin
CREATE FUNCTION usage_window_begins() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    IF NEW.follows IS NULL AND NOT EXISTS (SELECT FROM allocations WHERE id = NEW.allocation_id AND active_at = NEW.starts_at) THEN
        RAISE EXCEPTION 'the first window of allocation % does not begin with it', NEW.allocation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_windows_begin_with_the_allocation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER usage_windows_begin BEFORE INSERT ON usage_windows FOR EACH ROW EXECUTE FUNCTION usage_window_begins();
CREATE TRIGGER usage_windows_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON usage_windows
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON usage_windows TO gpuaas_app;
