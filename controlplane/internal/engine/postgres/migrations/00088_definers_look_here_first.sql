-- +goose Up
-- Functions that act with the rights of their owner look for tables in temporary schemas last: nobody can put another
-- table in the way.
ALTER FUNCTION sku_priced() SET search_path = pg_catalog, public, pg_temp;
ALTER FUNCTION ledger_entry_adds_up() SET search_path = pg_catalog, public, pg_temp;
ALTER FUNCTION ledger_posted() SET search_path = pg_catalog, public, pg_temp;
ALTER FUNCTION usage_window_begins() SET search_path = pg_catalog, public, pg_temp;
