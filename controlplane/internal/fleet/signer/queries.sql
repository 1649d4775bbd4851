-- name: Lock :exec
-- Makes all changes of signers wait for each other.
SELECT pg_advisory_xact_lock(hashtext('gpuaas signers'));

-- name: Insert :one
INSERT INTO signer_versions (id, status, key_name, public_key, verifier_version, published_at, effective_at)
VALUES (sqlc.arg(id), sqlc.arg(status), sqlc.arg(key_name), sqlc.arg(public_key), sqlc.arg(verifier_version), sqlc.arg(published_at),
        sqlc.narg(effective_at))
RETURNING *;

-- name: Move :one
UPDATE signer_versions
SET status = sqlc.arg(status), version = version + 1, retires_at = sqlc.narg(retires_at),
    effective_at = coalesce(sqlc.narg(effective_at), effective_at), finished_at = sqlc.narg(finished_at)
WHERE id = sqlc.arg(id)
RETURNING *;

-- name: Get :one
SELECT * FROM signer_versions WHERE id = $1;

-- name: Current :many
SELECT * FROM signer_versions WHERE status IN ('staged', 'active', 'grace');

-- name: ActiveKey :one
SELECT id, key_name, public_key FROM signer_versions WHERE status = 'active';

-- name: RaiseVerifierVersion :one
INSERT INTO verifier_sets (version) VALUES (1)
ON CONFLICT (singleton) DO UPDATE SET version = verifier_sets.version + 1, changed_at = clock_timestamp()
RETURNING version;

-- name: Verifiers :many
-- One statement, so that the version and the keys belong together. The newest
-- revoked keys are enough: nodes do not know older ones anyway.
SELECT v.version AS set_version, s.id, s.public_key, s.status
FROM verifier_sets v, signer_versions s
WHERE s.status IN ('staged', 'active', 'grace')
   OR s.id IN (SELECT r.id FROM signer_versions r WHERE r.status = 'revoked' ORDER BY r.finished_at DESC LIMIT 32)
ORDER BY s.published_at, s.id;

-- name: List :many
SELECT * FROM signer_versions
WHERE (sqlc.narg(published_before)::timestamptz IS NULL
       OR (published_at, id) < (sqlc.narg(published_before)::timestamptz, sqlc.narg(id_before)::text))
ORDER BY published_at DESC, id DESC
LIMIT sqlc.arg(page_size);

-- name: Vouching :many
-- Keys that sign what nodes shall trust: those in use, and those that were
-- retired recently, for nodes that know no newer one.
SELECT id, key_name, public_key, status FROM signer_versions
WHERE status IN ('staged', 'active', 'grace') OR status = 'retired' AND finished_at > sqlc.arg(retired_after)
ORDER BY published_at DESC, id DESC
LIMIT sqlc.arg(most);

-- name: Trusted :one
SELECT * FROM node_trust WHERE about = $1 ORDER BY version DESC LIMIT 1;

-- name: WasTrusted :one
SELECT EXISTS (SELECT 1 FROM node_trust WHERE about = $1 AND pem = $2);

-- name: Trust :one
INSERT INTO node_trust (about, version, pem)
SELECT sqlc.arg(about)::text, COALESCE(max(t.version), 0) + 1, sqlc.arg(pem)::text FROM node_trust t WHERE t.about = sqlc.arg(about)::text
RETURNING *;
