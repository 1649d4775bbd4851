-- name: Insert :one
INSERT INTO node_decommissions (id, batch_id, node_id, site_id, profile_id, hostname, ipmi_ip, pxe_mac, maas_system_id, mode, erase, storage_cleanup,
    reason, plan_hash, origin, current_stage, workflow_id, requested_by, requested_by_name, correlation_id, requested_at, admitted_at, updated_at)
VALUES (sqlc.arg(id), sqlc.narg(batch_id), sqlc.arg(node_id), sqlc.narg(site_id), sqlc.narg(profile_id), sqlc.arg(hostname), sqlc.arg(ipmi_ip), sqlc.arg(pxe_mac),
    sqlc.arg(maas_system_id), sqlc.arg(mode), sqlc.arg(erase), sqlc.arg(storage_cleanup), sqlc.arg(reason), sqlc.arg(plan_hash), sqlc.arg(origin),
    sqlc.arg(current_stage), sqlc.arg(workflow_id), sqlc.arg(requested_by), sqlc.arg(requested_by_name), sqlc.arg(correlation_id), sqlc.arg(requested_at), sqlc.narg(admitted_at), sqlc.arg(requested_at))
RETURNING *;

-- name: Get :one
SELECT * FROM node_decommissions WHERE id = $1;

-- name: Lock :one
SELECT * FROM node_decommissions WHERE id = $1 FOR NO KEY UPDATE;

-- name: LiveOfNode :one
SELECT * FROM node_decommissions WHERE node_id = $1 AND completed_at IS NULL;

-- name: OnboardingOfNode :one
-- The onboarding that has not ended and owns the node.
SELECT id, status, current_stage FROM node_onboardings WHERE node_id = $1 AND completed_at IS NULL;

-- name: ShareSite :one
-- The versions of a site and its profile, which stay until the transaction ends.
SELECT s.version AS site_version, p.version AS profile_version FROM maas_sites s JOIN maas_site_profiles p ON p.site_id = s.id
WHERE s.id = sqlc.arg(site_id) AND p.id = sqlc.arg(profile_id) FOR SHARE;

-- name: PriorJobs :many
-- The jobs that brought the node up before: what they wrote on its machine is ours.
-- Oldest first.
SELECT o.id::text AS id, 'onboarding'::text AS kind, o.initialize_disks FROM node_onboardings o WHERE o.node_id = sqlc.arg(node_id)
UNION ALL
SELECT d.id::text AS id, 'decommission'::text AS kind, false AS initialize_disks FROM node_decommissions d WHERE d.node_id = sqlc.arg(node_id)
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
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: Events :many
SELECT * FROM node_decommission_events WHERE decommission_id = $1 AND seq > $2 ORDER BY seq LIMIT $3;

-- name: LatestEvents :many
SELECT * FROM (SELECT * FROM node_decommission_events WHERE decommission_id = $1 ORDER BY seq DESC LIMIT $2) AS newest ORDER BY seq;

-- name: TypicalSeconds :many
-- The median of how long each stage of a mode took from the beginning of the
-- attempt that succeeded, in the decommissions that were started last.
WITH newest AS (
    SELECT d.id, d.mode FROM unnest(sqlc.arg(modes)::text[]) AS m(mode) CROSS JOIN LATERAL (
        SELECT x.id, x.mode FROM node_decommissions x
        WHERE x.mode = m.mode AND x.started_at IS NOT NULL AND (sqlc.narg(site_id)::uuid IS NULL OR x.site_id = sqlc.narg(site_id)::uuid)
        ORDER BY x.id DESC LIMIT sqlc.arg(jobs)) d
)
SELECT n.mode, p.stage, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM p.took)::float8)::numeric, 3)::float8 AS seconds
FROM newest n CROSS JOIN LATERAL (
    SELECT e.stage, e.status, e.occurred_at - lag(e.occurred_at) OVER (PARTITION BY e.stage ORDER BY e.seq) AS took
    FROM node_decommission_events e WHERE e.decommission_id = n.id AND e.status IN ('started', 'succeeded')) p
WHERE p.status = 'succeeded' AND p.took IS NOT NULL GROUP BY n.mode, p.stage;

