-- +goose Up
-- A run of an operation carries steps whose time is known only when it is asked
-- for, and one workflow waits for many of its tasks: it is told of each by one
-- signal name, and not by one per task.
ALTER TABLE node_tasks ADD COLUMN window_seconds integer CHECK (window_seconds BETWEEN 60 AND 86400),
    ADD COLUMN await_signal text NOT NULL DEFAULT '';
COMMENT ON COLUMN node_tasks.window_seconds IS 'How long one attempt may take; absent: as long as its type says.';
COMMENT ON COLUMN node_tasks.await_signal IS 'Name of the signal for await_workflow_id; empty: one that names the task.';
