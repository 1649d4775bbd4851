-- +goose Up
-- What states of a node have in common, as the lifecycle table of package node
-- says (TestNodeTraitsAndDatabaseAgree). A migration that adds a state replaces
-- the function.
-- +goose StatementBegin
CREATE FUNCTION node_is(status text, trait text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE trait
        WHEN 'serving' THEN status IN ('active', 'offline')
        WHEN 'steady' THEN status IN ('active', 'offline', 'quarantined')
        WHEN 'joining' THEN status IN ('bootstrap_issued', 'enrolling')
        WHEN 'owned' THEN status IN ('draining', 'removing')
        WHEN 'attended' THEN status IN ('enrolling', 'active', 'offline', 'quarantined', 'draining')
        WHEN 'out' THEN status IN ('retired', 'removing', 'deleted')
        WHEN 'fenced' THEN status IN ('retired', 'deleted')
    END
$$;
-- +goose StatementEnd
