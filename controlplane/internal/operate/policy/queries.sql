-- Applying are the levels that count for a type in a project: for all types first, then for the type; of each the platform's, the tenant's and the project's.
-- name: Applying :many
SELECT * FROM operation_policy_overrides
WHERE operation_type IN (@operation_type::text, '*')
  AND (scope = 'global' OR org_id = sqlc.narg(org_id) AND (project_id IS NULL OR project_id = sqlc.narg(project_id)))
ORDER BY CASE scope WHEN 'global' THEN 1 WHEN 'tenant' THEN 2 ELSE 3 END, operation_type <> '*';

-- name: GetLevel :one
SELECT * FROM operation_policy_overrides
WHERE operation_type = @operation_type AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id)
  AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);
