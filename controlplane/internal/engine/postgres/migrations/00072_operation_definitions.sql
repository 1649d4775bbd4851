-- +goose Up
-- What work on nodes may be: definitions of operations, each in numbered versions.
CREATE DOMAIN operation_definition_status AS text CONSTRAINT operation_definition_status_check CHECK (VALUE IN (
    'draft', 'active', 'deprecated', 'retired'));

CREATE TABLE operation_definitions (
    type       text PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL
);
COMMENT ON TABLE operation_definitions IS 'Types of operations; what they are is in their versions.';
GRANT SELECT, INSERT ON operation_definitions TO gpuaas_app;

CREATE TABLE operation_definition_versions (
    type          text NOT NULL REFERENCES operation_definitions,
    version       text NOT NULL,
    number        bigint NOT NULL CHECK (number > 0),
    status        operation_definition_status NOT NULL,
    document      text NOT NULL,
    digest        text NOT NULL,
    origin        text NOT NULL CHECK (origin IN ('built_in', 'registered')),
    status_reason text NOT NULL DEFAULT '',
    revision      bigint NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by    text NOT NULL,
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by    text NOT NULL,
    activated_at  timestamptz,
    PRIMARY KEY (type, number),
    UNIQUE (type, version)
);
COMMENT ON COLUMN operation_definition_versions.number IS 'The number of the version: 2 for v2.';
COMMENT ON COLUMN operation_definition_versions.document IS 'Canonical JSON; text, because the digest is of these bytes.';
COMMENT ON COLUMN operation_definition_versions.revision IS 'Grows with every change of the row.';
GRANT SELECT, INSERT, UPDATE ON operation_definition_versions TO gpuaas_app;

-- What was ever active is frozen, whoever asks.
-- +goose StatementBegin
CREATE FUNCTION operation_definition_version_is_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.activated_at IS NOT NULL AND (NEW.document, NEW.digest, NEW.type, NEW.version, NEW.number, NEW.activated_at)
        IS DISTINCT FROM (OLD.document, OLD.digest, OLD.type, OLD.version, OLD.number, OLD.activated_at) THEN
        RAISE EXCEPTION 'version % of % was active and cannot change', OLD.version, OLD.type;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER operation_definition_version_is_frozen BEFORE UPDATE ON operation_definition_versions
    FOR EACH ROW EXECUTE FUNCTION operation_definition_version_is_frozen();
