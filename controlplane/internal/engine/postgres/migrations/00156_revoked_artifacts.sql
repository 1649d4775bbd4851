-- +goose Up
-- Whoever fetches asks what was revoked, which is little of much.
CREATE INDEX artifacts_revoked ON artifacts (org_id) WHERE status = 'revoked';
