-- +goose Up
-- Runs of operations on nodes. A run freezes the digest of its definition, its
-- inputs and its targets; what becomes of each target and of each attempt at a step
-- is a row.
CREATE DOMAIN operation_status AS text CONSTRAINT operation_status_check CHECK (VALUE IN (
    'queued', 'running', 'succeeded', 'failed', 'canceled'));
CREATE DOMAIN operation_target_status AS text CONSTRAINT operation_target_status_check CHECK (VALUE IN (
    'waiting', 'running', 'succeeded', 'failed', 'canceled', 'skipped'));

CREATE TABLE operations (
    id                   uuid PRIMARY KEY,
    org_id               uuid REFERENCES organizations,
    project_id           uuid REFERENCES projects,
    resource_name        text NOT NULL,
    operation_type       text NOT NULL,
    version              text NOT NULL,
    digest               text NOT NULL,
    only_plan            boolean NOT NULL DEFAULT false,
    status               operation_status NOT NULL DEFAULT 'queued',
    inputs               jsonb NOT NULL,
    target_kind          text NOT NULL CHECK (target_kind IN ('node', 'allocation', 'group')),
    target_selector      jsonb NOT NULL,
    plan_hash            text NOT NULL,
    policy               jsonb NOT NULL,
    total_steps          integer NOT NULL CHECK (total_steps > 0),
    max_concurrency      integer NOT NULL CHECK (max_concurrency > 0),
    max_failures         integer NOT NULL CHECK (max_failures >= 0),
    ramp                 boolean NOT NULL,
    timeout_seconds      integer NOT NULL CHECK (timeout_seconds > 0),
    trigger_source       text NOT NULL CHECK (trigger_source IN ('allocation_provision', 'allocation_release', 'admin', 'tenant_request')),
    linked_allocation_id uuid REFERENCES allocations,
    linked_node_id       uuid REFERENCES nodes,
    again_of             uuid REFERENCES operations,
    requested_by         text NOT NULL,
    requested_by_name    text NOT NULL DEFAULT '',
    reason               text NOT NULL DEFAULT '',
    correlation_id       text NOT NULL,
    trace_id             text NOT NULL DEFAULT '',
    trace_parent         text NOT NULL DEFAULT '',
    resumes              integer NOT NULL DEFAULT 0,
    forgiven             integer NOT NULL DEFAULT 0,
    paused_at            timestamptz,
    paused_by            text NOT NULL DEFAULT '',
    pause_reason         text NOT NULL DEFAULT '',
    cancel_requested_at  timestamptz,
    cancel_requested_by  text NOT NULL DEFAULT '',
    cancel_reason        text NOT NULL DEFAULT '',
    approval_role        text NOT NULL DEFAULT '',
    approval_expires_at  timestamptz,
    approved_at          timestamptz,
    approved_by          text NOT NULL DEFAULT '',
    approved_by_name     text NOT NULL DEFAULT '',
    error_code           text NOT NULL DEFAULT '',
    error_message        text NOT NULL DEFAULT '',
    look_again_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at           timestamptz,
    finished_at          timestamptz,
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    row_version          bigint NOT NULL DEFAULT 1,
    CHECK ((org_id IS NULL) = (project_id IS NULL)),
    CHECK ((status IN ('succeeded', 'failed', 'canceled')) = (finished_at IS NOT NULL))
);
CREATE INDEX operations_of_project ON operations (project_id, id DESC);
CREATE INDEX operations_live ON operations (look_again_at) WHERE status IN ('queued', 'running');
COMMENT ON COLUMN operations.org_id IS 'Whose run it is; NULL: the platform''s.';
COMMENT ON COLUMN operations.digest IS 'Of the document of the version that is run; it never changes.';
COMMENT ON COLUMN operations.only_plan IS 'Nodes only look and say what each step would change.';
COMMENT ON COLUMN operations.max_failures IS 'It stops handing out work when more than this many targets have failed.';
COMMENT ON COLUMN operations.forgiven IS 'Failures from before somebody let it go on: they do not stop it again.';
COMMENT ON COLUMN operations.look_again_at IS 'When its workflow looks at it again; long past that, it has none any more.';
GRANT SELECT, INSERT, UPDATE ON operations TO gpuaas_app;

