-- +goose Up
-- Restores of backups. What nodes were given between the backup and its restore is
-- missing; the certificates among it are taken back into the rows as they are seen.
CREATE TABLE restores (
    taken_at    timestamptz NOT NULL,
    restored_at timestamptz NOT NULL,
    noted_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (taken_at, restored_at),
    CHECK (taken_at <= restored_at)
);
GRANT SELECT, INSERT ON restores TO gpuaas_app;
