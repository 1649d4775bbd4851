-- name: InsertBatch :one
INSERT INTO node_onboarding_batches (id, site_id, profile_id, sku_id, total, requested_by, correlation_id, requested_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING *;

-- name: InsertOnboardings :exec
INSERT INTO node_onboardings (id, node_id, hostname, ipmi_ip, workflow_id, batch_id, site_id, profile_id, sku_id, initialize_disks,
    current_stage, requested_by, correlation_id, requested_at, updated_at)
SELECT unnest(sqlc.arg(ids)::uuid[]), unnest(sqlc.arg(node_ids)::uuid[]), unnest(sqlc.arg(hostnames)::text[]), unnest(sqlc.arg(ipmi_ips)::text[]),
    unnest(sqlc.arg(workflow_ids)::text[]), sqlc.narg(batch_id), sqlc.arg(site_id), sqlc.arg(profile_id),
    sqlc.arg(sku_id)::text, sqlc.arg(initialize_disks)::boolean, sqlc.arg(current_stage)::text, sqlc.arg(requested_by)::text,
    sqlc.arg(correlation_id)::text, sqlc.arg(requested_at)::timestamptz, sqlc.arg(requested_at)::timestamptz;

-- name: Get :one
SELECT * FROM node_onboardings WHERE id = $1;

-- name: Lock :one
SELECT * FROM node_onboardings WHERE id = $1 FOR NO KEY UPDATE;

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

-- name: Events :many
SELECT * FROM node_onboarding_events WHERE onboarding_id = $1 AND seq > $2 ORDER BY seq LIMIT $3;

-- name: LatestEvents :many
SELECT * FROM (SELECT * FROM node_onboarding_events WHERE onboarding_id = $1 ORDER BY seq DESC LIMIT $2) AS newest ORDER BY seq;

-- name: TypicalSeconds :many
-- The median of how long each stage took from the beginning of the attempt that
-- succeeded, in the onboardings that were started last.
WITH newest AS (
    SELECT o.id FROM node_onboardings o
    WHERE o.started_at IS NOT NULL AND (sqlc.narg(site_id)::uuid IS NULL OR o.site_id = sqlc.narg(site_id)::uuid)
    ORDER BY o.id DESC LIMIT sqlc.arg(jobs)
)
SELECT p.stage, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM p.took)::float8)::numeric, 3)::float8 AS seconds
FROM newest n CROSS JOIN LATERAL (
    SELECT e.stage, e.status, e.occurred_at - lag(e.occurred_at) OVER (PARTITION BY e.stage ORDER BY e.seq) AS took
    FROM node_onboarding_events e WHERE e.onboarding_id = n.id AND e.status IN ('started', 'succeeded')) p
WHERE p.status = 'succeeded' AND p.took IS NOT NULL GROUP BY p.stage;

-- name: Unfinished :one
-- Whether the newest attempt at a stage was begun and has not ended.
SELECT COALESCE((SELECT status = 'started' FROM node_onboarding_events
    WHERE onboarding_id = $1 AND epoch = $2 AND stage = $3 AND status IN ('started', 'succeeded', 'failed', 'skipped', 'compensated')
    ORDER BY seq DESC LIMIT 1), false)::boolean AS unfinished;

-- name: Noticed :one
-- Whether that is what was last observed, or was observed since anything else
-- happened to the onboarding.
SELECT EXISTS (SELECT 1 FROM node_onboarding_events e WHERE e.onboarding_id = sqlc.arg(onboarding_id) AND e.status = 'observed' AND e.message = sqlc.arg(message)::text
    AND (e.seq = (SELECT max(s.seq) FROM node_onboarding_events s WHERE s.onboarding_id = sqlc.arg(onboarding_id) AND s.status = 'observed')
      OR e.seq > (SELECT COALESCE(max(h.seq), 0) FROM node_onboarding_events h WHERE h.onboarding_id = sqlc.arg(onboarding_id) AND h.status <> 'observed')));

-- name: Under :many
-- Those of a site that have not ended.
SELECT id, node_id, maas_system_id, hostname, status FROM node_onboardings WHERE site_id = $1 AND completed_at IS NULL ORDER BY id;

