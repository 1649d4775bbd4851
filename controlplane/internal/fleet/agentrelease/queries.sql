-- name: InsertRelease :one
INSERT INTO agent_releases (version, commit, architecture, digest, size, notes, minimum_control_plane, protocol_min, protocol_max, programs, key_id, signature, added_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING *;

-- name: Release :one
SELECT * FROM agent_releases WHERE version = $1;

-- name: LockRelease :one
SELECT * FROM agent_releases WHERE version = $1 FOR NO KEY UPDATE;

-- name: ShareRelease :one
SELECT * FROM agent_releases WHERE version = $1 FOR SHARE;

-- name: ListReleases :many
SELECT sqlc.embed(r), coalesce(b.reason, '')::text AS blocked_because,
    ARRAY(SELECT c.channel FROM agent_channels c WHERE c.version = r.version ORDER BY c.channel)::text[] AS channels,
    (SELECT count(*) FROM nodes n WHERE n.reported_agent_version = r.version AND n.status <> 'deleted')::bigint AS nodes
FROM agent_releases r LEFT JOIN agent_blocked_versions b ON b.version = r.version
WHERE (sqlc.arg(version)::text = '' OR r.version = sqlc.arg(version)::text)
  AND (r.created_at, r.version) < (sqlc.arg(before)::timestamptz, sqlc.arg(before_version)::text)
ORDER BY r.created_at DESC, r.version DESC LIMIT sqlc.arg(page_size);

-- name: WithdrawRelease :one
UPDATE agent_releases SET withdrawn_at = clock_timestamp(), withdrawn_by = $2, withdrawn_because = $3
WHERE version = $1 RETURNING *;

-- name: Channels :many
SELECT * FROM agent_channels ORDER BY channel;

-- name: LockChannel :one
SELECT * FROM agent_channels WHERE channel = $1 FOR NO KEY UPDATE;

-- name: LockChannels :many
SELECT * FROM agent_channels ORDER BY channel FOR NO KEY UPDATE;

-- name: SetChannel :one
UPDATE agent_channels SET version = $2, previous = $3, reason = $4, changed_by = $5, changed_at = clock_timestamp()
WHERE channel = $1 RETURNING *;

-- name: Block :execrows
INSERT INTO agent_blocked_versions (version, reason, blocked_by) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

-- name: Unblock :execrows
DELETE FROM agent_blocked_versions WHERE version = $1;

-- name: Blocked :one
SELECT * FROM agent_blocked_versions WHERE version = $1;

-- name: ListBlocked :many
SELECT * FROM agent_blocked_versions ORDER BY version;

-- name: Floor :one
SELECT * FROM agent_floors;

-- name: SetFloor :one
UPDATE agent_floors SET version = $1, reason = $2, changed_by = $3, changed_at = clock_timestamp() RETURNING *;
