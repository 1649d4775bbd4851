-- name: InsertSite :one
INSERT INTO maas_sites (id, name, region_code, api_base_url, ca_certificate, allowed_networks, pxe_iface, pxe_vlan_vid,
    node_pxe_iface, deploy_user, deploy_ssh_iface, upstream_dns_servers, max_parallel, fingerprint_salt, hw_sync_http,
    required_scripts, required_capabilities, bmc_networks)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) RETURNING *;

-- name: Site :one
SELECT * FROM maas_sites WHERE id = $1 AND deleted_at IS NULL;

-- name: LockSite :one
SELECT * FROM maas_sites WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: ShareSite :one
SELECT * FROM maas_sites WHERE id = $1 AND deleted_at IS NULL FOR SHARE;

-- name: ListSites :many
SELECT * FROM maas_sites
WHERE deleted_at IS NULL AND id > sqlc.arg(after)::uuid AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status))
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: UpdateSite :one
UPDATE maas_sites SET name = $2, region_code = $3, api_base_url = $4, ca_certificate = $5, allowed_networks = $6,
    pxe_iface = $7, pxe_vlan_vid = $8, node_pxe_iface = $9, deploy_user = $10, deploy_ssh_iface = $11,
    upstream_dns_servers = $12, max_parallel = $13, status = $14,
    delete_requested_at = CASE WHEN $14 = 'active' THEN NULL ELSE delete_requested_at END, hw_sync_http = $15,
    required_scripts = $16, required_capabilities = $17, bmc_networks = $18,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: ForgetAPIToken :one
UPDATE maas_sites SET api_token_fingerprint = '', api_token_rotated_at = NULL WHERE id = $1 RETURNING *;

-- name: SetCredentials :one
UPDATE maas_sites SET api_token_fingerprint = $2, api_token_rotated_at = $3, power_fingerprint = $4, power_rotated_at = $5,
    deploy_password_fingerprint = $6, deploy_password_rotated_at = $7, credentials_version = credentials_version + 1,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: DeleteSite :one
UPDATE maas_sites SET deleted_at = clock_timestamp(), status = 'disabled', version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: DisableSite :one
UPDATE maas_sites SET status = 'disabled', version = version + 1, updated_at = clock_timestamp() WHERE id = $1 RETURNING *;

-- name: SiteInUse :one
-- Whether a node or a job that has not ended belongs to a site.
SELECT (EXISTS (SELECT FROM node_maas_state b JOIN nodes n ON n.id = b.node_id WHERE b.site_id = sqlc.arg(site)::uuid AND n.status <> 'deleted')
    OR EXISTS (SELECT FROM node_onboardings o WHERE o.site_id = sqlc.arg(site)::uuid AND o.completed_at IS NULL)
    OR EXISTS (SELECT FROM node_decommissions d WHERE d.site_id = sqlc.arg(site)::uuid AND d.completed_at IS NULL))::boolean;

-- name: ProfileUsers :many
-- Nodes that a profile belongs to, and jobs that go by it and have not ended.
SELECT 'node'::text AS kind, n.hostname FROM node_maas_state b JOIN nodes n ON n.id = b.node_id
WHERE b.profile_id = sqlc.arg(profile)::uuid AND n.status <> 'deleted'
UNION ALL SELECT 'onboarding of', o.hostname FROM node_onboardings o WHERE o.profile_id = sqlc.arg(profile)::uuid AND o.completed_at IS NULL
UNION ALL SELECT 'decommission of', d.hostname FROM node_decommissions d WHERE d.profile_id = sqlc.arg(profile)::uuid AND d.completed_at IS NULL
ORDER BY 1, 2;

-- name: InsertProfile :exec
INSERT INTO maas_site_profiles (id, site_id, name) VALUES ($1, $2, $3);

-- name: Profile :one
SELECT * FROM maas_site_profiles WHERE site_id = $1 AND id = $2 AND deleted_at IS NULL;

-- name: ProfileNamed :one
SELECT * FROM maas_site_profiles WHERE site_id = $1 AND name = $2 AND deleted_at IS NULL;

