-- +goose Up
-- The SSH keys that people log in with to what they rent: of a person, or of a project.
CREATE TABLE ssh_keys (
    id          uuid PRIMARY KEY,
    user_id     uuid REFERENCES users,
    project_id  uuid REFERENCES projects,
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    algorithm   text NOT NULL,
    public_key  text NOT NULL,
    fingerprint text NOT NULL,
    added_by    text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (num_nonnulls(user_id, project_id) = 1)
);
CREATE UNIQUE INDEX ssh_keys_of_user ON ssh_keys (user_id, fingerprint) WHERE user_id IS NOT NULL;
CREATE UNIQUE INDEX ssh_keys_of_project ON ssh_keys (project_id, fingerprint) WHERE project_id IS NOT NULL;
COMMENT ON TABLE ssh_keys IS 'Public keys only. A key that is removed leaves no row; the audit log names it.';
COMMENT ON COLUMN ssh_keys.public_key IS 'One line of authorized_keys, without options and without a comment.';
GRANT SELECT, INSERT, DELETE ON ssh_keys TO gpuaas_app;
