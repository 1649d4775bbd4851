-- name: Insert :exec
INSERT INTO decommission_jobs (job_id, profile_id, ipmi_ip, pxe_mac, maas_system_id, erase, storage_cleanup, reason, plan_hash, origin, requested_by_name, facts)
VALUES (sqlc.arg(job_id), sqlc.narg(profile_id), sqlc.arg(ipmi_ip), sqlc.arg(pxe_mac), sqlc.arg(maas_system_id), sqlc.arg(erase), sqlc.arg(storage_cleanup),
    sqlc.arg(reason), sqlc.arg(plan_hash), sqlc.arg(origin), sqlc.arg(requested_by_name), sqlc.arg(facts));

-- name: OfIDs :many
SELECT * FROM node_decommissions WHERE id = ANY(sqlc.arg(ids)::uuid[]) ORDER BY id;

-- name: LiveOfNode :one
SELECT * FROM node_decommissions WHERE node_id = $1 AND completed_at IS NULL;

-- name: OnboardingOfNode :one
-- The onboarding that has not ended and owns the node.
SELECT id, status, current_stage FROM node_onboardings WHERE node_id = $1 AND completed_at IS NULL;

-- name: ShareSite :one
-- The versions of a site and its profile. The rows stay locked until the
-- transaction ends.
SELECT s.version AS site_version, p.version AS profile_version FROM maas_sites s JOIN maas_site_profiles p ON p.site_id = s.id
WHERE s.id = sqlc.arg(site_id) AND p.id = sqlc.arg(profile_id) FOR SHARE;

-- name: PriorJobs :many
-- The earlier jobs that installed the node: what they wrote on its machine is
-- ours. Oldest first.
SELECT o.id::text AS id, 'onboarding'::text AS kind, o.initialize_disks, COALESCE(o.facts -> 'blank_disks', 'null')::jsonb AS blank_disks FROM node_onboardings o WHERE o.node_id = sqlc.arg(node_id)
UNION ALL
SELECT d.id::text AS id, 'decommission'::text AS kind, false AS initialize_disks, COALESCE(d.facts -> 'blank_disks', 'null')::jsonb AS blank_disks FROM node_decommissions d WHERE d.node_id = sqlc.arg(node_id)
ORDER BY id;

-- name: List :many
SELECT * FROM node_decommissions
WHERE (sqlc.arg(after)::uuid = '00000000-0000-0000-0000-000000000000' OR id < sqlc.arg(after)::uuid)
  AND (sqlc.narg(batch_id)::uuid IS NULL OR batch_id = sqlc.narg(batch_id)::uuid)
  AND (sqlc.narg(node_id)::uuid IS NULL OR node_id = sqlc.narg(node_id)::uuid)
  AND (sqlc.narg(site_id)::uuid IS NULL OR site_id = sqlc.narg(site_id)::uuid)
  AND (sqlc.narg(mode)::text IS NULL OR mode = sqlc.narg(mode)::text)
  AND starts_with(hostname, sqlc.arg(hostname_prefix)::text)
  AND (cardinality(sqlc.arg(statuses)::text[]) = 0 OR status = ANY(sqlc.arg(statuses)::text[]))
  AND (sqlc.arg(outcome)::text = '' OR outcome = sqlc.arg(outcome)::text)
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: Began :one
-- Whether one of the stages was ever begun.
SELECT EXISTS (SELECT 1 FROM job_events
    WHERE job_id = sqlc.arg(job_id) AND stage = ANY(sqlc.arg(stages)::text[]) AND status = 'started');

-- name: Under :many
-- The operations of a site that have not ended.
SELECT id, node_id, maas_system_id, hostname, status, mode FROM node_decommissions
WHERE site_id = sqlc.arg(site_id)::uuid AND completed_at IS NULL ORDER BY id;

-- name: Keep :exec
-- Stores what an attempt found out, in the transaction of the job.
UPDATE decommission_jobs SET maas_system_id = sqlc.arg(maas_system_id), pxe_mac = sqlc.arg(pxe_mac), facts = sqlc.arg(facts),
    observed_since = CASE WHEN observed_status = sqlc.arg(observed_status)::text THEN observed_since ELSE sqlc.narg(observed_at)::timestamptz END,
    observed_status = sqlc.arg(observed_status)::text, observed_power = sqlc.arg(observed_power), observed_ips = sqlc.arg(observed_ips),
    observed_at = sqlc.narg(observed_at)::timestamptz
WHERE job_id = sqlc.arg(job_id);

-- name: KeepFacts :exec
-- Stores what an action changes, in the transaction of the job.
UPDATE decommission_jobs SET facts = sqlc.arg(facts) WHERE job_id = sqlc.arg(job_id);

-- name: InsertEvidence :exec
INSERT INTO node_decommission_evidence (decommission_id, stage, attempt, epoch, kind, evidence, recorded_at) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: EvidenceOf :many
SELECT * FROM node_decommission_evidence WHERE decommission_id = $1 ORDER BY seq;

-- name: SetFollowUps :exec
-- The follow-ups of a stage replace its earlier ones.
UPDATE decommission_jobs SET follow_ups = COALESCE((SELECT jsonb_agg(f.value) FROM jsonb_array_elements(follow_ups) AS f
    WHERE f.value ->> 'stage' IS DISTINCT FROM sqlc.arg(stage)::text), '[]') || sqlc.arg(follow_ups)::jsonb WHERE job_id = sqlc.arg(job_id);

-- name: SetOutcome :exec
UPDATE decommission_jobs SET outcome = sqlc.arg(outcome) WHERE job_id = sqlc.arg(job_id);

-- name: OutcomeOf :one
SELECT outcome FROM decommission_jobs WHERE job_id = sqlc.arg(job_id);

-- name: AddOverride :exec
UPDATE decommission_jobs SET overrides = overrides || sqlc.arg(override)::jsonb WHERE job_id = sqlc.arg(job_id);

-- name: InsertBatch :exec
INSERT INTO decommission_batches (batch_id, mode, selector) VALUES ($1, $2, $3);

-- name: OwnOfBatches :many
SELECT * FROM decommission_batches WHERE batch_id = ANY(sqlc.arg(ids)::uuid[]);

-- name: Selected :many
-- A node belongs to the site that the listing of nodes shows, so that both
-- agree: the site of its machine or, before it has one, of its onboarding.
SELECT n.id FROM nodes n LEFT JOIN node_maas_state m ON m.node_id = n.id
WHERE n.status <> 'deleted'
  AND (cardinality(sqlc.arg(ids)::uuid[]) = 0 OR n.id = ANY(sqlc.arg(ids)::uuid[]))
  AND (sqlc.narg(site_id)::uuid IS NULL OR m.site_id = sqlc.narg(site_id)::uuid
    OR m.node_id IS NULL AND n.id IN (SELECT o.node_id FROM node_onboardings o WHERE o.site_id = sqlc.narg(site_id)::uuid AND o.completed_at IS NULL))
  AND (sqlc.narg(region_code)::text IS NULL OR n.region_code = sqlc.narg(region_code)::text)
  AND (sqlc.narg(sku_id)::text IS NULL OR n.sku_id = sqlc.narg(sku_id)::text)
  AND starts_with(n.hostname, sqlc.arg(hostname_prefix)::text)
  AND (cardinality(sqlc.arg(statuses)::text[]) = 0 OR n.status = ANY(sqlc.arg(statuses)::text[]))
ORDER BY n.id LIMIT sqlc.arg(most);
