-- +goose Up
-- What a session was opened with: whoever revokes that ends the session too.
ALTER TABLE api_tokens ADD COLUMN made_from uuid REFERENCES api_tokens;
CREATE INDEX api_tokens_made_from ON api_tokens (made_from) WHERE made_from IS NOT NULL;
COMMENT ON COLUMN api_tokens.made_from IS 'The token that was presented for this session; NULL where an identity provider vouched for the person, and for tokens made on request.';
