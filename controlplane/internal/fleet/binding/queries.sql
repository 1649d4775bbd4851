-- name: Upsert :one
INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id, ipmi_ip, pxe_mac, last_maas_status, last_maas_power_state,
    last_maas_ips, last_reconciled_at, installation_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (node_id) DO UPDATE SET site_id = excluded.site_id, profile_id = excluded.profile_id, maas_system_id = excluded.maas_system_id,
    ipmi_ip = excluded.ipmi_ip, pxe_mac = excluded.pxe_mac, last_maas_status = excluded.last_maas_status,
    last_maas_power_state = excluded.last_maas_power_state, last_maas_ips = excluded.last_maas_ips,
    last_reconciled_at = excluded.last_reconciled_at, installation_id = excluded.installation_id, updated_at = excluded.updated_at,
    bound_at = CASE WHEN node_maas_state.site_id = excluded.site_id AND node_maas_state.maas_system_id = excluded.maas_system_id
        THEN node_maas_state.bound_at ELSE excluded.bound_at END
RETURNING *;

-- name: Unbind :execrows
DELETE FROM node_maas_state WHERE node_id = $1;

-- name: UnbindDeleted :exec
DELETE FROM node_maas_state b USING nodes n
WHERE b.site_id = $1 AND b.maas_system_id = $2 AND b.node_id <> $3 AND n.id = b.node_id AND n.status = 'deleted';

-- name: OfNode :one
SELECT * FROM node_maas_state WHERE node_id = $1;

-- name: LockOfNode :one
SELECT * FROM node_maas_state WHERE node_id = $1 FOR NO KEY UPDATE;

-- name: ByMachine :one
-- A machine is known by its MAAS, which more than one site may be of.
SELECT b.* FROM node_maas_state b JOIN nodes n ON n.id = b.node_id JOIN maas_sites s ON s.id = b.site_id JOIN maas_sites here ON here.id = sqlc.arg(site_id)
WHERE s.api_base_url = here.api_base_url AND b.maas_system_id = sqlc.arg(maas_system_id) AND n.status <> 'deleted' ORDER BY b.bound_at DESC LIMIT 1;

-- name: ByMachines :many
SELECT b.* FROM node_maas_state b JOIN nodes n ON n.id = b.node_id
WHERE b.site_id = $1 AND b.maas_system_id = ANY(sqlc.arg(machines)::text[]) AND n.status <> 'deleted'
ORDER BY b.maas_system_id;

-- name: ForSweep :many
SELECT b.* FROM node_maas_state b JOIN nodes n ON n.id = b.node_id
WHERE b.site_id = $1 AND (b.last_reconciled_at IS NULL OR b.last_reconciled_at < sqlc.arg(before)::timestamptz) AND n.status <> 'deleted'
ORDER BY coalesce(b.last_tried_at, b.last_reconciled_at) NULLS FIRST, b.node_id LIMIT sqlc.arg(most);

-- name: Shared :many
SELECT b.maas_system_id, array_agg(b.node_id::text ORDER BY b.node_id)::text[] AS nodes
FROM node_maas_state b JOIN nodes n ON n.id = b.node_id JOIN maas_sites s ON s.id = b.site_id JOIN maas_sites here ON here.id = sqlc.arg(site_id)
WHERE s.api_base_url = here.api_base_url AND n.status <> 'deleted'
GROUP BY b.maas_system_id HAVING count(*) > 1;

-- name: Looked :execrows
-- The order in which MAAS lists addresses means nothing. An installation is
-- taken over once; another one after it is for somebody to judge.
UPDATE node_maas_state b SET last_maas_status = u.status, last_maas_power_state = u.power, last_maas_ips = u.ips,
    installation_id = CASE WHEN b.installation_id = 0 THEN u.installation ELSE b.installation_id END,
    last_reconciled_at = u.at, last_tried_at = NULL, updated_at = clock_timestamp()
FROM (SELECT unnest(sqlc.arg(nodes)::uuid[]) AS node_id, unnest(sqlc.arg(statuses)::text[]) AS status, unnest(sqlc.arg(powers)::text[]) AS power,
        string_to_array(unnest(sqlc.arg(addresses)::text[]), ',') AS ips, unnest(sqlc.arg(installations)::bigint[]) AS installation,
        unnest(sqlc.arg(times)::timestamptz[]) AS at) u
WHERE b.node_id = u.node_id AND (b.last_maas_status <> u.status OR b.last_maas_power_state <> u.power
    OR NOT (b.last_maas_ips @> u.ips AND b.last_maas_ips <@ u.ips) OR b.installation_id = 0 AND u.installation <> 0);

-- name: Touch :exec
UPDATE node_maas_state SET last_reconciled_at = sqlc.arg(at)::timestamptz, last_tried_at = NULL WHERE node_id = ANY(sqlc.arg(nodes)::uuid[]);

-- name: Tried :exec
UPDATE node_maas_state SET last_tried_at = sqlc.arg(at)::timestamptz WHERE node_id = ANY(sqlc.arg(nodes)::uuid[]);

-- name: SetDrift :exec
UPDATE node_maas_state SET drift_detected = true, drift_details = sqlc.arg(details), drift_resolved_at = NULL, updated_at = clock_timestamp()
WHERE node_id = $1 AND (NOT drift_detected OR drift_details <> sqlc.arg(details));

-- name: EndDrift :exec
UPDATE node_maas_state SET drift_detected = false, drift_details = '{}', drift_resolved_at = sqlc.arg(at)::timestamptz, updated_at = clock_timestamp()
WHERE node_id = $1 AND drift_detected;

-- name: Rebase :execrows
UPDATE node_maas_state SET installation_id = $2, updated_at = clock_timestamp() WHERE node_id = $1;

-- name: SetProfile :exec
UPDATE node_maas_state SET profile_id = $2, updated_at = clock_timestamp() WHERE node_id = $1;

-- name: Rebind :exec
UPDATE node_maas_state SET maas_system_id = $2, installation_id = $3, bound_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE node_id = $1;