-- name: LockProfile :one
SELECT * FROM maas_site_profiles WHERE site_id = $1 AND id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: ListProfiles :many
SELECT * FROM maas_site_profiles
WHERE site_id = $1 AND deleted_at IS NULL AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: SetProfile :one
UPDATE maas_site_profiles SET name = $2, description = $3, status = $4, distro_series = $5, architecture = $6,
    pxe_iface = $7, pxe_vlan_vid = $8, node_pxe_iface = $9, strict_pxe_preflight = $10, enable_phase2_roce = $11,
    require_hw_sync = $12, hardware_sync_interval = $13, release_fallback_no_erase = $14,
    enable_deploy_retry_on_datasource_failure = $15, max_deploy_retry_attempts = $16, auto_claim_single_new_machine = $17,
    batch_max_parallel = $18, site_bootstrap_bundle_ref = $19, enrollment_token_ttl_seconds = $20,
    discovery_timeout_seconds = $21, commission_timeout_seconds = $22, deploy_timeout_seconds = $23,
    hw_sync_seed_timeout_seconds = $24, hw_sync_health_timeout_seconds = $25, enrollment_timeout_seconds = $26,
    release_timeout_seconds = $27, version = $28, minimum_erase = $29, minimum_sanitization = $30, remove_maas_record = $31,
    release_retired_machines = $32, return_healed_nodes = $33, require_enrollment_address = $34,
    gpu_scrub = $35, agent_timeout_seconds = $36, data_disks = $37, retired_machines = $38,
    gpu_scrub_nvidia = $39, gpu_scrub_amd = $40,
    site_bootstrap_bundle_digest = $41, previous_bundle_ref = $42, previous_bundle_digest = $43,
    updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: DeleteProfile :exec
UPDATE maas_site_profiles SET deleted_at = clock_timestamp(), status = 'disabled', version = version + 1, updated_at = clock_timestamp()
WHERE id = $1;

