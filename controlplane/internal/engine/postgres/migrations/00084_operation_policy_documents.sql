-- +goose Up
-- A document of the platform that decides about runs of operations after the chain of policies: versions that never change, and which of
-- them counts since when. The last activation says which one does; one without a version says that none does.
CREATE TABLE operation_policy_documents (
    version    bigint PRIMARY KEY CHECK (version > 0),
    title      text NOT NULL,
    document   text NOT NULL,
    digest     text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL
);
COMMENT ON COLUMN operation_policy_documents.document IS 'JSON; text, because the digest is of these bytes.';
GRANT SELECT, INSERT ON operation_policy_documents TO gpuaas_app;

CREATE TABLE operation_policy_activations (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version    bigint REFERENCES operation_policy_documents,
    reason     text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL
);
COMMENT ON COLUMN operation_policy_activations.version IS 'Which version counts from then on; NULL: none.';
GRANT SELECT, INSERT ON operation_policy_activations TO gpuaas_app;

ALTER TABLE operations ADD COLUMN policy_decisions jsonb NOT NULL DEFAULT '[]';
COMMENT ON COLUMN operations.policy_decisions IS
    'What versions of the policy document decided about the run: when it was asked for, and when another version or answer came.';