-- name: InsertEvent :exec
INSERT INTO node_onboarding_events (onboarding_id, epoch, stage, attempt, status, message, details, occurred_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: Start :one
UPDATE node_onboardings SET status = 'running', started_at = $2, admitted_at = COALESCE(admitted_at, $2), workflow_run_id = $3, updated_at = $2
WHERE id = $1 AND status = 'pending' RETURNING *;

-- name: BeginStage :one
-- Takes a stage up: only the run that the row expects may, and only the first
-- time is told in the ledger. An attempt that has not ended may be taken up
-- again, but not by a worker that merely goes on from the stage before it. From then on updated_at is the token of whoever
-- took it up last: a worker that lost touch holds an older one.
WITH before AS (
    SELECT o.id, o.epoch, o.current_attempt FROM node_onboardings o
    WHERE o.id = sqlc.arg(id) AND o.epoch = sqlc.arg(epoch)
      AND CASE sqlc.arg(stage)::text
          WHEN 'compensate' THEN o.status = 'compensating'
          WHEN 'adopt_observed_state' THEN o.status = 'running' AND o.action = 'adopt_observed_state'
          ELSE o.status = 'running' AND o.action <> 'adopt_observed_state' AND o.current_stage = sqlc.arg(stage)::text END
      AND (o.current_attempt = sqlc.arg(attempt)::integer - 1 OR NOT sqlc.arg(chained)::boolean AND o.current_attempt = sqlc.arg(attempt)::integer
        AND 'started' = (SELECT e.status FROM node_onboarding_events e
            WHERE e.onboarding_id = o.id AND e.epoch = o.epoch AND e.stage = sqlc.arg(stage)::text
              AND e.status IN ('started', 'succeeded', 'failed', 'skipped', 'compensated')
            ORDER BY e.seq DESC LIMIT 1))
    FOR NO KEY UPDATE
), told AS (
    INSERT INTO node_onboarding_events (onboarding_id, epoch, stage, attempt, status, occurred_at)
    SELECT b.id, b.epoch, sqlc.arg(stage)::text, sqlc.arg(attempt)::integer, 'started', sqlc.arg(now)::timestamptz
    FROM before b WHERE b.current_attempt < sqlc.arg(attempt)::integer
)
UPDATE node_onboardings o SET current_attempt = sqlc.arg(attempt)::integer,
    current_takes = CASE WHEN b.current_attempt = sqlc.arg(attempt)::integer THEN o.current_takes + 1 ELSE 1 END, workflow_run_id = sqlc.arg(workflow_run_id)::text,
    stage_started_at = COALESCE(o.stage_started_at, sqlc.arg(now)::timestamptz), updated_at = clock_timestamp()
FROM before b WHERE o.id = b.id RETURNING o.*;

-- name: Fence :one
SELECT EXISTS (SELECT 1 FROM node_onboardings
    WHERE id = sqlc.arg(id) AND epoch = sqlc.arg(epoch) AND status IN ('running', 'compensating') AND updated_at = sqlc.arg(token)::timestamptz);

-- name: Save :one
UPDATE node_onboardings SET maas_system_id = sqlc.arg(maas_system_id), pxe_mac = sqlc.arg(pxe_mac), facts = sqlc.arg(facts),
    observed_since = CASE WHEN observed_status = sqlc.arg(observed_status)::text THEN observed_since ELSE sqlc.narg(observed_at)::timestamptz END,
    observed_status = sqlc.arg(observed_status)::text, observed_power = sqlc.arg(observed_power), observed_ips = sqlc.arg(observed_ips),
    observed_at = sqlc.narg(observed_at)::timestamptz, updated_at = clock_timestamp()
WHERE id = sqlc.arg(id) AND epoch = sqlc.arg(epoch) AND status IN ('running', 'compensating') AND updated_at = sqlc.arg(token)::timestamptz
RETURNING updated_at;

-- name: EndStage :one
-- Ends an attempt: what it found out, where the job goes from here, and the
-- entry of the ledger, all or nothing.
WITH before AS (
    SELECT o.id, o.epoch FROM node_onboardings o
    WHERE o.id = sqlc.arg(id) AND o.epoch = sqlc.arg(epoch) AND o.status IN ('running', 'compensating') AND o.updated_at = sqlc.arg(token)::timestamptz
    FOR NO KEY UPDATE
), told AS (
    INSERT INTO node_onboarding_events (onboarding_id, epoch, stage, attempt, status, message, details, occurred_at)
    SELECT b.id, b.epoch, sqlc.arg(told_stage)::text, sqlc.arg(attempt)::integer, sqlc.arg(told_status)::text, sqlc.arg(told_message)::text,
        sqlc.arg(told_details)::jsonb, sqlc.arg(now)::timestamptz
    FROM before b WHERE sqlc.arg(told_status)::text <> ''
)
UPDATE node_onboardings o SET
    maas_system_id = sqlc.arg(maas_system_id), pxe_mac = sqlc.arg(pxe_mac), facts = sqlc.arg(facts), node_id = sqlc.arg(node_id),
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
UPDATE node_onboardings SET epoch = epoch + 1, status = sqlc.arg(status), current_stage = sqlc.arg(current_stage), current_attempt = 0,
    stage_started_at = NULL, action = sqlc.arg(action), node_id = sqlc.arg(node_id), facts = sqlc.arg(facts),
    failure_class = sqlc.arg(failure_class), error_code = sqlc.arg(error_code), error_message = sqlc.arg(error_message),
    error_remedy = sqlc.arg(error_remedy), error_details = sqlc.arg(error_details),
    parked_at = sqlc.narg(parked_at)::timestamptz, completed_at = sqlc.narg(completed_at)::timestamptz, updated_at = clock_timestamp()
WHERE id = sqlc.arg(id) RETURNING *;

-- name: LockSlots :exec
SELECT pg_advisory_xact_lock(hashtextextended('onboarding slots of ' || sqlc.arg(site_id)::text, 0));

-- name: Places :one
SELECT s.max_parallel AS site_limit, count(o.id)::integer AS of_site,
    (count(o.id) FILTER (WHERE o.batch_id = sqlc.narg(batch_id)))::integer AS of_batch
FROM maas_sites s LEFT JOIN node_onboardings o ON o.site_id = s.id AND o.completed_at IS NULL
  AND (o.status IN ('running', 'compensating') OR o.status = 'pending' AND o.admitted_at IS NOT NULL)
WHERE s.id = sqlc.arg(site_id) GROUP BY s.id;

-- name: BatchLimit :one
SELECT batch_max_parallel FROM maas_site_profiles WHERE id = $1;

-- name: AdmitSingles :many
UPDATE node_onboardings SET admitted_at = sqlc.arg(now)::timestamptz, updated_at = sqlc.arg(now)::timestamptz
WHERE id IN (SELECT w.id FROM node_onboardings w
    WHERE w.site_id = sqlc.arg(site_id) AND w.status = 'pending' AND w.admitted_at IS NULL AND w.batch_id IS NULL
    ORDER BY w.requested_at, w.id LIMIT sqlc.arg(most) FOR NO KEY UPDATE SKIP LOCKED)
RETURNING *;

-- name: AdmitOfBatch :exec
UPDATE node_onboardings SET admitted_at = sqlc.arg(now)::timestamptz, updated_at = sqlc.arg(now)::timestamptz
WHERE id IN (SELECT w.id FROM node_onboardings w
    WHERE w.batch_id = sqlc.arg(batch_id) AND w.status = 'pending' AND w.admitted_at IS NULL
    ORDER BY w.id LIMIT sqlc.arg(most) FOR NO KEY UPDATE SKIP LOCKED);

-- name: AdmittedOfBatch :many
SELECT id, hostname FROM node_onboardings
WHERE batch_id = sqlc.arg(batch_id) AND status = 'pending' AND admitted_at IS NOT NULL ORDER BY id;

-- name: PendingOfBatch :one
SELECT count(*)::integer FROM node_onboardings WHERE batch_id = sqlc.arg(batch_id) AND status = 'pending' AND admitted_at IS NULL;

-- name: WaitingBatches :many
-- Those with an onboarding that has no place, or has one and was not begun: the
-- workflow that should begin it may be gone.
SELECT DISTINCT b.id FROM node_onboardings o JOIN node_onboarding_batches b ON b.id = o.batch_id
WHERE o.site_id = $1 AND o.status = 'pending' AND o.completed_at IS NULL AND (b.paused_at IS NULL OR o.admitted_at IS NOT NULL) ORDER BY b.id;

-- name: Batch :one
SELECT * FROM node_onboarding_batches WHERE id = $1;

-- name: LockBatch :one
SELECT * FROM node_onboarding_batches WHERE id = $1 FOR NO KEY UPDATE;

-- name: Batches :many
SELECT * FROM node_onboarding_batches
WHERE sqlc.arg(after)::uuid = '00000000-0000-0000-0000-000000000000' OR id < sqlc.arg(after)::uuid
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- name: BatchCounts :many
SELECT batch_id, status, count(*)::integer AS number FROM node_onboardings
WHERE batch_id = ANY(sqlc.arg(ids)::uuid[]) GROUP BY batch_id, status;

-- name: SetBatch :one
UPDATE node_onboarding_batches SET paused_at = $2, cancelled_at = $3 WHERE id = $1 RETURNING *;

-- name: CancelPendingOfBatch :many
WITH before AS (
    SELECT o.id, o.epoch, o.current_stage FROM node_onboardings o
    WHERE o.batch_id = sqlc.arg(batch_id) AND o.status = 'pending' ORDER BY o.id FOR NO KEY UPDATE
), told AS (
    INSERT INTO node_onboarding_events (onboarding_id, epoch, stage, attempt, status, message, details, occurred_at)
    SELECT b.id, b.epoch + 1, b.current_stage, 0, 'action', sqlc.arg(message)::text, sqlc.arg(details)::jsonb, sqlc.arg(now)::timestamptz FROM before b
)
UPDATE node_onboardings o SET status = 'cancelled', epoch = o.epoch + 1, action = 'cancel', completed_at = sqlc.arg(now)::timestamptz,
    updated_at = sqlc.arg(now)::timestamptz
FROM before b WHERE o.id = b.id RETURNING o.*;

-- name: PendingSites :many
SELECT DISTINCT site_id FROM node_onboardings WHERE status = 'pending' AND completed_at IS NULL;

-- name: LiveOfBatch :many
-- What a cancel of the batch concerns, beside those that wait for a place.
SELECT id FROM node_onboardings
WHERE batch_id = $1 AND completed_at IS NULL AND status <> 'pending' AND (status <> 'compensating' OR action = 'restart_clean')
ORDER BY id;

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

-- name: ClaimedMachines :many
-- A machine is known by its MAAS, which more than one site may be of.
SELECT o.id, o.maas_system_id FROM node_onboardings o JOIN maas_sites s ON s.id = o.site_id JOIN maas_sites here ON here.id = sqlc.arg(site_id)
WHERE s.api_base_url = here.api_base_url AND o.completed_at IS NULL AND o.maas_system_id <> '' AND o.id <> sqlc.arg(asking);
