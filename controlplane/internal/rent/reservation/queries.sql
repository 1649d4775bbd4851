-- LockSKU is the lock that placement takes, so that a reservation counts what was placed before it.
-- name: LockSKU :exec
SELECT pg_advisory_xact_lock(hashtext('gpuaas placement ' || sqlc.arg(sku)::text));

-- name: Insert :one
INSERT INTO reservations (id, org_id, project_id, sku_id, nodes, region_code, rack, pool, labels, starts_at, ends_at, reason, forced,
    created_by, created_by_name)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) RETURNING *;

-- name: OwnerExists :one
SELECT EXISTS (SELECT FROM organizations o WHERE o.id = sqlc.arg(org_id)
    AND (sqlc.narg(project_id)::uuid IS NULL OR EXISTS (SELECT FROM projects p WHERE p.id = sqlc.narg(project_id) AND p.org_id = o.id)));

-- name: Lock :one
SELECT * FROM reservations WHERE id = $1 FOR NO KEY UPDATE;

-- name: Cancel :one
UPDATE reservations SET cancelled_at = clock_timestamp(), cancelled_by = $2, cancel_reason = $3 WHERE id = $1 RETURNING *;

-- name: Get :one
SELECT * FROM reservations WHERE id = $1;

-- List gives reservations that somebody may see, newest first.
-- name: List :many
SELECT * FROM reservations r
WHERE (sqlc.arg(everything)::boolean OR r.org_id = ANY (sqlc.arg(orgs)::uuid[]) OR r.project_id = ANY (sqlc.arg(projects)::uuid[])
    OR r.project_id IS NULL AND r.org_id = ANY (sqlc.arg(orgs_of_projects)::uuid[]))
  AND (sqlc.narg(org)::uuid IS NULL OR r.org_id = sqlc.narg(org))
  AND (sqlc.narg(project)::uuid IS NULL OR r.project_id = sqlc.narg(project)
    OR r.project_id IS NULL AND r.org_id = (SELECT p.org_id FROM projects p WHERE p.id = sqlc.narg(project)))
  AND (sqlc.arg(sku)::text = '' OR r.sku_id = sqlc.arg(sku))
  AND (sqlc.arg(states)::text[] = '{}' OR CASE WHEN r.cancelled_at IS NOT NULL THEN 'cancelled'
        WHEN r.ends_at <= statement_timestamp() THEN 'ended' WHEN r.starts_at > statement_timestamp() THEN 'upcoming'
        ELSE 'active' END = ANY (sqlc.arg(states)::text[]))
  AND (sqlc.narg(before)::uuid IS NULL OR r.id < sqlc.narg(before))
ORDER BY r.id DESC LIMIT sqlc.arg(page_size);

-- Owners are those who have reservations of a SKU that run now.
-- name: Owners :many
SELECT DISTINCT org_id, project_id FROM reservations
WHERE sku_id = sqlc.arg(sku) AND cancelled_at IS NULL AND ends_at > statement_timestamp() AND starts_at <= statement_timestamp();

-- Running are the reservations of a SKU that run now, each with nodes that can serve it: those that its owner rents, and
-- free ones. Of both it has as many as all of them need together, which is enough to serve each as well as possible. Nodes
-- that are of no use to the one who asks come first, so that the others are left to that one; for its own reservations
-- those that are of use are chosen.
-- name: Running :many
WITH live AS (
    SELECT r.id, sum(r.nodes) OVER () AS needed FROM reservations r
    WHERE r.sku_id = sqlc.arg(sku) AND r.cancelled_at IS NULL AND r.ends_at > statement_timestamp() AND r.starts_at <= statement_timestamp())
SELECT r.id, r.org_id, r.project_id, r.nodes, r.region_code, r.rack, r.pool, r.labels, r.starts_at,
       COALESCE(x.id::text, '')::text AS node, COALESCE(x.rented, false)::boolean AS rented, COALESCE(x.useful, false)::boolean AS useful
FROM live l JOIN reservations r ON r.id = l.id LEFT JOIN LATERAL (
    (SELECT n.id, true AS rented, false AS useful, false AS unsuited, n.clean_at
     FROM allocations a JOIN nodes n ON n.id = a.node_id AND n.allocation_id = a.id
     WHERE a.org_id = r.org_id AND (r.project_id IS NULL OR a.project_id = r.project_id)
       AND a.status IN ('requested', 'provisioning', 'active') AND n.sku_id = r.sku_id
       AND r.region_code IN ('', n.region_code) AND r.rack IN ('', n.rack) AND n.pool = r.pool AND n.labels @> r.labels
     LIMIT l.needed)
    UNION ALL
    (SELECT n.id, false, u.useful,
         u.useful <> COALESCE(r.org_id = sqlc.narg(org)::uuid AND (r.project_id IS NULL OR r.project_id = sqlc.narg(project)::uuid), false) AS unsuited,
         n.clean_at
     FROM nodes_to_let n CROSS JOIN LATERAL (
         SELECT (sqlc.arg(region)::text = '' OR n.region_code = sqlc.arg(region)) AND n.pool = sqlc.arg(pool)::text
             AND n.labels @> sqlc.arg(labels)::jsonb AND n.capabilities @> sqlc.arg(capabilities)::jsonb AS useful) AS u
     WHERE n.sku_id = r.sku_id AND n.last_contact_at > sqlc.arg(heard_since)
       AND r.region_code IN ('', n.region_code) AND r.rack IN ('', n.rack) AND n.pool = r.pool AND n.labels @> r.labels
     ORDER BY unsuited, n.clean_at DESC NULLS LAST, n.id LIMIT l.needed)
) AS x ON true
ORDER BY x.rented DESC, x.useful, x.clean_at DESC NULLS LAST, x.id, r.starts_at, r.id;

-- Overlapping are the reservations of a SKU that run at some time of a window, each with nodes that can serve it, whatever
-- these do now: as many as all of them need together.
-- name: Overlapping :many
WITH live AS (
    SELECT r.id, sum(r.nodes) OVER () AS needed FROM reservations r
    WHERE r.sku_id = sqlc.arg(sku) AND r.cancelled_at IS NULL AND r.ends_at > sqlc.arg(starts_at) AND r.starts_at < sqlc.arg(ends_at))
SELECT r.id, r.nodes, r.starts_at, r.ends_at, COALESCE(x.id::text, '')::text AS node
FROM live l JOIN reservations r ON r.id = l.id LEFT JOIN LATERAL (
    SELECT n.id FROM nodes n
    WHERE n.sku_id = r.sku_id AND NOT node_is(n.status, 'out')
      AND r.region_code IN ('', n.region_code) AND r.rack IN ('', n.rack) AND n.pool = r.pool AND n.labels @> r.labels
    ORDER BY n.id LIMIT l.needed) AS x ON true
ORDER BY x.id, r.id;

-- name: CountFitting :one
SELECT count(*)::integer FROM nodes n JOIN reservations r ON r.id = sqlc.arg(id)
WHERE n.sku_id = r.sku_id AND NOT node_is(n.status, 'out')
  AND r.region_code IN ('', n.region_code) AND r.rack IN ('', n.rack) AND n.pool = r.pool AND n.labels @> r.labels;
