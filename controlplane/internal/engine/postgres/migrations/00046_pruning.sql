-- +goose NO TRANSACTION
-- +goose Up
-- What may be deleted when it is old, and what finds it. Every statement can be
-- repeated, because this file is no transaction: its indexes are made while others write.

-- When old rows were last deleted. One row.
CREATE TABLE IF NOT EXISTS pruning (
    one_row     boolean PRIMARY KEY DEFAULT true CHECK (one_row),
    last_run_at timestamptz
);
INSERT INTO pruning DEFAULT VALUES ON CONFLICT DO NOTHING;
GRANT SELECT, UPDATE ON pruning TO gpuaas_app;

CREATE INDEX CONCURRENTLY IF NOT EXISTS node_certificates_end ON node_certificates (not_after);
CREATE INDEX CONCURRENTLY IF NOT EXISTS node_tasks_ended ON node_tasks (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS node_events_renewals ON node_events (node_id, seq DESC) WHERE kind = 'certificate_renewed';
CREATE INDEX CONCURRENTLY IF NOT EXISTS node_decommission_evidence_task ON node_decommission_evidence ((evidence ->> 'task_id'));
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_completed ON jobs (completed_at) WHERE completed_at IS NOT NULL;

-- A certificate that another one has replaced. The newest of a node stays.
CREATE OR REPLACE VIEW node_certificates_prunable AS
SELECT c.serial, c.node_id, c.issued_at, c.not_after FROM node_certificates c
WHERE EXISTS (SELECT FROM node_certificates n WHERE n.node_id = c.node_id AND n.issued_at > c.issued_at);

-- A task that has ended, unless the evidence of a cleaning names it, a job is at work
-- on its node, or it is the newest of its type that succeeded on the present
-- installation: such a task tells what was done to the machine.
CREATE OR REPLACE VIEW node_tasks_prunable AS
SELECT t.id, t.node_id, t.created_at, t.finished_at FROM node_tasks t JOIN nodes o ON o.id = t.node_id
WHERE t.finished_at IS NOT NULL
  AND NOT EXISTS (SELECT FROM node_decommission_evidence e WHERE e.evidence ->> 'task_id' = t.id::text)
  AND NOT EXISTS (SELECT FROM jobs j WHERE j.node_id = t.node_id AND j.completed_at IS NULL)
  AND (t.status <> 'succeeded' OR t.generation < o.generation OR EXISTS (SELECT FROM node_tasks n
    WHERE n.node_id = t.node_id AND n.created_at > t.created_at AND n.type = t.type AND n.generation = t.generation AND n.status = 'succeeded'));

-- The ledger of a job that is over, but for its last entry. That of a cleaning which
-- evidence or a certificate tells of stays whole.
CREATE OR REPLACE VIEW job_events_prunable AS
SELECT e.seq, j.id AS job_id, j.node_id, j.completed_at FROM jobs j JOIN job_events e ON e.job_id = j.id
WHERE j.completed_at IS NOT NULL
  AND NOT EXISTS (SELECT FROM decommission_certificates c WHERE c.decommission_id = j.id)
  AND NOT EXISTS (SELECT FROM node_decommission_evidence v WHERE v.decommission_id = j.id)
  AND EXISTS (SELECT FROM job_events n WHERE n.job_id = j.id AND n.seq > e.seq);

GRANT SELECT ON node_certificates_prunable, node_tasks_prunable, job_events_prunable TO gpuaas_app;
GRANT DELETE ON node_certificates, node_tasks, node_task_steps, node_events, job_events TO gpuaas_app;

-- What became of a node is kept for ever, whoever asks to delete it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION node_events_are_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'event % of node % is a %, which is kept', OLD.seq, OLD.node_id, OLD.kind USING ERRCODE = 'check_violation';
END $$;
-- +goose StatementEnd
DROP TRIGGER IF EXISTS node_events_are_kept ON node_events;
CREATE TRIGGER node_events_are_kept BEFORE DELETE ON node_events FOR EACH ROW
    WHEN (OLD.kind <> 'certificate_renewed') EXECUTE FUNCTION node_events_are_kept();

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION node_tasks_end_first() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'node task % is %, and has not ended', OLD.id, OLD.status USING ERRCODE = 'check_violation';
END $$;
-- +goose StatementEnd
DROP TRIGGER IF EXISTS node_tasks_end_first ON node_tasks;
CREATE TRIGGER node_tasks_end_first BEFORE DELETE ON node_tasks FOR EACH ROW
    WHEN (OLD.finished_at IS NULL) EXECUTE FUNCTION node_tasks_end_first();
