-- name: LockChain :exec
-- Makes additions to the chain of one node wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended('decommission_certificates ' || sqlc.arg(node)::text, 0));

-- name: Insert :exec
INSERT INTO decommission_certificates (id, node_id, seq, kind, decommission_id, document, digest, previous_digest, key_id, issued_at, evidence_seq)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: Get :one
SELECT document FROM decommission_certificates WHERE id = $1;

-- name: OfEvidence :one
SELECT id, node_id, seq, kind, decommission_id, digest, previous_digest, key_id, issued_at,
       (document #>> '{document,node,hostname}')::text AS hostname, (document #>> '{document,operation,mode}')::text AS mode,
       CASE WHEN document #> '{document,downgrades}' = '[]' AND document #> '{document,overrides}' = '[]' THEN 'clean' ELSE 'with_gaps' END AS outcome
FROM decommission_certificates WHERE decommission_id = $1 AND evidence_seq = $2;

-- name: Last :one
SELECT seq, digest, issued_at FROM decommission_certificates WHERE node_id = $1 ORDER BY seq DESC LIMIT 1;

-- name: KeyIDs :many
SELECT DISTINCT key_id FROM decommission_certificates ORDER BY key_id;

-- name: NodeExists :one
SELECT EXISTS (SELECT FROM nodes WHERE id = $1);

-- name: List :many
SELECT id, node_id, seq, kind, decommission_id, digest, previous_digest, key_id, issued_at,
       (document #>> '{document,node,hostname}')::text AS hostname, (document #>> '{document,operation,mode}')::text AS mode,
       CASE WHEN document #> '{document,downgrades}' = '[]' AND document #> '{document,overrides}' = '[]' THEN 'clean' ELSE 'with_gaps' END AS outcome
FROM decommission_certificates
WHERE (sqlc.narg(issued_before)::timestamptz IS NULL
       OR (issued_at, id) < (sqlc.narg(issued_before)::timestamptz, sqlc.narg(id_before)::uuid))
  AND (sqlc.narg(node)::uuid IS NULL OR node_id = sqlc.narg(node)::uuid)
  AND (sqlc.narg(kind)::text IS NULL OR kind = sqlc.narg(kind)::text)
  AND (sqlc.arg(outcome)::text = '' OR (sqlc.arg(outcome)::text = 'clean')
       = (document #> '{document,downgrades}' = '[]' AND document #> '{document,overrides}' = '[]'))
ORDER BY issued_at DESC, id DESC
LIMIT sqlc.arg(page_size);
