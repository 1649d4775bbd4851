-- name: Nodes :many
-- All nodes that are not deleted, with the few facts that the map shows. A node
-- belongs to the site of its machine, or to the one at which it is being
-- onboarded.
SELECT n.id, n.hostname, n.status, n.schedulable, n.region_code, n.rack, n.reported_agent_version, n.reported_agent_commit, COALESCE(NULLIF(n.desired_agent_version, ''), h.version, '') AS wanted_agent_version, n.certificate_not_after, n.verifier_version,
    COALESCE((SELECT version FROM verifier_sets), 0)::bigint AS verifiers_wanted, m.site_id, o.site_id AS arriving_at
FROM nodes n LEFT JOIN agent_channels h ON h.channel = n.agent_channel
LEFT JOIN node_maas_state m ON m.node_id = n.id
LEFT JOIN (SELECT DISTINCT ON (node_id) node_id, site_id FROM node_onboardings WHERE completed_at IS NULL ORDER BY node_id) o ON o.node_id = n.id
WHERE n.status <> 'deleted'
  AND (sqlc.narg(region_code)::text IS NULL OR n.region_code = sqlc.narg(region_code))
  AND (sqlc.narg(site_id)::uuid IS NULL OR COALESCE(m.site_id, o.site_id) = sqlc.narg(site_id)::uuid)
  AND (sqlc.narg(search)::text IS NULL OR strpos(n.hostname, sqlc.narg(search)) > 0 OR strpos(lower(n.host), sqlc.narg(search)) > 0
    OR starts_with(n.id::text, sqlc.narg(search))
    OR n.id IN (SELECT f.node_id FROM node_hardware f WHERE strpos(f.sought, ' ' || sqlc.narg(hardware)) > 0
      OR strpos(f.sought, sqlc.narg(hardware) || ' ') > 0 OR strpos(array_to_string(f.addresses, ' '), sqlc.narg(search)) > 0))
ORDER BY n.region_code COLLATE "C", n.hostname COLLATE "C" LIMIT sqlc.arg(most)::integer;

-- name: Alike :many
-- The same nodes for counting: nodes that a summary does not tell apart share
-- one row, so that a large fleet is few rows. If it matters which nodes they
-- are, nodes with a finding or a job come one by one, with their ids. held and
-- tainted follow the rules of ListNodes.
SELECT b.node_id, n.status, n.schedulable, k.held, k.tainted, n.gpus_total, n.sku_id, n.region_code, n.reported_agent_version,
    n.reported_agent_commit, k.wanted_agent_version, COALESCE(min(n.certificate_not_after), 'epoch')::timestamptz AS certificate_not_after,
    n.verifier_version, COALESCE((SELECT version FROM verifier_sets), 0)::bigint AS verifiers_wanted, m.site_id, o.site_id AS arriving_at,
    count(*) AS nodes
FROM nodes n LEFT JOIN agent_channels h ON h.channel = n.agent_channel
LEFT JOIN node_maas_state m ON m.node_id = n.id
LEFT JOIN (SELECT DISTINCT ON (node_id) node_id, site_id FROM node_onboardings WHERE completed_at IS NULL ORDER BY node_id) o ON o.node_id = n.id
LEFT JOIN (SELECT node_id FROM reconciliation_findings WHERE status <> 'closed'
    UNION SELECT node_id FROM jobs WHERE completed_at IS NULL) b ON b.node_id = n.id AND sqlc.arg(by_node)::boolean
CROSS JOIN LATERAL (SELECT (n.hold_reason <> '' OR n.held_by <> '')::boolean AS held,
    (n.tainted_at IS NOT NULL AND (n.clean_at IS NULL OR n.clean_at <= n.tainted_at))::boolean AS tainted,
    n.certificate_not_after > sqlc.arg(now)::timestamptz AS certified,
    COALESCE(NULLIF(n.desired_agent_version, ''), h.version, '')::text AS wanted_agent_version) k
WHERE n.status <> 'deleted'
  AND (sqlc.narg(sku_id)::text IS NULL OR n.sku_id = sqlc.narg(sku_id))
  AND (sqlc.narg(region_code)::text IS NULL OR n.region_code = sqlc.narg(region_code))
  AND (sqlc.narg(site_id)::uuid IS NULL OR COALESCE(m.site_id, o.site_id) = sqlc.narg(site_id)::uuid)
  AND (sqlc.narg(search)::text IS NULL OR strpos(n.hostname, sqlc.narg(search)) > 0 OR strpos(lower(n.host), sqlc.narg(search)) > 0
    OR starts_with(n.id::text, sqlc.narg(search))
    OR n.id IN (SELECT f.node_id FROM node_hardware f WHERE strpos(f.sought, ' ' || sqlc.narg(hardware)) > 0
      OR strpos(f.sought, sqlc.narg(hardware) || ' ') > 0 OR strpos(array_to_string(f.addresses, ' '), sqlc.narg(search)) > 0))
