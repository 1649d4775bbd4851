-- name: ShowSites :many
-- The sites that exist, with the state of their reconciliation.
SELECT s.id AS site_id, s.name, s.status, s.created_at, r.last_cycle_at, r.last_informed_at, COALESCE(r.last_outcome, '') AS last_outcome,
    COALESCE(r.last_error_code, '') AS last_error_code, COALESCE(r.last_error_message, '') AS last_error_message, r.sweep_ended_at,
    r.tripped_at, COALESCE(r.tripped_nodes, '{}')::uuid[] AS tripped_nodes, r.confirmed_at
FROM maas_sites s LEFT JOIN reconciliation_sites r ON r.site_id = s.id
WHERE s.deleted_at IS NULL AND (sqlc.narg(one_site)::uuid IS NULL OR s.id = sqlc.narg(one_site)::uuid)
ORDER BY s.name, s.id;

-- name: ShowNodes :many
-- How many nodes each site has, by state. A node that drifts does not count as
-- unread.
SELECT m.site_id, count(*) AS nodes, count(*) FILTER (WHERE m.drift_detected) AS drifted,
    count(*) FILTER (WHERE NOT m.drift_detected AND (m.last_reconciled_at IS NULL OR m.last_reconciled_at < sqlc.arg(read_since)::timestamptz)) AS unreconciled
FROM node_maas_state m JOIN nodes n ON n.id = m.node_id
WHERE n.status <> 'deleted' AND (sqlc.narg(one_site)::uuid IS NULL OR m.site_id = sqlc.narg(one_site)::uuid)
GROUP BY m.site_id;

-- name: ShowPresent :many
-- Only of sites that exist: nobody looks at a deleted site again, so its
-- findings would never end.
SELECT f.site_id, f.type, f.severity, count(*) AS findings FROM reconciliation_findings f JOIN maas_sites s ON s.id = f.site_id
WHERE f.status <> 'closed' AND s.deleted_at IS NULL AND (sqlc.narg(one_site)::uuid IS NULL OR f.site_id = sqlc.narg(one_site)::uuid)
GROUP BY f.site_id, f.type, f.severity;

-- name: ShowNames :many
SELECT id AS node_id, hostname FROM nodes WHERE id = ANY(sqlc.arg(ids)::uuid[]) ORDER BY hostname, id;

-- name: ShowDrifted :many
-- Nodes that drift, those with the worst findings first.
SELECT m.node_id, m.site_id, s.name AS site_name, n.hostname, n.status, n.schedulable, n.hold_reason, n.held_by, m.maas_system_id, m.last_maas_status,
    m.last_maas_power_state, m.last_reconciled_at, m.drift_detected, w.worst
FROM node_maas_state m
JOIN nodes n ON n.id = m.node_id
JOIN maas_sites s ON s.id = m.site_id
CROSS JOIN LATERAL (
    SELECT COALESCE(max(CASE f.severity WHEN 'critical' THEN 4 WHEN 'warning' THEN 3 WHEN 'info' THEN 2 ELSE 1 END), 0)::integer AS worst,
        COALESCE(bool_or((sqlc.narg(severity)::text IS NULL OR f.severity = sqlc.narg(severity)::text)
            AND (sqlc.narg(type)::text IS NULL OR f.type = sqlc.narg(type)::text) AND f.occurrence >= sqlc.arg(least_occurrence)::integer), false) AS has_wanted
    FROM reconciliation_findings f WHERE f.node_id = m.node_id AND f.status <> 'closed'
) w
WHERE m.drift_detected AND n.status <> 'deleted'
  AND (sqlc.narg(site_id)::uuid IS NULL OR m.site_id = sqlc.narg(site_id)::uuid)
  AND (w.has_wanted OR sqlc.narg(severity)::text IS NULL AND sqlc.narg(type)::text IS NULL AND sqlc.arg(least_occurrence)::integer = 0)
  AND (sqlc.arg(after_node)::uuid = '00000000-0000-0000-0000-000000000000'
    OR (-w.worst, n.hostname, m.node_id) > (-sqlc.arg(after_worst)::integer, sqlc.arg(after_hostname)::text, sqlc.arg(after_node)::uuid))
ORDER BY w.worst DESC, n.hostname, m.node_id LIMIT sqlc.arg(page_size);

-- name: ShowBound :one
-- A node that is bound to a machine of MAAS, whether it drifts or not.
SELECT m.node_id, m.site_id, s.name AS site_name, n.hostname, n.status, n.schedulable, n.hold_reason, n.held_by, m.maas_system_id, m.last_maas_status,
    m.last_maas_power_state, m.last_reconciled_at, m.drift_detected, 0::integer AS worst
FROM node_maas_state m JOIN nodes n ON n.id = m.node_id JOIN maas_sites s ON s.id = m.site_id
WHERE m.node_id = $1 AND n.status <> 'deleted';