-- name: Unfinished :one
-- Whether the newest attempt at a stage was begun and has not ended.
SELECT COALESCE((SELECT status = 'started' FROM node_decommission_events
    WHERE decommission_id = $1 AND epoch = $2 AND stage = $3 AND status IN ('started', 'succeeded', 'failed', 'skipped', 'compensated')
    ORDER BY seq DESC LIMIT 1), false)::boolean AS unfinished;

-- name: Began :one
-- Whether one of the stages was ever begun.
SELECT EXISTS (SELECT 1 FROM node_decommission_events
    WHERE decommission_id = sqlc.arg(decommission_id) AND stage = ANY(sqlc.arg(stages)::text[]) AND status = 'started');

-- name: Noticed :one
-- Whether that is what was last observed, or was observed since anything else
-- happened to the decommission.
SELECT EXISTS (SELECT 1 FROM node_decommission_events e WHERE e.decommission_id = sqlc.arg(decommission_id) AND e.status = 'observed' AND e.message = sqlc.arg(message)::text
    AND (e.seq = (SELECT max(s.seq) FROM node_decommission_events s WHERE s.decommission_id = sqlc.arg(decommission_id) AND s.status = 'observed')
      OR e.seq > (SELECT COALESCE(max(h.seq), 0) FROM node_decommission_events h WHERE h.decommission_id = sqlc.arg(decommission_id) AND h.status <> 'observed')));

-- name: Under :many
-- Those of a site that have not ended.
SELECT id, node_id, maas_system_id, hostname, status, mode FROM node_decommissions
WHERE site_id = sqlc.arg(site_id)::uuid AND completed_at IS NULL ORDER BY id;

