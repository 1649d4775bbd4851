-- +goose Up
CREATE DOMAIN node_task_status AS text CONSTRAINT node_task_status_check CHECK (VALUE IN (
    'queued', 'dispatched', 'succeeded', 'failed', 'expired', 'cancelled'));

-- What nodes are asked to do. A row is signed anew each time it is handed out.
CREATE TABLE node_tasks (
    id                uuid PRIMARY KEY,
    node_id           uuid NOT NULL REFERENCES nodes,
    type              text NOT NULL,
    params            jsonb NOT NULL,
    status            node_task_status NOT NULL DEFAULT 'queued',
    concurrency_class text NOT NULL,
    generation        bigint NOT NULL,
    attempt           integer NOT NULL DEFAULT 0,
    max_attempts      integer NOT NULL CHECK (max_attempts BETWEEN 1 AND 20),
    deadline_at       timestamptz NOT NULL,
    lease_expires_at  timestamptz,
    cancel_requested  boolean NOT NULL DEFAULT false,
    idempotency_key   text NOT NULL DEFAULT '',
    await_workflow_id text NOT NULL DEFAULT '',
    requested_by      text NOT NULL,
    reason            text NOT NULL DEFAULT '',
    correlation_id    text NOT NULL,
    trace_parent      text NOT NULL DEFAULT '',
    signer_version    text NOT NULL DEFAULT '',
    output            jsonb,
    error_code        text NOT NULL DEFAULT '',
    error_message     text NOT NULL DEFAULT '',
    error_remedy      text NOT NULL DEFAULT '',
    agent_version     text NOT NULL DEFAULT '',
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    dispatched_at     timestamptz,
    started_at        timestamptz,
    finished_at       timestamptz,
    CHECK ((status = 'dispatched') = (lease_expires_at IS NOT NULL)),
    CHECK ((status IN ('succeeded', 'failed', 'expired', 'cancelled')) = (finished_at IS NOT NULL))
);
CREATE INDEX node_tasks_queue ON node_tasks (node_id, created_at, id) WHERE status IN ('queued', 'dispatched');
-- What changes a node happens one at a time. The claim looks first; when two
-- claims race, the index decides.
CREATE UNIQUE INDEX node_tasks_one_at_a_time ON node_tasks (node_id) WHERE status = 'dispatched' AND concurrency_class <> 'concurrent';
CREATE INDEX node_tasks_deadline ON node_tasks (deadline_at) WHERE status = 'queued';
CREATE INDEX node_tasks_lease ON node_tasks (lease_expires_at) WHERE status = 'dispatched';
CREATE INDEX node_tasks_node ON node_tasks (node_id, created_at DESC, id DESC);
CREATE INDEX node_tasks_created ON node_tasks (created_at DESC, id DESC);
CREATE UNIQUE INDEX node_tasks_key ON node_tasks (node_id, idempotency_key) WHERE idempotency_key <> '';
COMMENT ON COLUMN node_tasks.deadline_at IS 'Until when it may be carried out; afterwards it is expired.';
COMMENT ON COLUMN node_tasks.await_workflow_id IS 'The workflow that is signalled when the task ends; empty: none waits.';

-- A task that has ended is never changed again.
-- +goose StatementBegin
CREATE FUNCTION node_tasks_terminal_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'node task % is %, which is final', OLD.id, OLD.status USING ERRCODE = 'check_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER node_tasks_terminal_is_final BEFORE UPDATE ON node_tasks FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'failed', 'expired', 'cancelled')) EXECUTE FUNCTION node_tasks_terminal_is_final();

-- The steps of a task, as the agent reported them.
CREATE TABLE node_task_steps (
    task_id  uuid NOT NULL REFERENCES node_tasks,
    attempt  integer NOT NULL,
    seq      integer NOT NULL CHECK (seq BETWEEN 1 AND 1000),
    step     text NOT NULL CHECK (length(step) BETWEEN 1 AND 100),
    status   text NOT NULL CHECK (status IN ('started', 'succeeded', 'failed', 'skipped')),
    message  text NOT NULL DEFAULT '' CHECK (length(message) <= 1000),
    percent  integer CHECK (percent BETWEEN 0 AND 100),
    at       timestamptz NOT NULL,
    PRIMARY KEY (task_id, attempt, seq)
);

GRANT SELECT, INSERT, UPDATE ON node_tasks TO gpuaas_app;
GRANT SELECT, INSERT ON node_task_steps TO gpuaas_app;
