-- +goose Up
-- The coarse lifecycle states, one domain per lifecycle table of the code.
-- Tables use the domain as column type; a test holds domain and table equal.
CREATE DOMAIN node_status AS text CONSTRAINT node_status_check CHECK (VALUE IN (
    'bootstrap_issued', 'enrolling', 'active', 'offline', 'quarantined', 'draining', 'retired', 'removing', 'deleted'));
CREATE DOMAIN job_status AS text CONSTRAINT job_status_check CHECK (VALUE IN (
    'pending', 'running', 'completed', 'failed_retryable', 'failed_manual_intervention', 'cancelled', 'compensating', 'reconciled'));
CREATE DOMAIN service_account_status AS text CONSTRAINT service_account_status_check CHECK (VALUE IN (
    'active', 'disabled', 'deleted'));
CREATE DOMAIN self_check_status AS text CONSTRAINT self_check_status_check CHECK (VALUE IN (
    'pending', 'running', 'passed', 'failed', 'cancelled'));
CREATE DOMAIN outbox_event_status AS text CONSTRAINT outbox_event_status_check CHECK (VALUE IN (
    'pending', 'published', 'failed', 'discarded'));

-- The running product is a member of gpuaas_app and owns nothing. What it may
-- not do (change the audit log) is simply never granted.
GRANT USAGE ON SCHEMA public TO gpuaas_app;
-- It may see how far the schema is, to wait for migrations that others run.
GRANT SELECT ON goose_db_version TO gpuaas_app;
