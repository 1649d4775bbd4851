-- name: Insert :exec
INSERT INTO audit_logs (id, actor_kind, actor_id, actor_name, actor_role, action, target_kind, target_id,
                        org_id, project_id, result, reason, correlation_id, actor_ip, metadata)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: List :many
SELECT * FROM audit_logs
WHERE (sqlc.narg(before)::bigint IS NULL OR seq < sqlc.narg(before))
  AND (sqlc.narg(action)::text IS NULL OR action = sqlc.narg(action))
  AND (sqlc.narg(actor_id)::text IS NULL OR actor_id = sqlc.narg(actor_id))
  AND (sqlc.narg(actor)::text IS NULL OR actor_id = sqlc.narg(actor) OR strpos(lower(actor_name), lower(sqlc.narg(actor))) > 0)
  AND (sqlc.arg(all_orgs)::boolean OR sqlc.narg(actor_id)::text IS NULL AND sqlc.narg(actor)::text IS NULL OR actor_kind = 'system'
    OR actor_role <> ALL (sqlc.arg(nameless)::text[])
      AND actor_id NOT IN (SELECT u.id::text FROM users u WHERE u.platform_role IS NOT NULL))
  AND (cardinality(sqlc.arg(actor_kinds)::text[]) = 0 OR actor_kind = ANY (sqlc.arg(actor_kinds)::text[]))
  AND (cardinality(sqlc.arg(targets)::text[]) = 0 OR target_id = ANY (sqlc.arg(targets)::text[]))
  AND (sqlc.narg(target_kind)::text IS NULL OR target_kind = sqlc.narg(target_kind))
  AND (sqlc.narg(target_id)::text IS NULL OR target_id = sqlc.narg(target_id))
  AND (sqlc.narg(result)::text IS NULL OR result = sqlc.narg(result))
  AND (sqlc.narg(correlation_id)::text IS NULL OR correlation_id = sqlc.narg(correlation_id))
  AND (sqlc.narg(since)::timestamptz IS NULL OR occurred_at >= sqlc.narg(since))
  AND (sqlc.narg(until)::timestamptz IS NULL OR occurred_at < sqlc.narg(until))
  AND (sqlc.arg(all_orgs)::boolean OR org_id = ANY (sqlc.arg(org_ids)::uuid[]))
ORDER BY seq DESC
LIMIT sqlc.arg(page_size);

-- name: Names :many
-- What things are called now, by kind and id. A tenant reads no names of machines, of what belongs to other tenants,
-- and of people of the platform.
SELECT 'node'::text AS kind, n.id::text AS id, n.hostname AS name FROM nodes n
WHERE n.id = ANY (sqlc.arg(ids)::uuid[]) AND sqlc.arg(all_orgs)::boolean
UNION ALL SELECT 'site', m.id::text, m.name FROM maas_sites m WHERE m.id = ANY (sqlc.arg(ids)::uuid[]) AND sqlc.arg(all_orgs)
UNION ALL SELECT 'tenant', o.id::text, o.slug FROM organizations o
WHERE o.id = ANY (sqlc.arg(ids)::uuid[]) AND (sqlc.arg(all_orgs) OR o.id = ANY (sqlc.arg(org_ids)::uuid[]))
UNION ALL SELECT 'project', p.id::text, p.slug FROM projects p
WHERE p.id = ANY (sqlc.arg(ids)::uuid[]) AND (sqlc.arg(all_orgs) OR p.org_id = ANY (sqlc.arg(org_ids)::uuid[]))
UNION ALL SELECT 'user', u.id::text, COALESCE(NULLIF(u.name, ''), u.email) FROM users u
WHERE u.id = ANY (sqlc.arg(ids)::uuid[]) AND (sqlc.arg(all_orgs) OR u.platform_role IS NULL)
UNION ALL SELECT 'user', u.id::text, sqlc.arg(the_platform)::text FROM users u
WHERE u.id = ANY (sqlc.arg(ids)::uuid[]) AND NOT sqlc.arg(all_orgs) AND u.platform_role IS NOT NULL
UNION ALL SELECT 'service_account', a.id::text, a.name FROM service_accounts a JOIN projects p ON p.id = a.project_id
WHERE a.id = ANY (sqlc.arg(ids)::uuid[]) AND (sqlc.arg(all_orgs) OR p.org_id = ANY (sqlc.arg(org_ids)::uuid[]))
UNION ALL SELECT 'onboarding', j.id::text, j.hostname FROM node_onboardings j
WHERE j.id = ANY (sqlc.arg(ids)::uuid[]) AND sqlc.arg(all_orgs)
UNION ALL SELECT 'decommission', d.id::text, n.hostname FROM node_decommissions d JOIN nodes n ON n.id = d.node_id
WHERE d.id = ANY (sqlc.arg(ids)::uuid[]) AND sqlc.arg(all_orgs)
UNION ALL SELECT 'allocation', x.id::text, x.name FROM allocations x
WHERE x.id = ANY (sqlc.arg(ids)::uuid[]) AND x.name <> '' AND (sqlc.arg(all_orgs) OR x.org_id = ANY (sqlc.arg(org_ids)::uuid[]));

-- name: Named :many
-- The ids of what is called so, if the reader may know that it is called so.
SELECT n.id::text AS id FROM nodes n WHERE n.hostname = sqlc.arg(name)::text AND sqlc.arg(all_orgs)::boolean
UNION ALL SELECT m.id::text FROM maas_sites m WHERE m.name = sqlc.arg(name) AND sqlc.arg(all_orgs)
UNION ALL SELECT j.id::text FROM node_onboardings j WHERE j.hostname = sqlc.arg(name) AND sqlc.arg(all_orgs)
UNION ALL SELECT d.id::text FROM node_decommissions d JOIN nodes n ON n.id = d.node_id
WHERE n.hostname = sqlc.arg(name) AND sqlc.arg(all_orgs)
UNION ALL SELECT o.id::text FROM organizations o
WHERE o.slug = sqlc.arg(name) AND (sqlc.arg(all_orgs) OR o.id = ANY (sqlc.arg(org_ids)::uuid[]))
UNION ALL SELECT p.id::text FROM projects p
WHERE p.slug = sqlc.arg(name) AND (sqlc.arg(all_orgs) OR p.org_id = ANY (sqlc.arg(org_ids)::uuid[]))
UNION ALL SELECT u.id::text FROM users u
WHERE (lower(u.email) = lower(sqlc.arg(name)) OR u.name = sqlc.arg(name)) AND (sqlc.arg(all_orgs) OR u.platform_role IS NULL)
UNION ALL SELECT a.id::text FROM service_accounts a JOIN projects p ON p.id = a.project_id
WHERE a.name = sqlc.arg(name) AND (sqlc.arg(all_orgs) OR p.org_id = ANY (sqlc.arg(org_ids)::uuid[]))
UNION ALL SELECT x.id::text FROM allocations x
WHERE x.name = sqlc.arg(name) AND (sqlc.arg(all_orgs) OR x.org_id = ANY (sqlc.arg(org_ids)::uuid[]));
