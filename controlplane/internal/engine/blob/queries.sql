-- name: BeginUpload :one
INSERT INTO blob_uploads (id, purpose, digest, size) VALUES ($1, $2, $3, $4)
ON CONFLICT ON CONSTRAINT blob_uploads_purpose DO UPDATE SET touched_at = clock_timestamp()
RETURNING *;

-- name: Upload :one
SELECT * FROM blob_uploads WHERE id = $1 AND purpose = $2;

-- name: LockUpload :one
SELECT * FROM blob_uploads WHERE id = $1 AND purpose = $2 FOR UPDATE;

-- name: InsertChunk :exec
INSERT INTO blob_chunks (content_id, start, data) VALUES ($1, $2, $3);

-- name: Received :one
UPDATE blob_uploads SET received = received + sqlc.arg(more)::bigint, touched_at = clock_timestamp() WHERE id = $1 RETURNING *;

-- name: Chunk :one
SELECT data FROM blob_chunks WHERE content_id = $1 AND start = $2;

-- name: KeepBlob :one
-- The row is locked in any case, so that nobody removes it as unused meanwhile.
INSERT INTO blobs (digest, size, content_id) VALUES ($1, $2, $3)
ON CONFLICT (digest) DO UPDATE SET size = excluded.size
RETURNING content_id;

-- name: MendBlob :exec
UPDATE blobs SET content_id = $2 WHERE digest = $1;

-- name: DeleteUpload :exec
DELETE FROM blob_uploads WHERE id = $1;

-- name: DeleteChunks :exec
DELETE FROM blob_chunks WHERE content_id = $1;

-- name: Blob :one
SELECT * FROM blobs WHERE digest = $1;

-- name: Refer :exec
INSERT INTO blob_references (digest, owner_kind, owner_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: Release :exec
DELETE FROM blob_references WHERE digest = $1 AND owner_kind = $2 AND owner_id = $3;

-- name: LockAbandoned :one
SELECT id FROM blob_uploads WHERE touched_at < $1 ORDER BY touched_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: LockUnused :one
SELECT digest, content_id FROM blobs b
WHERE b.created_at < $1 AND NOT EXISTS (SELECT FROM blob_references r WHERE r.digest = b.digest)
ORDER BY b.created_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: DeleteUnused :execrows
-- Somebody may have referred to the blob before it was locked.
DELETE FROM blobs b WHERE b.digest = $1 AND NOT EXISTS (SELECT FROM blob_references r WHERE r.digest = b.digest);
