-- name: InsertBatch :exec
INSERT INTO onboarding_batches (batch_id, site_id, profile_id, sku_id) VALUES ($1, $2, $3, $4);

-- name: InsertOnboardings :exec
INSERT INTO onboarding_jobs (job_id, ipmi_ip, profile_id, sku_id, initialize_disks, facts)
SELECT unnest(sqlc.arg(ids)::uuid[]), unnest(sqlc.arg(ipmi_ips)::text[]), sqlc.arg(profile_id), sqlc.arg(sku_id)::text, sqlc.arg(initialize_disks)::boolean,
    unnest(sqlc.arg(facts)::text[])::jsonb;

-- name: OfIDs :many
SELECT * FROM node_onboardings WHERE id = ANY(sqlc.arg(ids)::uuid[]) ORDER BY id;

-- name: List :many
SELECT * FROM node_onboardings
WHERE (sqlc.arg(after)::uuid = '00000000-0000-0000-0000-000000000000' OR id < sqlc.arg(after)::uuid)
  AND (sqlc.narg(batch_id)::uuid IS NULL OR batch_id = sqlc.narg(batch_id)::uuid)
  AND (sqlc.narg(site_id)::uuid IS NULL OR site_id = sqlc.narg(site_id)::uuid)
  AND (cardinality(sqlc.arg(statuses)::text[]) = 0 OR status = ANY(sqlc.arg(statuses)::text[]))
  AND starts_with(hostname, sqlc.arg(hostname_prefix)::text)
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: Under :many
-- The onboardings of a site that have not ended.
SELECT id, node_id, maas_system_id, hostname, status FROM node_onboardings WHERE site_id = $1 AND completed_at IS NULL ORDER BY id;

-- name: Keep :exec
-- Stores what an attempt found out, in the transaction of the job.
UPDATE onboarding_jobs SET maas_system_id = sqlc.arg(maas_system_id), pxe_mac = sqlc.arg(pxe_mac), facts = sqlc.arg(facts),
    observed_since = CASE WHEN observed_status = sqlc.arg(observed_status)::text THEN observed_since ELSE sqlc.narg(observed_at)::timestamptz END,
    observed_status = sqlc.arg(observed_status)::text, observed_power = sqlc.arg(observed_power), observed_ips = sqlc.arg(observed_ips),
    observed_at = sqlc.narg(observed_at)::timestamptz
WHERE job_id = sqlc.arg(job_id);

-- name: KeepFacts :exec
-- Stores what an action changes, in the transaction of the job.
UPDATE onboarding_jobs SET facts = sqlc.arg(facts) WHERE job_id = sqlc.arg(job_id);

-- name: PendingOfBatch :many
SELECT id, hostname, admitted_at FROM node_onboardings WHERE batch_id = $1 AND status = 'pending' ORDER BY id;

-- name: OwnOfBatches :many
SELECT * FROM onboarding_batches WHERE batch_id = ANY(sqlc.arg(ids)::uuid[]);

-- name: InFlight :many
-- Names are those of nodes, unique in a region; addresses are those of a site.
SELECT o.id, o.hostname, (CASE WHEN o.site_id = here.id THEN o.ipmi_ip ELSE '' END)::text AS ipmi_ip, o.status
FROM node_onboardings o JOIN maas_sites s ON s.id = o.site_id JOIN maas_sites here ON here.id = sqlc.arg(site_id)
WHERE o.completed_at IS NULL AND (s.region_code = here.region_code AND o.hostname = ANY(sqlc.arg(hostnames)::text[])
  OR o.site_id = here.id AND o.ipmi_ip = ANY(sqlc.arg(ipmi_ips)::text[]));

-- name: LockNames :exec
SELECT pg_advisory_xact_lock(hashtextextended('onboarding names of ' || sqlc.arg(region_code)::text, 0));

-- name: NodesNamed :many
SELECT id, hostname FROM nodes
WHERE region_code = sqlc.arg(region_code) AND status <> 'deleted' AND hostname = ANY(sqlc.arg(hostnames)::text[]);

-- name: MachinesBound :many
SELECT m.node_id, m.ipmi_ip, n.hostname FROM node_maas_state m JOIN nodes n ON n.id = m.node_id
WHERE m.site_id = sqlc.arg(site_id) AND n.status <> 'deleted' AND m.ipmi_ip = ANY(sqlc.arg(ipmi_ips)::text[]);

-- name: NodesOfMachines :many
-- A machine is known by its MAAS, which more than one site may be of.
SELECT m.maas_system_id, n.id, n.hostname, n.status FROM node_maas_state m JOIN nodes n ON n.id = m.node_id
JOIN maas_sites s ON s.id = m.site_id JOIN maas_sites here ON here.id = sqlc.arg(site_id) AND here.api_base_url = s.api_base_url
WHERE n.status <> 'deleted' AND m.maas_system_id = ANY(sqlc.arg(system_ids)::text[]);

-- name: ClaimedMachines :many
-- A machine is known by its MAAS, which more than one site may be of.
SELECT o.id, o.maas_system_id FROM node_onboardings o JOIN maas_sites s ON s.id = o.site_id JOIN maas_sites here ON here.id = sqlc.arg(site_id)
WHERE s.api_base_url = here.api_base_url AND o.completed_at IS NULL AND o.maas_system_id <> '' AND o.id <> sqlc.arg(asking);
