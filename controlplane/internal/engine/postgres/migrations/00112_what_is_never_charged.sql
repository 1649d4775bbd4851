-- +goose Up
-- What is rented and can never be charged, as the comparison found it.
ALTER TABLE billing_checks ADD COLUMN never_charged bigint NOT NULL DEFAULT 0, ADD COLUMN never_charged_found jsonb NOT NULL DEFAULT '[]';
COMMENT ON COLUMN billing_checks.never_charged_found IS 'The first hundred of them.';
