-- +goose Up
-- What an operator places for a project that did not ask for it costs the project nothing.
ALTER TABLE allocation_terms DROP CONSTRAINT allocation_terms_basis_check;
ALTER TABLE allocation_terms ADD CONSTRAINT allocation_terms_basis_check
    CHECK (basis IN ('priced', 'free_project', 'placed_by_operator', 'no_account'));

-- A posting is booked in the transaction of its entry: an entry does not grow later.
-- +goose StatementBegin
CREATE FUNCTION ledger_posting_belongs() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_entries e WHERE e.id = NEW.entry_id AND e.xmin = pg_current_xact_id()::xid) THEN
        RAISE EXCEPTION 'entry % was booked before: it gets no more postings', NEW.entry_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_postings_with_their_entry';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ledger_postings_belong BEFORE INSERT ON ledger_postings FOR EACH ROW EXECUTE FUNCTION ledger_posting_belongs();

-- Whether an entry was taken back: it was corrected, and that was not corrected in turn.
-- +goose StatementBegin
CREATE FUNCTION ledger_entry_reversed(of_entry uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    WITH RECURSIVE up AS (
        SELECT c.id, 1 AS n FROM ledger_entries c WHERE c.corrects_entry_id = of_entry
        UNION ALL
        SELECT c.id, up.n + 1 FROM up JOIN ledger_entries c ON c.corrects_entry_id = up.id
    )
    SELECT coalesce(max(n), 0) % 2 = 1 FROM up
$$;
-- +goose StatementEnd

-- A window ends with its allocation at the latest.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION usage_window_begins() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    of allocations%ROWTYPE;
BEGIN
    SELECT * INTO of FROM allocations WHERE id = NEW.allocation_id;
    IF NEW.follows IS NULL AND of.active_at IS DISTINCT FROM NEW.starts_at THEN
        RAISE EXCEPTION 'the first window of allocation % does not begin with it', NEW.allocation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_windows_begin_with_the_allocation';
    END IF;
    IF NEW.ends_at > least(of.release_requested_at, of.expires_at) THEN
        RAISE EXCEPTION 'a window of allocation % ends after it', NEW.allocation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_windows_end_with_the_allocation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- A meter goes forwards, stays closed, and is closed only when its allocation is charged to its end: nobody stops the charges
-- of something that goes on.
-- +goose StatementBegin
CREATE FUNCTION usage_meter_goes_on() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    of allocations%ROWTYPE;
BEGIN
    IF OLD.closed_at IS NOT NULL OR (NEW.allocation_id, NEW.meter, NEW.org_id) IS DISTINCT FROM (OLD.allocation_id, OLD.meter, OLD.org_id)
        OR OLD.charged_until IS NOT NULL AND NEW.charged_until IS NULL OR NEW.charged_until < OLD.charged_until THEN
        RAISE EXCEPTION 'the meter of allocation % only goes on', OLD.allocation_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_meters_go_on';
    END IF;
    IF NEW.closed_at IS NOT NULL THEN
        SELECT * INTO of FROM allocations WHERE id = NEW.allocation_id;
        IF of.status IN ('requested', 'provisioning', 'active') AND of.release_requested_at IS NULL
            OR of.release_requested_at IS NOT NULL
                AND coalesce(NEW.charged_until, of.active_at) < least(of.release_requested_at, of.expires_at) THEN
            RAISE EXCEPTION 'allocation % is not charged to its end', NEW.allocation_id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'usage_meters_close_at_the_end';
        END IF;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER usage_meters_go_on BEFORE UPDATE ON usage_meters FOR EACH ROW EXECUTE FUNCTION usage_meter_goes_on();
CREATE TRIGGER usage_meters_stay BEFORE DELETE OR TRUNCATE ON usage_meters FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
