-- +goose Up
-- What money is computed from has moments that can be subtracted: the difference to an infinite one is an error, and it would stop
-- the charges, balances and statements of everybody that the same statement reads. Rows of before are not looked at: nothing ever
-- wrote such a moment, and looking would keep large tables locked.
ALTER TABLE allocations ADD CONSTRAINT allocations_finite
    CHECK (isfinite(active_at) AND isfinite(release_requested_at) AND isfinite(expires_at)) NOT VALID;
ALTER TABLE allocation_repairs ADD CONSTRAINT allocation_repairs_finite CHECK (isfinite(began_at) AND isfinite(ended_at)) NOT VALID;
ALTER TABLE usage_meters ADD CONSTRAINT usage_meters_finite CHECK (isfinite(charged_until)) NOT VALID;
ALTER TABLE usage_windows ADD CONSTRAINT usage_windows_finite CHECK (isfinite(starts_at) AND isfinite(ends_at)) NOT VALID;
ALTER TABLE ledger_entries ADD CONSTRAINT ledger_entries_finite
    CHECK (isfinite(window_start) AND isfinite(window_end) AND isfinite(booked_at)) NOT VALID;
ALTER TABLE billing_periods ADD CONSTRAINT billing_periods_finite CHECK (isfinite(open_since)) NOT VALID;
