-- name: Insert :exec
INSERT INTO audit_logs (id, actor_kind, actor_id, actor_name, actor_role, action, target_kind, target_id,
                        org_id, project_id, result, reason, correlation_id, actor_ip, metadata)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: List :many
SELECT * FROM audit_logs
WHERE (sqlc.narg(before)::bigint IS NULL OR seq < sqlc.narg(before))
  AND (sqlc.narg(action)::text IS NULL OR action = sqlc.narg(action))
  AND (sqlc.narg(actor_id)::text IS NULL OR actor_id = sqlc.narg(actor_id)
    AND (sqlc.arg(all_orgs)::boolean OR actor_kind = 'system' OR actor_role <> ALL (sqlc.arg(nameless)::text[])))
  AND (sqlc.narg(target_kind)::text IS NULL OR target_kind = sqlc.narg(target_kind))
  AND (sqlc.narg(target_id)::text IS NULL OR target_id = sqlc.narg(target_id))
  AND (sqlc.narg(result)::text IS NULL OR result = sqlc.narg(result))
  AND (sqlc.narg(correlation_id)::text IS NULL OR correlation_id = sqlc.narg(correlation_id))
  AND (sqlc.narg(since)::timestamptz IS NULL OR occurred_at >= sqlc.narg(since))
  AND (sqlc.narg(until)::timestamptz IS NULL OR occurred_at < sqlc.narg(until))
  AND (sqlc.arg(all_orgs)::boolean OR org_id = ANY (sqlc.arg(org_ids)::uuid[]))
ORDER BY seq DESC
LIMIT sqlc.arg(page_size);
