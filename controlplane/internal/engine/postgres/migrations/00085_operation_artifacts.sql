-- +goose Up
-- What the steps of a run left on a node or found there: files with their digests, copies of what was replaced, versions of packages. Each
-- is told by the output of its step.
CREATE TABLE operation_artifacts (
    operation_id   uuid NOT NULL REFERENCES operations,
    target_id      uuid NOT NULL,
    attempt_number integer NOT NULL,
    step_index     integer NOT NULL,
    seq            integer NOT NULL,
    step_id        text NOT NULL,
    kind           text NOT NULL CHECK (kind IN ('file', 'backup', 'package')),
    role           text NOT NULL CHECK (role IN ('produced', 'used', 'removed')),
    name           text NOT NULL,
    digest         text NOT NULL DEFAULT '',
    before         text NOT NULL DEFAULT '',
    after          text NOT NULL DEFAULT '',
    bytes          bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (target_id, attempt_number, step_index, seq),
    FOREIGN KEY (target_id, attempt_number, step_index) REFERENCES operation_steps
);
CREATE INDEX operation_artifacts_of ON operation_artifacts (operation_id);
COMMENT ON COLUMN operation_artifacts.role IS 'produced: the step made or changed it; used: it was there as wanted; removed: it is gone.';
COMMENT ON COLUMN operation_artifacts.before IS 'Of a file the digest, of a package the version that was there; empty: none.';
COMMENT ON COLUMN operation_artifacts.after IS 'Of a package the version that is there; empty: none.';
GRANT SELECT, INSERT ON operation_artifacts TO gpuaas_app;

ALTER TABLE operation_targets ADD COLUMN looks integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN operation_targets.looks IS 'How often the node was asked what is there, since somebody last resumed the target.';