GROUP BY b.node_id, n.status, n.schedulable, k.held, k.tainted, n.gpus_total, n.sku_id, n.region_code, n.reported_agent_version,
    n.reported_agent_commit, k.wanted_agent_version, k.certified, n.verifier_version, m.site_id, o.site_id;

-- name: Findings :many
-- Findings that are not over, of sites and nodes that exist: nobody looks at a
-- deleted site again, and the findings of a deleted node end in the next cycle.
-- A finding belongs to the region of its node, or of its site if it is about no
-- node. The two can differ, because the region of a site may change.
SELECT f.node_id, f.severity, count(*) AS findings
FROM reconciliation_findings f JOIN maas_sites s ON s.id = f.site_id LEFT JOIN nodes n ON n.id = f.node_id
WHERE f.status <> 'closed' AND s.deleted_at IS NULL AND n.status IS DISTINCT FROM 'deleted'
  AND (sqlc.narg(region_code)::text IS NULL OR COALESCE(n.region_code, s.region_code) = sqlc.narg(region_code))
  AND (sqlc.narg(site_id)::uuid IS NULL OR s.id = sqlc.narg(site_id)::uuid)
GROUP BY f.node_id, f.severity;

-- name: Jobs :many
-- Jobs that are not over, in the order in which they were asked for. Their region
-- is found as for findings. The node of an onboarding may not exist yet; then only
-- its own columns say of which kind the machine is.
SELECT j.family AS kind, j.id::text AS job_id, j.node_id, j.status, (j.parked_at IS NOT NULL)::boolean AS parked
FROM jobs j LEFT JOIN nodes n ON n.id = j.node_id LEFT JOIN maas_sites s ON s.id = j.site_id LEFT JOIN onboarding_jobs o ON o.job_id = j.id
WHERE j.completed_at IS NULL AND j.family = ANY(sqlc.arg(families)::text[])
  AND (sqlc.narg(sku_id)::text IS NULL OR COALESCE(o.sku_id, n.sku_id) = sqlc.narg(sku_id))
  AND (sqlc.narg(region_code)::text IS NULL OR COALESCE(n.region_code, s.region_code) = sqlc.narg(region_code))
  AND (sqlc.narg(site_id)::uuid IS NULL OR j.site_id = sqlc.narg(site_id)::uuid)
  AND (sqlc.narg(search)::text IS NULL OR strpos(j.subject, sqlc.narg(search)) > 0 OR strpos(n.hostname, sqlc.narg(search)) > 0
    OR strpos(lower(n.host), sqlc.narg(search)) > 0 OR starts_with(j.node_id::text, sqlc.narg(search))
    OR j.node_id IN (SELECT f.node_id FROM node_hardware f WHERE strpos(f.sought, ' ' || sqlc.narg(hardware)) > 0
      OR strpos(f.sought, sqlc.narg(hardware) || ' ') > 0 OR strpos(array_to_string(f.addresses, ' '), sqlc.narg(search)) > 0))
ORDER BY j.requested_at, j.id;

-- name: Sites :many
SELECT id, name, region_code, deleted_at FROM maas_sites ORDER BY name, id;

-- name: Agents :many
-- Nodes in service by the agent that they run. Those that the answer does not tell
-- apart share one row.
SELECT n.agent_channel, n.reported_agent_version, n.reported_agent_commit,
    COALESCE(NULLIF(n.desired_agent_version, ''), h.version, '')::text AS wanted_agent_version,
    COALESCE(min(n.certificate_not_after), 'epoch')::timestamptz AS certificate_not_after, n.verifier_version,
    COALESCE((SELECT version FROM verifier_sets), 0)::bigint AS verifiers_wanted, count(*) AS nodes
FROM nodes n LEFT JOIN agent_channels h ON h.channel = n.agent_channel
WHERE NOT node_is(n.status, 'out') AND n.status <> 'deleted'
GROUP BY n.agent_channel, n.reported_agent_version, n.reported_agent_commit, n.desired_agent_version, h.version,
    n.verifier_version, n.certificate_not_after > sqlc.arg(now)::timestamptz;
