-- +goose Up
-- What reports on usage go by.
CREATE INDEX usage_meters_of_tenant ON usage_meters (org_id);
CREATE INDEX allocation_terms_of_tenant ON allocation_terms (org_id);
CREATE INDEX ledger_entries_changing_charges ON ledger_entries (org_id) WHERE kind IN ('relief', 'correction');