-- name: InsertOverride :one
INSERT INTO maas_power_credential_overrides (id, site_id, selector_type, selector_value, status, fingerprint, rotated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *;

-- name: Override :one
SELECT * FROM maas_power_credential_overrides WHERE site_id = $1 AND id = $2;

-- name: LockOverride :one
SELECT * FROM maas_power_credential_overrides WHERE site_id = $1 AND id = $2 FOR NO KEY UPDATE;

-- name: SelectorTaken :one
SELECT EXISTS (SELECT FROM maas_power_credential_overrides WHERE site_id = $1 AND selector_type = $2 AND selector_value = $3);

-- name: ListOverrides :many
SELECT * FROM maas_power_credential_overrides
WHERE site_id = $1 AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: MatchingOverrides :many
SELECT * FROM maas_power_credential_overrides
WHERE site_id = $1 AND (selector_type = 'hostname' AND selector_value = sqlc.arg(hostname)::text
    OR selector_type = 'ipmi_ip' AND selector_value = sqlc.arg(ipmi_ip)::text
    OR selector_type = 'pxe_mac' AND selector_value = sqlc.arg(pxe_mac)::text);

-- name: UpdateOverride :one
UPDATE maas_power_credential_overrides
SET status = $2, fingerprint = $3, rotated_at = $4, version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: DeleteOverride :execrows
DELETE FROM maas_power_credential_overrides WHERE site_id = $1 AND id = $2;

-- name: UpsertAssignments :many
INSERT INTO maas_roce_assignments (id, site_id, hostname, interface, ipv4_cidr, mtu)
SELECT unnest(sqlc.arg(ids)::uuid[]), sqlc.arg(site_id)::uuid, unnest(sqlc.arg(hostnames)::text[]), unnest(sqlc.arg(interfaces)::text[]),
    unnest(sqlc.arg(cidrs)::text[]), unnest(sqlc.arg(mtus)::integer[])
ON CONFLICT ON CONSTRAINT maas_roce_interface DO UPDATE SET ipv4_cidr = excluded.ipv4_cidr, mtu = excluded.mtu, updated_at = clock_timestamp()
WHERE (maas_roce_assignments.ipv4_cidr, maas_roce_assignments.mtu) IS DISTINCT FROM (excluded.ipv4_cidr, excluded.mtu)
RETURNING (xmax = 0)::boolean AS created;

-- name: SharedAddresses :many
SELECT a.hostname, a.interface, b.hostname AS other_hostname, b.interface AS other_interface, split_part(a.ipv4_cidr, '/', 1)::text AS address
FROM maas_roce_assignments a JOIN maas_roce_assignments b
    ON b.site_id = a.site_id AND split_part(b.ipv4_cidr, '/', 1) = split_part(a.ipv4_cidr, '/', 1) AND b.id <> a.id
WHERE a.site_id = sqlc.arg(site_id)::uuid AND split_part(a.ipv4_cidr, '/', 1) = ANY (sqlc.arg(addresses)::text[]);

-- name: ListAssignments :many
SELECT * FROM maas_roce_assignments
WHERE site_id = $1 AND (hostname, interface) > (sqlc.arg(after_hostname)::text, sqlc.arg(after_interface)::text)
  AND (sqlc.narg(hostname)::text IS NULL OR hostname = sqlc.narg(hostname))
  AND (sqlc.narg(interface)::text IS NULL OR interface = sqlc.narg(interface))
ORDER BY hostname, interface LIMIT sqlc.arg(page_size);

-- name: DeleteAssignment :one
DELETE FROM maas_roce_assignments WHERE site_id = $1 AND id = $2 RETURNING *;

-- name: ProfilesEver :many
SELECT * FROM maas_site_profiles WHERE site_id = $1;

-- name: AssignmentsOf :many
SELECT * FROM maas_roce_assignments WHERE site_id = $1 AND hostname = ANY(sqlc.arg(hostnames)::text[]) ORDER BY hostname, interface;

-- name: IntervalWishes :many
-- Profiles that ask for hardware sync, of all sites of the same MAAS: it has one
-- interval. The first of them owns it.
SELECT s.id AS site_id, s.name AS site, p.id AS profile_id, p.name AS profile, p.hardware_sync_interval
FROM maas_sites here JOIN maas_sites s ON s.api_base_url = here.api_base_url JOIN maas_site_profiles p ON p.site_id = s.id
WHERE here.id = sqlc.arg(site)::uuid AND s.deleted_at IS NULL AND s.status = 'active'
  AND p.deleted_at IS NULL AND p.status = 'active' AND p.require_hw_sync
ORDER BY s.created_at, s.id, p.name <> 'default', p.created_at, p.id;

-- name: CountUnpinned :one
-- Nodes of a site whose machine was neither deployed to fetch the program that
-- reports hardware over https nor with its digest, as far as was kept, and whose
-- agent has not said since that it goes by the digest.
SELECT count(*)
FROM node_maas_state b JOIN nodes n ON n.id = b.node_id JOIN maas_site_profiles p ON p.id = b.profile_id
LEFT JOIN LATERAL (
    SELECT o.id, o.facts FROM node_onboardings o WHERE o.node_id = n.id AND o.facts ? 'deployed_at'
    UNION ALL SELECT d.id, d.facts FROM node_decommissions d WHERE d.node_id = n.id AND d.facts ? 'deployed_at'
    ORDER BY id DESC LIMIT 1) j ON true
WHERE b.site_id = $1 AND node_is(n.status, 'steady') AND p.require_hw_sync
  AND NOT COALESCE(j.facts @> '{"sync_pinned": true}' OR j.facts->>'sync_url' LIKE 'https://%', false)
  AND NOT EXISTS (SELECT FROM node_tasks t WHERE t.node_id = n.id AND t.type = 'node.hw_sync_reseed' AND t.generation = n.generation
    AND t.status = 'succeeded' AND t.output @> '{"pinned": true}');

-- name: InsertBundle :one
INSERT INTO maas_site_bundles (id, site_id, name, version, digest, size, added_by) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *;

-- name: BundleEver :one
-- Also one that was deleted: its version is not given again.
SELECT * FROM maas_site_bundles WHERE site_id = $1 AND name = $2 AND version = $3;

-- name: Bundle :one
SELECT * FROM maas_site_bundles WHERE site_id = $1 AND id = $2 AND deleted_at IS NULL;

-- name: ListBundles :many
SELECT sqlc.embed(b), ARRAY(SELECT p.name FROM maas_site_profiles p
    WHERE p.site_id = b.site_id AND p.deleted_at IS NULL AND p.site_bootstrap_bundle_ref = b.name || '@' || b.version
    ORDER BY p.name)::text[] AS used_by
FROM maas_site_bundles b
WHERE b.site_id = $1 AND b.deleted_at IS NULL AND b.id > sqlc.arg(after)::uuid
ORDER BY b.id LIMIT sqlc.arg(page_size);

-- name: BundleUsers :many
SELECT name FROM maas_site_profiles WHERE site_id = $1 AND deleted_at IS NULL AND site_bootstrap_bundle_ref = sqlc.arg(ref) ORDER BY name;

-- name: DeleteBundle :execrows
UPDATE maas_site_bundles SET deleted_at = clock_timestamp() WHERE id = $1 AND deleted_at IS NULL;

-- name: BundlesOfDeletedSites :many
SELECT b.* FROM maas_site_bundles b JOIN maas_sites s ON s.id = b.site_id WHERE s.deleted_at IS NOT NULL AND b.deleted_at IS NULL ORDER BY b.id;

-- name: ForgetPreviousBundle :exec
UPDATE maas_site_profiles SET previous_bundle_ref = '', previous_bundle_digest = '' WHERE site_id = $1 AND previous_bundle_ref = sqlc.arg(ref);

-- name: SitesWithoutImport :many
SELECT id FROM maas_sites WHERE NOT bundles_imported AND deleted_at IS NULL ORDER BY id;

-- name: LockForImport :one
SELECT * FROM maas_sites WHERE id = $1 AND NOT bundles_imported AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: BundlesImported :exec
UPDATE maas_sites SET bundles_imported = true WHERE id = $1;

-- name: PinProfiles :exec
UPDATE maas_site_profiles SET site_bootstrap_bundle_digest = sqlc.arg(digest)
WHERE site_id = $1 AND site_bootstrap_bundle_ref = sqlc.arg(ref) AND site_bootstrap_bundle_digest = '';

-- name: RequestDeletion :execrows
UPDATE maas_sites SET delete_requested_at = clock_timestamp() WHERE id = $1 AND delete_requested_at IS NULL;

-- name: LeavingSites :many
-- Sites that are to be deleted as soon as nothing belongs to them.
SELECT id FROM maas_sites WHERE deleted_at IS NULL AND delete_requested_at IS NOT NULL AND status = 'disabled' ORDER BY id;

-- name: LockLeaving :one
SELECT * FROM maas_sites WHERE id = $1 AND deleted_at IS NULL AND delete_requested_at IS NOT NULL AND status = 'disabled'
FOR NO KEY UPDATE;

-- name: DeletedWithSecrets :many
SELECT s.* FROM maas_sites s
WHERE s.deleted_at IS NOT NULL AND (s.credentials_version > 0
    OR EXISTS (SELECT FROM maas_power_credential_overrides o WHERE o.site_id = s.id))
ORDER BY s.id;

-- name: OverridesOf :many
SELECT id FROM maas_power_credential_overrides WHERE site_id = $1 ORDER BY id;

-- name: ForgetSecrets :exec
UPDATE maas_sites SET credentials_version = 0, api_token_fingerprint = '', api_token_rotated_at = NULL, power_fingerprint = '',
    power_rotated_at = NULL, deploy_password_fingerprint = '', deploy_password_rotated_at = NULL WHERE id = $1 AND deleted_at IS NOT NULL;

-- name: DeleteOverrides :exec
DELETE FROM maas_power_credential_overrides WHERE site_id = $1;
