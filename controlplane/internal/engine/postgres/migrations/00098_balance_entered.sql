-- +goose Up
-- While nothing runs, what is left would last for ever. A warning is then judged by what an hour cost when it was
-- told, so that a tenant whose work comes and goes is not warned each time.
ALTER TABLE balances ADD COLUMN entered_rate text NOT NULL DEFAULT '0' CHECK (entered_rate ~ '^[0-9]{1,40}$');
COMMENT ON COLUMN balances.entered_rate IS 'What an hour cost when the state was entered, in ten-thousandths of a minor unit.';
