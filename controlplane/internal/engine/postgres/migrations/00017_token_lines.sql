-- +goose Up
-- A token made with a token ends with it, at the latest. Tokens from before this
-- do not know what they were made with, and go on as they are.
COMMENT ON COLUMN api_tokens.made_from IS 'The token, or session, that this one was made with; NULL where an identity provider or the operator of the database vouched for the person, and for tokens made before this was kept.';
-- When it was told that nobody can administer the platform once this token ends.
ALTER TABLE api_tokens ADD COLUMN end_told_at timestamptz;

-- Whether a token, or something that it was made with, has ended, or the owner
-- of one of them may no longer act. NULL is no token and has not ended.
-- +goose StatementBegin
CREATE FUNCTION token_line_ended(leaf uuid, at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    WITH RECURSIVE line AS (
        SELECT l.made_from, l.user_id, l.service_account_id, l.expires_at, l.revoked_at
        FROM api_tokens l WHERE l.id = leaf
        UNION ALL
        SELECT m.made_from, m.user_id, m.service_account_id, m.expires_at, m.revoked_at
        FROM api_tokens m JOIN line ON m.id = line.made_from
    )
    SELECT EXISTS (
        SELECT 1 FROM line
        LEFT JOIN users u ON u.id = line.user_id LEFT JOIN service_accounts a ON a.id = line.service_account_id
        WHERE line.revoked_at IS NOT NULL OR line.expires_at <= at OR u.disabled OR a.status <> 'active'
    )
$$;
-- +goose StatementEnd
