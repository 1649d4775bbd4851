-- +goose NO TRANSACTION
-- +goose Up
-- These tables are large: nobody waits while the indexes are made.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS ledger_entries_reserved ON ledger_entries (reservation_id, kind, window_start) WHERE reservation_id IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS allocations_used ON allocations (org_id, sku_id, (coalesce(released_at, failed_at, timestamptz 'infinity'))) WHERE active_at IS NOT NULL;
