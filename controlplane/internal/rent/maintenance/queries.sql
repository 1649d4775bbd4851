-- name: Insert :one
INSERT INTO maintenances (id, announcement_id, allocation_id, node_id, hostname, org_id, project_id, kind, consent_asked, not_before,
    due_at, reason, announced_by, announced_by_name)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (allocation_id) WHERE ended_at IS NULL DO NOTHING RETURNING *;

-- name: Get :one
SELECT * FROM maintenances WHERE id = $1;

-- name: Lock :one
SELECT * FROM maintenances WHERE id = $1 FOR NO KEY UPDATE;

-- name: MayBegin :one
SELECT may_begin::boolean FROM maintenances_open_now WHERE id = $1;

-- List gives maintenances, newest first.
-- name: List :many
SELECT * FROM maintenances
WHERE (sqlc.narg(project)::uuid IS NULL OR project_id = sqlc.narg(project))
  AND (sqlc.narg(node)::uuid IS NULL OR node_id = sqlc.narg(node))
  AND (sqlc.narg(announcement)::uuid IS NULL OR announcement_id = sqlc.narg(announcement))
  AND (sqlc.arg(statuses)::text[] = '{}' OR status = ANY (sqlc.arg(statuses)::text[]))
  AND (sqlc.narg(before)::uuid IS NULL OR id < sqlc.narg(before))
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: Move :one
UPDATE maintenances SET status = sqlc.arg(to_status)::text, ended_because = sqlc.arg(ended_because), version = version + 1,
    status_changed_at = clock_timestamp(), ended_at = CASE WHEN sqlc.arg(ends)::boolean THEN clock_timestamp() END
WHERE id = sqlc.arg(id) RETURNING *;

-- name: SetAnswer :exec
UPDATE maintenances SET answered_at = clock_timestamp(), answered_by = $2, answered_by_name = $3, answer = $4, begins_now = $5
WHERE id = $1;

-- Tenants are the allocations on some nodes: of those that are named, or of those that are so.
-- name: Tenants :many
SELECT a.id, n.id AS node_id, n.hostname FROM nodes n JOIN allocations a ON a.id = n.allocation_id
WHERE a.status IN ('requested', 'provisioning', 'active') AND a.release_requested_at IS NULL
  AND (sqlc.arg(nodes)::uuid[] = '{}' OR n.id = ANY (sqlc.arg(nodes)::uuid[]))
  AND (sqlc.arg(region)::text = '' OR n.region_code = sqlc.arg(region)) AND (sqlc.arg(rack)::text = '' OR n.rack = sqlc.arg(rack))
  AND (sqlc.arg(pool)::text = '' OR n.pool = sqlc.arg(pool)) AND (sqlc.arg(sku)::text = '' OR n.sku_id = sqlc.arg(sku))
  AND n.labels @> sqlc.arg(labels)::jsonb
ORDER BY n.id LIMIT sqlc.arg(most);

-- name: Nodes :many
SELECT id, hostname FROM nodes WHERE id = ANY (sqlc.arg(ids)::uuid[]) ORDER BY id;

-- Due are those whose time has come, and those whose allocation has ended or left the node. One that is under way ends when
-- operators say so.
-- name: Due :many
SELECT m.id FROM maintenances m JOIN allocations a ON a.id = m.allocation_id
WHERE m.ended_at IS NULL AND m.status <> 'under_way' AND (m.due_at <= clock_timestamp()
    OR a.status NOT IN ('requested', 'provisioning', 'active') OR a.release_requested_at IS NOT NULL OR a.node_id <> m.node_id)
ORDER BY m.due_at LIMIT 100;

-- name: Passed :one
SELECT (due_at <= clock_timestamp())::boolean FROM maintenances WHERE id = $1;

-- Near are those whose time comes soon and whose tenants were not yet told so: the latest of the marks that have passed,
-- in seconds before. A mark that had passed when it was announced does not count.
-- name: Near :many
SELECT w.id::text AS id, w.mark::bigint AS mark FROM (
    SELECT m.id, m.warned, min(k.mark) AS mark, min(t.at) AS at
    FROM maintenances m CROSS JOIN unnest(sqlc.arg(marks)::bigint[]) AS k (mark)
        CROSS JOIN LATERAL (SELECT CASE WHEN m.kind = 'release' THEN m.due_at ELSE m.not_before END AS at) AS t
    WHERE m.status IN ('announced', 'consented') AND t.at > clock_timestamp()
      AND t.at - k.mark * interval '1 second' <= clock_timestamp() AND t.at - k.mark * interval '1 second' > m.created_at
    GROUP BY m.id) AS w
WHERE w.warned = 0 OR w.mark < w.warned ORDER BY w.at LIMIT 100;

-- name: SetWarned :one
UPDATE maintenances SET warned = sqlc.arg(mark)::bigint
WHERE id = sqlc.arg(id) AND status IN ('announced', 'consented') AND (warned = 0 OR warned > sqlc.arg(mark)::bigint)
RETURNING *;
