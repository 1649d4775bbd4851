-- +goose Up
-- A run of a project that changes its nodes works there as root: whoever chose its inputs may have replaced anything on them, so their
-- release is a reimage. Whoever resumed a run asked for it as much as whoever submitted it, and must not approve it either.
ALTER TABLE nodes DROP CONSTRAINT nodes_root_cause_check,
    ADD CONSTRAINT nodes_root_cause_check
        CHECK (root_cause IN ('', 'sudo', 'root_shell', 'privileged_container', 'physical_console', 'found', 'operation'));
ALTER TABLE operations ADD COLUMN resumed_by text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN operations.resumed_by IS 'Everybody who resumed it; none of them may approve it.';
