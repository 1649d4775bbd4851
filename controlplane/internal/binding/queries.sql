-- name: Upsert :one
INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id, ipmi_ip, pxe_mac, last_maas_status, last_maas_power_state,
    last_maas_ips, last_reconciled_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (node_id) DO UPDATE SET site_id = excluded.site_id, profile_id = excluded.profile_id, maas_system_id = excluded.maas_system_id,
    ipmi_ip = excluded.ipmi_ip, pxe_mac = excluded.pxe_mac, last_maas_status = excluded.last_maas_status,
    last_maas_power_state = excluded.last_maas_power_state, last_maas_ips = excluded.last_maas_ips,
    last_reconciled_at = excluded.last_reconciled_at, updated_at = excluded.updated_at,
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

-- name: ByMachine :one
-- A machine is known by its MAAS, which more than one site may be of.
SELECT b.* FROM node_maas_state b JOIN nodes n ON n.id = b.node_id JOIN maas_sites s ON s.id = b.site_id JOIN maas_sites here ON here.id = sqlc.arg(site_id)
WHERE s.api_base_url = here.api_base_url AND b.maas_system_id = sqlc.arg(maas_system_id) AND n.status <> 'deleted' ORDER BY b.bound_at DESC LIMIT 1;

-- name: ByIPMI :one
SELECT b.* FROM node_maas_state b JOIN nodes n ON n.id = b.node_id
WHERE b.site_id = $1 AND b.ipmi_ip = $2 AND n.status <> 'deleted' ORDER BY b.bound_at DESC LIMIT 1;
