-- name: EnsureSite :exec
INSERT INTO reconciliation_sites (site_id) VALUES ($1) ON CONFLICT DO NOTHING;

-- name: SiteState :one
SELECT * FROM reconciliation_sites WHERE site_id = $1;

-- name: LockSite :one
SELECT * FROM reconciliation_sites WHERE site_id = $1 FOR NO KEY UPDATE;

-- name: TakeSite :execrows
UPDATE reconciliation_sites SET running_id = sqlc.arg(running_id), running_until = clock_timestamp() + sqlc.arg(seconds)::float8 * interval '1 second'
WHERE site_id = sqlc.arg(site_id) AND (running_id IS NULL OR running_id = sqlc.arg(running_id) OR running_until < clock_timestamp());

-- name: LeaveSite :exec
UPDATE reconciliation_sites SET running_id = NULL, running_until = NULL WHERE site_id = $1 AND running_id = $2;

-- name: NoteCycle :exec
UPDATE reconciliation_sites SET event_cursor = $2, exceptions_seen = $3, exceptions_at = $4, sweep_began_at = $5, sweep_ended_at = $6,
    last_cycle_at = $7, last_informed_at = $8, last_outcome = $9, last_error_code = $10, last_error_message = $11, settings_at = $12,
    updated_at = clock_timestamp()
WHERE site_id = $1;

-- name: Trip :exec
UPDATE reconciliation_sites SET tripped_at = coalesce(tripped_at, sqlc.arg(at)::timestamptz), tripped_nodes = sqlc.arg(nodes)::uuid[], updated_at = clock_timestamp()
WHERE site_id = sqlc.arg(site_id);

-- name: Untrip :exec
UPDATE reconciliation_sites SET tripped_at = NULL, tripped_nodes = '{}', confirmed_at = NULL, confirmed_by = '', updated_at = clock_timestamp() WHERE site_id = $1;

-- name: ConfirmTrip :exec
UPDATE reconciliation_sites SET confirmed_at = $2, confirmed_by = $3, updated_at = clock_timestamp() WHERE site_id = $1;

