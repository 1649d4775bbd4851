-- name: ClaimKey :one
-- Claims a key that is new, or whose holder died without an effect.
INSERT INTO idempotency_keys (caller, key, request_hash, locked_until)
VALUES (@caller, @key, @request_hash, clock_timestamp() + make_interval(secs => @lease_seconds::double precision))
ON CONFLICT (caller, key) DO UPDATE
SET locked_until = EXCLUDED.locked_until, attempt = idempotency_keys.attempt + 1
WHERE idempotency_keys.request_hash = EXCLUDED.request_hash
  AND idempotency_keys.status IS NULL
  AND NOT idempotency_keys.effect_committed
  AND idempotency_keys.locked_until < clock_timestamp()
RETURNING attempt;

-- name: KeyState :one
SELECT request_hash, (locked_until >= clock_timestamp())::boolean AS locked, effect_committed, status, headers, body, body_withheld
FROM idempotency_keys WHERE caller = @caller AND key = @key;

-- name: MarkEffect :execrows
-- Runs in the transaction that has the effect.
UPDATE idempotency_keys SET effect_committed = true
WHERE caller = @caller AND key = @key AND attempt = @attempt AND status IS NULL;

-- name: StoreAnswer :execrows
UPDATE idempotency_keys
SET status = @status, headers = @headers, body = @body, body_withheld = @body_withheld, locked_until = clock_timestamp()
WHERE caller = @caller AND key = @key AND attempt = @attempt;

-- name: ReleaseKey :execrows
-- Waits for a transaction that may still be committing before it looks.
DELETE FROM idempotency_keys
WHERE caller = @caller AND key = @key AND attempt = @attempt AND NOT effect_committed;

-- name: UnlockKey :execrows
UPDATE idempotency_keys SET locked_until = clock_timestamp()
WHERE caller = @caller AND key = @key AND attempt = @attempt;

-- name: SweepKeys :execrows
DELETE FROM idempotency_keys WHERE created_at < clock_timestamp() - make_interval(secs => @older_than_seconds::double precision);

-- name: LeaseAllowance :one
-- Takes up to a number of requests from the allowance of a caller. It uses the
-- clock of the database, so that replicas need not agree on theirs. Parameters:
-- caller, burst, requests wanted, rate (sqlc cannot name them here).
INSERT INTO rate_allowances AS a (caller, tokens, leased, at)
VALUES ($1, $2::float8 - $3::int, $3, clock_timestamp())
ON CONFLICT (caller) DO UPDATE SET
    tokens = least($2::float8, a.tokens + $4::float8 * greatest(0, extract(epoch FROM EXCLUDED.at - a.at)::float8))
           - least(EXCLUDED.leased, floor(least($2::float8, a.tokens + $4::float8 * greatest(0, extract(epoch FROM EXCLUDED.at - a.at)::float8)))::int),
    leased = least(EXCLUDED.leased, floor(least($2::float8, a.tokens + $4::float8 * greatest(0, extract(epoch FROM EXCLUDED.at - a.at)::float8)))::int),
    at     = greatest(a.at, EXCLUDED.at)
RETURNING leased, tokens;

-- name: ReturnAllowance :exec
-- Returns what a replica took and did not use.
UPDATE rate_allowances SET tokens = least(@burst::float8, tokens + @unused::int) WHERE caller = @caller;

-- name: SweepAllowances :execrows
DELETE FROM rate_allowances WHERE at < clock_timestamp() - make_interval(secs => @older_than_seconds::double precision);
