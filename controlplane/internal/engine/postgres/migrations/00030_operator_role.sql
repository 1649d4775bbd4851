-- +goose Up
-- Somebody may do everything with machines without deciding about people. Agents
-- are named as nodes in the audit log, not as the product's own work.
ALTER TABLE users DROP CONSTRAINT users_platform_role_check;
ALTER TABLE users ADD CONSTRAINT users_platform_role_check CHECK (platform_role IN ('platform_admin', 'operator', 'auditor'));
ALTER TABLE audit_logs DROP CONSTRAINT audit_logs_actor_kind_check;
ALTER TABLE audit_logs ADD CONSTRAINT audit_logs_actor_kind_check
    CHECK (actor_kind IN ('user', 'service_account', 'node', 'system', 'anonymous')) NOT VALID;
-- Profiles and RoCE addresses have a permission of their own: tokens that were
-- narrowed to site:manage go on as before.
UPDATE api_tokens SET scopes = scopes || '{site_profile:manage}' WHERE 'site:manage' = ANY(scopes);