-- name: InsertEvent :exec
INSERT INTO node_decommission_events (decommission_id, epoch, stage, attempt, status, message, details, occurred_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: InsertEvidence :exec
INSERT INTO node_decommission_evidence (decommission_id, stage, attempt, epoch, kind, evidence, recorded_at) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: EvidenceOf :many
SELECT * FROM node_decommission_evidence WHERE decommission_id = $1 ORDER BY seq;

-- name: SetFollowUps :exec
-- What a stage left to be done replaces what it left before.
UPDATE node_decommissions SET follow_ups = COALESCE((SELECT jsonb_agg(f.value) FROM jsonb_array_elements(follow_ups) AS f
    WHERE f.value ->> 'stage' IS DISTINCT FROM sqlc.arg(stage)::text), '[]') || sqlc.arg(follow_ups)::jsonb WHERE id = sqlc.arg(id);

-- name: AddOverride :exec
UPDATE node_decommissions SET overrides = overrides || sqlc.arg(override)::jsonb WHERE id = sqlc.arg(id);

-- name: Start :one
UPDATE node_decommissions SET status = 'running', started_at = $2, admitted_at = COALESCE(admitted_at, $2), workflow_run_id = $3, updated_at = $2
WHERE id = $1 AND status = 'pending' RETURNING *;

-- name: BeginStage :one
-- Takes a stage up: only the run that the row expects may, and only the first
-- time is told in the ledger. From then on updated_at is the token of whoever
-- took it up last.
WITH before AS (
    SELECT o.id, o.epoch, o.current_attempt FROM node_decommissions o
    WHERE o.id = sqlc.arg(id) AND o.epoch = sqlc.arg(epoch)
      AND CASE sqlc.arg(stage)::text
          WHEN 'compensate' THEN o.status = 'compensating'
          WHEN 'adopt_observed_state' THEN o.status = 'running' AND o.action = 'adopt_observed_state'
          ELSE o.status = 'running' AND o.action <> 'adopt_observed_state' AND o.current_stage = sqlc.arg(stage)::text END
      AND (o.current_attempt = sqlc.arg(attempt)::integer - 1 OR NOT sqlc.arg(chained)::boolean AND o.current_attempt = sqlc.arg(attempt)::integer
        AND 'started' = (SELECT e.status FROM node_decommission_events e
            WHERE e.decommission_id = o.id AND e.epoch = o.epoch AND e.stage = sqlc.arg(stage)::text
              AND e.status IN ('started', 'succeeded', 'failed', 'skipped', 'compensated')
            ORDER BY e.seq DESC LIMIT 1))
    FOR NO KEY UPDATE
), told AS (
    INSERT INTO node_decommission_events (decommission_id, epoch, stage, attempt, status, occurred_at)
    SELECT b.id, b.epoch, sqlc.arg(stage)::text, sqlc.arg(attempt)::integer, 'started', sqlc.arg(now)::timestamptz
    FROM before b WHERE b.current_attempt < sqlc.arg(attempt)::integer
)
UPDATE node_decommissions o SET current_attempt = sqlc.arg(attempt)::integer,
    current_takes = CASE WHEN b.current_attempt = sqlc.arg(attempt)::integer THEN o.current_takes + 1 ELSE 1 END, workflow_run_id = sqlc.arg(workflow_run_id)::text,
    stage_started_at = COALESCE(o.stage_started_at, sqlc.arg(now)::timestamptz), updated_at = clock_timestamp()
FROM before b WHERE o.id = b.id RETURNING o.*;

-- name: Fence :one
SELECT EXISTS (SELECT 1 FROM node_decommissions
    WHERE id = sqlc.arg(id) AND epoch = sqlc.arg(epoch) AND status IN ('running', 'compensating') AND updated_at = sqlc.arg(token)::timestamptz);

-- name: Save :one
UPDATE node_decommissions SET maas_system_id = sqlc.arg(maas_system_id), pxe_mac = sqlc.arg(pxe_mac), facts = sqlc.arg(facts),
    observed_since = CASE WHEN observed_status = sqlc.arg(observed_status)::text THEN observed_since ELSE sqlc.narg(observed_at)::timestamptz END,
    observed_status = sqlc.arg(observed_status)::text, observed_power = sqlc.arg(observed_power), observed_ips = sqlc.arg(observed_ips),
    observed_at = sqlc.narg(observed_at)::timestamptz, updated_at = clock_timestamp()
WHERE id = sqlc.arg(id) AND epoch = sqlc.arg(epoch) AND status IN ('running', 'compensating') AND updated_at = sqlc.arg(token)::timestamptz
RETURNING updated_at;

-- name: EndStage :one
-- Ends an attempt: what it found out, where the job goes from here, and the
-- entry of the ledger, all or nothing.
WITH before AS (
    SELECT o.id, o.epoch FROM node_decommissions o
    WHERE o.id = sqlc.arg(id) AND o.epoch = sqlc.arg(epoch) AND o.status IN ('running', 'compensating') AND o.updated_at = sqlc.arg(token)::timestamptz
    FOR NO KEY UPDATE
), told AS (
    INSERT INTO node_decommission_events (decommission_id, epoch, stage, attempt, status, message, details, occurred_at)
    SELECT b.id, b.epoch, sqlc.arg(told_stage)::text, sqlc.arg(attempt)::integer, sqlc.arg(told_status)::text, sqlc.arg(told_message)::text,
        sqlc.arg(told_details)::jsonb, sqlc.arg(now)::timestamptz
    FROM before b WHERE sqlc.arg(told_status)::text <> ''
)
UPDATE node_decommissions o SET
    maas_system_id = sqlc.arg(maas_system_id), pxe_mac = sqlc.arg(pxe_mac), facts = sqlc.arg(facts),
    observed_since = CASE WHEN o.observed_status = sqlc.arg(observed_status)::text THEN o.observed_since ELSE sqlc.narg(observed_at)::timestamptz END,
    observed_status = sqlc.arg(observed_status)::text, observed_power = sqlc.arg(observed_power), observed_ips = sqlc.arg(observed_ips),
    observed_at = sqlc.narg(observed_at)::timestamptz,
    status = sqlc.arg(status), current_stage = sqlc.arg(next_stage)::text, current_attempt = sqlc.arg(next_attempt)::integer, current_takes = 0,
    stage_started_at = CASE WHEN sqlc.arg(same_stage)::boolean THEN o.stage_started_at END,
    action = sqlc.arg(action), adopted = sqlc.arg(adopted),
    failure_class = sqlc.arg(failure_class), error_code = sqlc.arg(error_code), error_message = sqlc.arg(error_message),
    error_remedy = sqlc.arg(error_remedy), error_details = sqlc.arg(error_details),
    parked_at = sqlc.narg(parked_at)::timestamptz, completed_at = sqlc.narg(completed_at)::timestamptz, updated_at = clock_timestamp()
FROM before b WHERE o.id = b.id RETURNING o.*;

-- name: Act :one
UPDATE node_decommissions SET epoch = epoch + 1, status = sqlc.arg(status), current_stage = sqlc.arg(current_stage), current_attempt = 0,
    stage_started_at = NULL, action = sqlc.arg(action), facts = sqlc.arg(facts),
    failure_class = sqlc.arg(failure_class), error_code = sqlc.arg(error_code), error_message = sqlc.arg(error_message),
    error_remedy = sqlc.arg(error_remedy), error_details = sqlc.arg(error_details),
    parked_at = sqlc.narg(parked_at)::timestamptz, completed_at = sqlc.narg(completed_at)::timestamptz, updated_at = clock_timestamp()
WHERE id = sqlc.arg(id) RETURNING *;

-- name: InsertBatch :one
INSERT INTO node_decommission_batches (id, mode, selector, total, max_parallel, max_failures, requested_by, correlation_id, reason, requested_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING *;

-- name: Batch :one
SELECT * FROM node_decommission_batches WHERE id = $1;

-- name: LockBatch :one
SELECT * FROM node_decommission_batches WHERE id = $1 FOR NO KEY UPDATE;

-- name: Batches :many
SELECT * FROM node_decommission_batches
WHERE sqlc.arg(after)::uuid = '00000000-0000-0000-0000-000000000000' OR id < sqlc.arg(after)::uuid
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: BatchCounts :many
SELECT batch_id, status, count(*)::integer AS number FROM node_decommissions
WHERE batch_id = ANY(sqlc.arg(ids)::uuid[]) GROUP BY batch_id, status;

-- name: RaiseBatch :one
-- Goes on in spite of what has failed so far: only what fails from now on counts.
UPDATE node_decommission_batches b SET max_failures = greatest(b.max_failures, (SELECT count(*) FROM node_decommissions d
    WHERE d.batch_id = b.id AND d.status IN ('failed_retryable', 'failed_manual_intervention', 'cancelled'))::integer)
WHERE b.id = $1 RETURNING *;

-- name: CancelBatch :one
UPDATE node_decommission_batches SET cancelled_at = $2 WHERE id = $1 AND cancelled_at IS NULL RETURNING *;

-- name: LiveOfBatch :many
SELECT id, status FROM node_decommissions WHERE batch_id = $1 AND completed_at IS NULL ORDER BY id;

-- name: AdmitOfBatch :many
-- Gives free places of a batch to those that wait, in their order.
WITH counted AS (
    SELECT b.max_parallel, b.max_failures,
        count(d.id) FILTER (WHERE d.status IN ('running', 'compensating') OR d.status = 'pending' AND d.admitted_at IS NOT NULL) AS busy,
        count(d.id) FILTER (WHERE d.status IN ('failed_retryable', 'failed_manual_intervention', 'cancelled')) AS failures
    FROM node_decommission_batches b LEFT JOIN node_decommissions d ON d.batch_id = b.id
    WHERE b.id = sqlc.arg(batch) AND b.cancelled_at IS NULL GROUP BY b.id
), chosen AS MATERIALIZED ( -- one that is cancelled meanwhile leaves its turn to the next
    SELECT w.id FROM node_decommissions w, counted c
    WHERE w.batch_id = sqlc.arg(batch) AND w.status = 'pending' AND w.admitted_at IS NULL AND c.failures <= c.max_failures
    ORDER BY w.id LIMIT (SELECT greatest(max_parallel - busy, 0) FROM counted) FOR NO KEY UPDATE
)
UPDATE node_decommissions d SET admitted_at = sqlc.arg(now)::timestamptz, updated_at = sqlc.arg(now)::timestamptz
FROM chosen WHERE d.id = chosen.id RETURNING d.*;

-- name: Selected :many
-- A node is of the site that the listing of nodes says, so that who looks there
-- sees the same: of its machine, and before it has one, of its onboarding.
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
