-- name: LockOwner :exec
SELECT pg_advisory_xact_lock(hashtextextended('artifacts ' || sqlc.arg(owner)::text, 0));

-- name: OrgOfProject :one
SELECT org_id FROM projects WHERE id = $1;

-- name: PlaceOf :one
SELECT p.org_id, p.id FROM projects p JOIN organizations o ON o.id = p.org_id
WHERE o.slug = sqlc.arg(tenant) AND p.slug = sqlc.arg(project);

-- name: TenantExists :one
SELECT EXISTS (SELECT FROM organizations WHERE id = $1);

-- name: Count :one
SELECT count(*) AS kept, count(*) FILTER (WHERE status IN ('active', 'deprecated')) AS used FROM artifacts
WHERE org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: Insert :one
INSERT INTO artifacts (id, org_id, project_id, name, kind, source, digest, size, media_type, artifact_type, layers,
    platforms, labels, signature, signature_format, signature_reason, key_id, created_by, updated_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $18) RETURNING *;

-- name: Get :one
-- What an owner may see: its own, its tenant's and the platform's.
SELECT * FROM artifacts
WHERE id = sqlc.arg(id) AND (org_id IS NULL OR org_id = sqlc.narg(org_id)
    AND (project_id IS NULL OR project_id = sqlc.narg(project_id)));

-- name: Lock :one
-- Only the owner itself changes one.
SELECT * FROM artifacts
WHERE id = sqlc.arg(id) AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id)
  AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id) FOR NO KEY UPDATE;

-- name: List :many
SELECT * FROM artifacts
WHERE (org_id IS NULL OR org_id = sqlc.narg(org_id) AND (project_id IS NULL OR project_id = sqlc.narg(project_id)))
  AND (sqlc.arg(name)::text = '' OR name = sqlc.arg(name)::text)
  AND (sqlc.arg(status)::text = '' OR status = sqlc.arg(status)::text)
  AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: NoteCheck :one
UPDATE artifacts SET signature = $2, signature_format = $3, signature_reason = $4, key_id = $5,
    checked_at = clock_timestamp(), updated_at = clock_timestamp(), updated_by = $6, version = version + 1
WHERE id = $1 RETURNING *;

-- name: Move :one
UPDATE artifacts SET status = $2, status_reason = $3, updated_at = clock_timestamp(), updated_by = $4, version = version + 1
WHERE id = $1 RETURNING *;

-- name: LockStanding :exec
-- Whoever asks what stands goes beside others who ask, and never beside one who takes something back.
SELECT pg_advisory_xact_lock_shared(hashtextextended('standing of artifacts ' || sqlc.arg(org)::text, 0));

-- name: LockStandingToChange :exec
SELECT pg_advisory_xact_lock(hashtextextended('standing of artifacts ' || sqlc.arg(org)::text, 0));

-- name: RevokedAmong :many
-- Which digests are revoked, as far as an owner may know: by themselves, since a revoked index names them, or since they
-- are an index that names a revoked manifest.
SELECT w.digest::text AS digest, r.status_reason AS because
FROM unnest(sqlc.arg(digests)::text[]) AS w (digest)
JOIN artifacts r ON r.status = 'revoked' AND (r.digest = w.digest
    OR r.platforms @> jsonb_build_array(jsonb_build_object('digest', w.digest))
    OR r.digest IN (
        SELECT p.named ->> 'digest' FROM artifacts i, jsonb_array_elements(i.platforms) AS p (named)
        WHERE i.digest = w.digest))
WHERE r.org_id IS NULL OR r.org_id = sqlc.narg(org_id)
    AND (r.project_id IS NULL OR r.project_id = sqlc.narg(project_id))
ORDER BY w.digest, r.id LIMIT 1;

-- name: Standing :many
-- The signatures of digests that count now, as far as an owner may know. One counts as long as its key does.
SELECT a.digest, a.source, a.signature_format, k.org_id, k.repositories
FROM artifacts a JOIN artifact_keys k ON k.id = a.key_id
WHERE a.digest = ANY (sqlc.arg(digests)::text[]) AND a.status IN ('active', 'deprecated') AND a.signature = 'verified'
  AND (a.org_id IS NULL OR a.org_id = sqlc.narg(org_id)
       AND (a.project_id IS NULL OR a.project_id = sqlc.narg(project_id)))
  AND k.withdrawn_at IS NULL AND k.not_before <= statement_timestamp() AND statement_timestamp() < k.not_after
ORDER BY a.id;

-- name: CountKeys :one
SELECT count(*) FROM artifact_keys WHERE org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND withdrawn_at IS NULL;

-- name: InsertKey :one
INSERT INTO artifact_keys (id, org_id, name, pem, fingerprint, algorithm, repositories, not_before, not_after, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING *;

-- name: ListKeys :many
SELECT * FROM artifact_keys
WHERE org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: TrustedKeys :many
-- Keys that count for an owner now: the platform's, and then its tenant's.
SELECT * FROM artifact_keys
WHERE (org_id IS NULL OR org_id = sqlc.narg(org_id)) AND withdrawn_at IS NULL
  AND not_before <= statement_timestamp() AND statement_timestamp() < not_after
ORDER BY org_id NULLS FIRST, id;

-- name: KeysOf :many
SELECT * FROM artifact_keys WHERE id = ANY (sqlc.arg(ids)::uuid[]);

-- name: LockKey :one
SELECT * FROM artifact_keys
WHERE id = sqlc.arg(id) AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id) FOR NO KEY UPDATE;

-- name: WithdrawKey :one
UPDATE artifact_keys SET withdrawn_at = clock_timestamp(), withdrawn_by = $2, withdrawn_because = $3
WHERE id = $1 RETURNING *;

-- name: CountSources :one
SELECT count(*) FROM artifact_sources WHERE org_id IS NOT DISTINCT FROM sqlc.narg(org_id);

-- name: InsertSource :one
INSERT INTO artifact_sources (id, org_id, name, kind, reach, login, region, shared, has_secret, created_by, updated_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10) RETURNING *;

-- name: ListSources :many
SELECT * FROM artifact_sources
WHERE org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: LockSource :one
SELECT * FROM artifact_sources
WHERE id = sqlc.arg(id) AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id) FOR UPDATE;

-- name: RotateSource :one
UPDATE artifact_sources SET login = $2, has_secret = $3, updated_at = clock_timestamp(), updated_by = $4,
    version = version + 1
WHERE id = $1 RETURNING *;

-- name: DeleteSource :exec
DELETE FROM artifact_sources WHERE id = $1;

-- name: SourcesFor :many
-- The sources whose logins may read what an owner registered: its own, and those that a level above shares.
SELECT * FROM artifact_sources s
WHERE s.org_id IS NULL AND (s.shared OR sqlc.arg(of_platform)::boolean)
   OR s.org_id = sqlc.narg(org_id) AND (s.shared OR NOT sqlc.arg(of_project)::boolean)
ORDER BY s.org_id NULLS LAST, length(s.reach) DESC, s.id;

-- name: OwnersOf :many
-- Who registered something, as far as a run may know; the narrowest first.
SELECT DISTINCT org_id, project_id FROM artifacts
WHERE source = sqlc.arg(source) AND digest = sqlc.arg(digest) AND status IN ('active', 'deprecated')
  AND (org_id IS NULL OR org_id = sqlc.narg(org_id) AND (project_id IS NULL OR project_id = sqlc.narg(project_id)))
ORDER BY project_id NULLS LAST, org_id NULLS LAST;