-- name: InsertRun :one
INSERT INTO reconciliation_runs (id, site_id, trigger, full_sweep, dry_run, node_id, resolution, reason, requested_by, correlation_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING *;

-- name: BeginRun :one
INSERT INTO reconciliation_runs (id, site_id, trigger, requested_by, correlation_id, began_at)
VALUES ($1, $2, $3, $4, $5, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET began_at = CASE WHEN reconciliation_runs.site_id = excluded.site_id
    THEN coalesce(reconciliation_runs.began_at, excluded.began_at) ELSE reconciliation_runs.began_at END
RETURNING *;

-- name: RunByID :one
SELECT * FROM reconciliation_runs WHERE id = $1;

-- name: EndRun :exec
UPDATE reconciliation_runs SET outcome = $2, error_code = $3, error_message = $4, error_remedy = $5, report = $6, ended_at = clock_timestamp()
WHERE id = $1;

-- name: PruneRuns :execrows
DELETE FROM reconciliation_runs WHERE id IN (SELECT r.id FROM reconciliation_runs r WHERE r.requested_at < $1 AND r.ended_at IS NOT NULL LIMIT 5000);

-- name: BoundMachines :many
-- Machines of nodes that are not deleted, also at other sites of the same MAAS.
SELECT b.maas_system_id, b.node_id, b.site_id = here.id AS here FROM maas_sites here
JOIN maas_sites s ON s.api_base_url = here.api_base_url JOIN node_maas_state b ON b.site_id = s.id JOIN nodes n ON n.id = b.node_id
WHERE here.id = $1 AND n.status <> 'deleted';

-- name: PresentOfNodes :many
SELECT * FROM reconciliation_findings WHERE site_id = $1 AND node_id = ANY(sqlc.arg(nodes)::uuid[]) AND status <> 'closed' ORDER BY opened_at;

-- name: PresentOfSite :many
-- Findings that are about no node.
SELECT * FROM reconciliation_findings WHERE site_id = $1 AND node_id IS NULL AND status <> 'closed' ORDER BY opened_at;

-- name: DoubtedMachines :many
-- Machines of nodes with a finding that a look may change, the longest unread
-- first. The sweep reads those whose finding was acted on long ago, or that
-- have been absent for long.
SELECT b.maas_system_id FROM reconciliation_findings f JOIN node_maas_state b ON b.node_id = f.node_id
WHERE f.site_id = $1 AND f.status <> 'closed' AND f.type <> ALL(sqlc.arg(standing)::text[])
  AND (f.acted_at IS NULL OR f.acted_at > sqlc.arg(since)::timestamptz)
  AND (f.type NOT IN ('absent', 'recreated') OR f.confirmed_at IS NULL OR f.confirmed_at > sqlc.arg(since)::timestamptz)
GROUP BY b.maas_system_id, b.last_reconciled_at ORDER BY b.last_reconciled_at NULLS FIRST, b.maas_system_id LIMIT sqlc.arg(most);

-- name: OpenMachines :many
-- Machines of nodes with a finding that only one look has shown.
SELECT b.maas_system_id FROM reconciliation_findings f JOIN node_maas_state b ON b.node_id = f.node_id JOIN nodes n ON n.id = f.node_id
WHERE f.site_id = $1 AND f.status = 'open' AND n.held_by = '' AND (node_is(n.status, 'steady') OR n.status = 'retired') GROUP BY b.maas_system_id ORDER BY min(f.opened_at) LIMIT sqlc.arg(most);

-- name: OrphanFindings :many
-- Findings about nodes that left the inventory, or this site.
SELECT f.* FROM reconciliation_findings f JOIN nodes n ON n.id = f.node_id
WHERE f.site_id = $1 AND f.status <> 'closed'
  AND (n.status = 'deleted' OR NOT EXISTS (SELECT FROM node_maas_state b WHERE b.node_id = f.node_id AND b.site_id = f.site_id));

-- name: LockFinding :one
SELECT * FROM reconciliation_findings WHERE id = $1 FOR UPDATE;

-- name: PresentOfNodeForUpdate :many
SELECT * FROM reconciliation_findings WHERE node_id = $1 AND status <> 'closed' ORDER BY opened_at FOR UPDATE;

-- name: InsertFinding :one
INSERT INTO reconciliation_findings (id, site_id, node_id, type, severity, subject, status, maas_system_id, hostname, expected, observed, message,
    details, action, withheld, opened_at, last_seen_at, confirmed_at, occurrence)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
    1 + (SELECT count(*) FROM reconciliation_findings p WHERE p.site_id = $2 AND p.type = $4 AND p.subject = $6 AND p.opened_at > $16::timestamptz - interval '30 days'))
RETURNING *;

-- name: AdvanceFinding :one
UPDATE reconciliation_findings SET status = $2, looks = $3, last_seen_at = $4, confirmed_at = $5, expected = $6, observed = $7, message = $8,
    details = $9, withheld = $10, maas_system_id = $11
WHERE id = $1 RETURNING *;

-- name: WithholdFinding :exec
UPDATE reconciliation_findings SET withheld = $2 WHERE id = $1 AND status <> 'closed';

-- name: ActFinding :one
UPDATE reconciliation_findings SET status = 'acted', acted_at = $2, action_note = $3, withheld = '' WHERE id = $1 RETURNING *;

-- name: NoteAction :exec
UPDATE reconciliation_findings SET action_note = $2 WHERE id = $1;

-- name: CloseFinding :one
UPDATE reconciliation_findings SET status = 'closed', closed_at = $2, closed_because = $3 WHERE id = $1 AND status <> 'closed' RETURNING *;

-- name: AcknowledgeFinding :one
UPDATE reconciliation_findings SET acknowledged_at = $2, acknowledged_by = $3, acknowledgement = $4 WHERE id = $1 RETURNING *;

-- name: DismissFinding :exec
UPDATE reconciliation_findings SET action = '', withheld = $2, acknowledged_at = $3, acknowledged_by = $4, acknowledgement = $2 WHERE id = $1;

-- name: ActedSince :one
SELECT count(*) FROM reconciliation_findings WHERE site_id = $1 AND action = $2 AND acted_at > $3 AND action_note = '';

-- name: ActedOnSince :one
SELECT count(*) FROM reconciliation_findings WHERE site_id = $1 AND type = $2 AND subject = $3 AND acted_at > $4;

-- name: Suspect :exec
INSERT INTO reconciliation_suspicions (node_id, site_id, reason)
SELECT b.node_id, b.site_id, sqlc.arg(reason)::text FROM node_maas_state b WHERE b.node_id = ANY(sqlc.arg(nodes)::uuid[]) ORDER BY b.node_id
ON CONFLICT (node_id) DO UPDATE SET site_id = excluded.site_id, reason = excluded.reason, at = excluded.at;

-- name: Suspicions :many
SELECT s.*, b.maas_system_id FROM reconciliation_suspicions s JOIN node_maas_state b ON b.node_id = s.node_id AND b.site_id = s.site_id
WHERE s.site_id = $1 ORDER BY s.at LIMIT $2;

-- name: DropIdleSuspicions :exec
-- Suspicions about nodes that left the inventory or the site.
DELETE FROM reconciliation_suspicions s WHERE s.site_id = $1 AND NOT EXISTS (SELECT FROM node_maas_state b JOIN nodes n ON n.id = b.node_id
    WHERE b.node_id = s.node_id AND b.site_id = s.site_id AND n.status <> 'deleted');

-- name: DropSuspicions :exec
DELETE FROM reconciliation_suspicions WHERE node_id = ANY(sqlc.arg(nodes)::uuid[]) AND at <= sqlc.arg(until);

-- name: SuspectedSites :many
-- Sites with suspicions that have no run for them under way or just ended. If
-- MAAS did not answer such a run, it is not repeated before the next cycle.
SELECT DISTINCT s.site_id FROM reconciliation_suspicions s JOIN maas_sites m ON m.id = s.site_id
WHERE m.deleted_at IS NULL
  -- A disabled site is looked at only while it has nodes.
  AND (m.status = 'active' OR EXISTS (SELECT FROM node_maas_state b JOIN nodes n ON n.id = b.node_id
    WHERE b.site_id = m.id AND n.status <> 'deleted'))
  AND NOT EXISTS (SELECT FROM reconciliation_runs r WHERE r.site_id = s.site_id AND r.trigger = 'suspicion'
    AND r.requested_at > clock_timestamp() - CASE WHEN r.ended_at IS NULL THEN interval '15 minutes' WHEN r.outcome = 'informed' THEN interval '10 seconds'
      ELSE sqlc.arg(patience)::float8 * interval '1 second' END);

-- name: HasFinding :one
SELECT EXISTS (SELECT FROM reconciliation_findings WHERE node_id = $1 AND status <> 'closed');

-- name: HasNodes :one
SELECT EXISTS (SELECT FROM node_maas_state b JOIN nodes n ON n.id = b.node_id WHERE b.site_id = $1 AND n.status <> 'deleted');

-- name: SitesWithNodes :many
SELECT DISTINCT b.site_id FROM node_maas_state b JOIN nodes n ON n.id = b.node_id WHERE n.status <> 'deleted';

-- name: TryTend :one
SELECT pg_try_advisory_xact_lock(hashtext('reconciliation-tend'));

-- name: UnusedOverrides :many
-- BMC credentials that no node and no job uses.
SELECT o.id, o.selector_type, o.selector_value, o.created_at FROM maas_power_credential_overrides o
WHERE o.site_id = $1 AND o.status = 'active' AND o.created_at < sqlc.arg(made_before)
  AND NOT EXISTS (SELECT FROM node_maas_state b JOIN nodes n ON n.id = b.node_id WHERE b.site_id = o.site_id AND n.status <> 'deleted'
    AND CASE o.selector_type WHEN 'hostname' THEN lower(n.hostname) WHEN 'ipmi_ip' THEN lower(b.ipmi_ip) ELSE lower(b.pxe_mac) END = o.selector_value)
  AND NOT EXISTS (SELECT FROM node_onboardings j WHERE j.site_id = o.site_id AND j.completed_at IS NULL
    AND CASE o.selector_type WHEN 'hostname' THEN lower(j.hostname) WHEN 'ipmi_ip' THEN lower(j.ipmi_ip) ELSE lower(j.pxe_mac) END = o.selector_value)
ORDER BY o.id;

-- name: QuarantineWanted :many
-- Nodes that a finding wants quarantined, even if only one look has shown it,
-- and on which no operation works.
SELECT DISTINCT f.node_id FROM reconciliation_findings f JOIN nodes n ON n.id = f.node_id
WHERE f.site_id = $1 AND f.status IN ('open', 'confirmed') AND f.action = 'quarantine' AND node_is(n.status, 'serving') AND n.held_by = ''
ORDER BY f.node_id;

-- name: MachinesOfNodes :many
SELECT maas_system_id FROM node_maas_state WHERE site_id = $1 AND node_id = ANY(sqlc.arg(nodes)::uuid[]);

-- name: SaveRun :exec
-- Stores the result of the first look of a run, until the second look ends the
-- run.
UPDATE reconciliation_runs SET outcome = $2, error_code = $3, error_message = $4, error_remedy = $5, report = $6 WHERE id = $1;

-- name: ActionsDue :many
SELECT * FROM reconciliation_findings WHERE site_id = $1 AND status = 'confirmed' AND action <> '' AND node_id IS NOT NULL ORDER BY opened_at, id;

-- name: UnpinnedNodes :many
-- Nodes of a site whose machine was not deployed with the digest of the program that
-- reports hardware, nor to fetch it over https or from another MAAS, as far as was
-- kept, and whose agent has not said that it goes by one since. One that did not say
-- so is asked again later.
SELECT n.id, b.maas_system_id, p.hardware_sync_interval
FROM node_maas_state b JOIN nodes n ON n.id = b.node_id JOIN maas_site_profiles p ON p.id = b.profile_id
JOIN maas_sites s ON s.id = b.site_id
LEFT JOIN LATERAL (
    SELECT o.id, o.facts FROM node_onboardings o WHERE o.node_id = n.id AND o.facts ? 'deployed_at'
    UNION ALL SELECT d.id, d.facts FROM node_decommissions d WHERE d.node_id = n.id AND d.facts ? 'deployed_at'
    ORDER BY id DESC LIMIT 1) j ON true
WHERE b.site_id = $1 AND node_is(n.status, 'steady') AND n.held_by = '' AND n.hardware_said AND p.require_hw_sync
  AND NOT COALESCE(j.facts @> '{"sync_pinned": true}' OR j.facts->>'sync_url' LIKE 'https://%', false)
  AND (s.api_base_url LIKE 'https://%' OR COALESCE(j.facts->>'sync_url', s.api_base_url) = s.api_base_url)
  AND NOT EXISTS (SELECT FROM node_tasks t WHERE t.node_id = n.id AND t.type = sqlc.arg(type)::text AND t.generation = n.generation
    AND t.params ? 'run_scripts_sha256'
    AND (t.status IN ('queued', 'dispatched') OR t.output @> '{"pinned": true}' OR t.created_at > sqlc.arg(since)::timestamptz))
ORDER BY n.id LIMIT sqlc.arg(most);
