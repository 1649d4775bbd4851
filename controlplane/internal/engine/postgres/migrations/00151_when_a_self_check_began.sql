-- +goose Up
-- How long the request took to reach a worker, through outbox and Temporal, is a step of the check.
ALTER TABLE self_checks ADD COLUMN begun_at timestamptz;