-- name: ShowPresentOf :many
SELECT sqlc.embed(f), s.name AS site_name, COALESCE(n.hostname, f.hostname) AS shown_hostname
FROM reconciliation_findings f JOIN maas_sites s ON s.id = f.site_id LEFT JOIN nodes n ON n.id = f.node_id
WHERE f.node_id = ANY(sqlc.arg(ids)::uuid[]) AND f.status <> 'closed'
ORDER BY CASE f.severity WHEN 'critical' THEN 4 WHEN 'warning' THEN 3 WHEN 'info' THEN 2 ELSE 1 END DESC, f.opened_at, f.id;

-- name: ShowPastOf :many
SELECT sqlc.embed(f), s.name AS site_name, COALESCE(n.hostname, f.hostname) AS shown_hostname
FROM reconciliation_findings f JOIN maas_sites s ON s.id = f.site_id LEFT JOIN nodes n ON n.id = f.node_id
WHERE f.node_id = $1 AND f.status = 'closed'
ORDER BY f.opened_at DESC, f.id DESC LIMIT $2;

-- name: ShowFindings :many
SELECT sqlc.embed(f), s.name AS site_name, COALESCE(n.hostname, f.hostname) AS shown_hostname
FROM reconciliation_findings f JOIN maas_sites s ON s.id = f.site_id LEFT JOIN nodes n ON n.id = f.node_id
WHERE (sqlc.narg(after_at)::timestamptz IS NULL OR (f.opened_at, f.id) < (sqlc.narg(after_at)::timestamptz, sqlc.arg(after_id)::uuid))
  AND (sqlc.narg(site_id)::uuid IS NULL OR f.site_id = sqlc.narg(site_id)::uuid)
  AND (sqlc.narg(node_id)::uuid IS NULL OR f.node_id = sqlc.narg(node_id)::uuid)
  AND (sqlc.narg(type)::text IS NULL OR f.type = sqlc.narg(type)::text)
  AND (sqlc.narg(severity)::text IS NULL OR f.severity = sqlc.narg(severity)::text)
  AND (sqlc.narg(status)::text IS NULL OR f.status = sqlc.narg(status)::text OR sqlc.narg(status)::text = 'present' AND f.status <> 'closed')
  AND (sqlc.narg(since)::timestamptz IS NULL OR f.opened_at >= sqlc.narg(since)::timestamptz)
ORDER BY f.opened_at DESC, f.id DESC LIMIT sqlc.arg(page_size);

-- name: ShowFinding :one
SELECT sqlc.embed(f), s.name AS site_name, COALESCE(n.hostname, f.hostname) AS shown_hostname
FROM reconciliation_findings f JOIN maas_sites s ON s.id = f.site_id LEFT JOIN nodes n ON n.id = f.node_id
WHERE f.id = $1;

-- name: ShowRuns :many
SELECT sqlc.embed(r), s.name AS site_name, COALESCE(n.hostname, '') AS hostname
FROM reconciliation_runs r JOIN maas_sites s ON s.id = r.site_id LEFT JOIN nodes n ON n.id = r.node_id
WHERE (sqlc.narg(after_at)::timestamptz IS NULL OR (r.requested_at, r.id) < (sqlc.narg(after_at)::timestamptz, sqlc.arg(after_id)::uuid))
  AND (sqlc.narg(site_id)::uuid IS NULL OR r.site_id = sqlc.narg(site_id)::uuid)
  AND (sqlc.narg(trigger)::text IS NULL OR r.trigger = sqlc.narg(trigger)::text)
ORDER BY r.requested_at DESC, r.id DESC LIMIT sqlc.arg(page_size);

-- name: ShowRun :one
SELECT sqlc.embed(r), s.name AS site_name, COALESCE(n.hostname, '') AS hostname
FROM reconciliation_runs r JOIN maas_sites s ON s.id = r.site_id LEFT JOIN nodes n ON n.id = r.node_id
WHERE r.id = $1;

-- name: ServerOfAnother :many
-- Nodes of any site whose machine has this id and the same interface or BMC:
-- sites that reach one MAAS by two names do not know of each other.
SELECT n.hostname, s.name AS site_name
FROM node_maas_state b JOIN nodes n ON n.id = b.node_id JOIN maas_sites s ON s.id = b.site_id
WHERE b.maas_system_id = sqlc.arg(maas_system_id) AND b.node_id <> sqlc.arg(node_id) AND n.status <> 'deleted'
  AND (b.pxe_mac <> '' AND lower(b.pxe_mac) = ANY(sqlc.arg(macs)::text[]) OR b.ipmi_ip <> '' AND b.ipmi_ip = sqlc.arg(ipmi_ip))
ORDER BY n.hostname LIMIT 1;