CREATE TABLE operation_targets (
    id             uuid PRIMARY KEY,
    operation_id   uuid NOT NULL REFERENCES operations,
    position       integer NOT NULL,
    node_id        uuid NOT NULL REFERENCES nodes,
    hostname       text NOT NULL,
    allocation_id  uuid REFERENCES allocations,
    status         operation_target_status NOT NULL DEFAULT 'waiting',
    attempt        integer NOT NULL DEFAULT 0,
    step_index     integer NOT NULL DEFAULT 0,
    task_id        uuid REFERENCES node_tasks ON DELETE SET NULL,
    probing        boolean NOT NULL DEFAULT false,
    changed        boolean NOT NULL DEFAULT false,
    error_code     text NOT NULL DEFAULT '',
    error_class    text NOT NULL DEFAULT '',
    error_message  text NOT NULL DEFAULT '',
    error_remedy   text NOT NULL DEFAULT '',
    handed_out_at  timestamptz,
    finished_at    timestamptz,
    UNIQUE (operation_id, node_id),
    UNIQUE (operation_id, position)
);
CREATE INDEX operation_targets_open ON operation_targets (operation_id, status, position);
CREATE INDEX operation_targets_of_node ON operation_targets (node_id, operation_id);
CREATE INDEX operation_targets_task ON operation_targets (task_id) WHERE task_id IS NOT NULL;
COMMENT ON COLUMN operation_targets.step_index IS 'Index of the step that is done next, or that failed.';
COMMENT ON COLUMN operation_targets.probing IS 'Nobody heard how the last attempt ended: the node is asked to look what is there.';
GRANT SELECT, INSERT, UPDATE ON operation_targets TO gpuaas_app;

CREATE TABLE operation_steps (
    operation_id      uuid NOT NULL REFERENCES operations,
    target_id         uuid NOT NULL REFERENCES operation_targets,
    attempt_number    integer NOT NULL,
    step_index        integer NOT NULL,
    step_id           text NOT NULL,
    step_kind         text NOT NULL,
    status            text NOT NULL CHECK (status IN ('succeeded', 'failed', 'canceled', 'not_reached', 'planned')),
    changed           boolean NOT NULL DEFAULT false,
    summary           text NOT NULL DEFAULT '',
    output            jsonb,
    error_code        text NOT NULL DEFAULT '',
    error_class       text NOT NULL DEFAULT '',
    error_message     text NOT NULL DEFAULT '',
    error_remedy      text NOT NULL DEFAULT '',
    tries             integer NOT NULL DEFAULT 0,
    resolved_profile  text NOT NULL DEFAULT '',
    hardware_match    text NOT NULL DEFAULT '',
    log_lines         bigint NOT NULL DEFAULT 0,
    log_bytes_dropped bigint NOT NULL DEFAULT 0,
    started_at        timestamptz,
    finished_at       timestamptz,
    duration_ms       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (target_id, attempt_number, step_index)
);
CREATE INDEX operation_steps_of ON operation_steps (operation_id, target_id, attempt_number, step_index);
COMMENT ON COLUMN operation_steps.attempt_number IS 'The how manieth time the target was handed out, from 1.';
COMMENT ON COLUMN operation_steps.tries IS 'How often the node tried the step in this attempt.';
GRANT SELECT, INSERT ON operation_steps TO gpuaas_app;

-- What steps print, in chunks as the agents send them. How far a task has come is a
-- row of its own, so that two deliveries of the same lines meet there.
CREATE TABLE operation_log_streams (
    task_id      uuid PRIMARY KEY,
    operation_id uuid NOT NULL REFERENCES operations,
    target_id    uuid NOT NULL REFERENCES operation_targets,
    next_seq     bigint NOT NULL DEFAULT 1,
    bytes        bigint NOT NULL DEFAULT 0,
    dropped      bigint NOT NULL DEFAULT 0
);
GRANT SELECT, INSERT, UPDATE ON operation_log_streams TO gpuaas_app;

CREATE TABLE operation_logs (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation_id uuid NOT NULL REFERENCES operations,
    target_id    uuid NOT NULL REFERENCES operation_targets,
    task_id      uuid NOT NULL,
    first_seq    bigint NOT NULL,
    last_seq     bigint NOT NULL,
    steps        text[] NOT NULL,
    body         bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX operation_logs_of ON operation_logs (operation_id, id);
COMMENT ON COLUMN operation_logs.body IS 'The lines as JSON, compressed (deflate).';
COMMENT ON COLUMN operation_logs.steps IS 'Ids of the steps that the lines are of.';
GRANT SELECT, INSERT, DELETE ON operation_logs TO gpuaas_app;
