-- name: Candidates :many
-- The nodes that a target means, whatever may be done to them.
SELECT n.id, n.hostname, n.status, n.sku_id, n.region_code, n.agent_channel, n.reported_agent_version,
    n.desired_agent_version, n.certificate_not_after, COALESCE(n.capabilities ->> 'agent.protocol', '')::text AS protocol,
    COALESCE(m.site_id::text, '')::text AS site,
    EXISTS (SELECT FROM node_occupations o WHERE o.node_id = n.id AND o.kind = 'claim')::boolean AS rented,
    COALESCE((SELECT t.rollout_id::text FROM agent_rollout_targets t WHERE t.node_id = n.id
        AND t.status IN ('pending', 'updating', 'baking', 'returning')), '')::text AS busy_with,
    -- What a node is, by its own word or by the release that it runs; nobody knows of some.
    CASE WHEN COALESCE(n.capabilities ->> 'agent.architecture', b.architecture) <> r.architecture
        THEN COALESCE(n.capabilities ->> 'agent.architecture', b.architecture) ELSE '' END::text AS foreign_architecture
FROM nodes n LEFT JOIN node_maas_state m ON m.node_id = n.id
LEFT JOIN agent_releases b ON b.version = n.reported_agent_version
LEFT JOIN agent_releases r ON r.version = sqlc.arg(version)
WHERE n.status <> 'deleted'
  AND (sqlc.narg(channel)::text IS NULL OR n.agent_channel = sqlc.narg(channel))
  AND (sqlc.narg(region)::text IS NULL OR n.region_code = sqlc.narg(region))
  AND (sqlc.narg(site)::uuid IS NULL OR m.site_id = sqlc.narg(site)::uuid)
  AND (sqlc.narg(sku)::text IS NULL OR n.sku_id = sqlc.narg(sku))
  AND (sqlc.narg(pool)::text IS NULL OR n.pool = sqlc.narg(pool))
  AND (sqlc.narg(labels)::jsonb IS NULL OR n.labels @> sqlc.narg(labels)::jsonb)
ORDER BY n.region_code COLLATE "C", site, n.hostname COLLATE "C", n.id LIMIT sqlc.arg(most);

-- name: InsertRollout :one
INSERT INTO agent_rollouts (id, version, target, plan, waves, reason, requested_by)
VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *;

-- name: InsertTarget :exec
INSERT INTO agent_rollout_targets (rollout_id, node_id, hostname, kind, wave, status, detail, finished_at)
VALUES ($1, $2, $3, $4, sqlc.narg(wave), $5, $6, CASE WHEN $5::text = 'excluded' THEN clock_timestamp() END);

-- name: Rollout :one
SELECT * FROM agent_rollouts WHERE id = $1;

-- name: LockRollout :one
SELECT * FROM agent_rollouts WHERE id = $1 FOR UPDATE;

-- name: ListRollouts :many
SELECT * FROM agent_rollouts WHERE (created_at, id) < (sqlc.arg(before)::timestamptz, sqlc.arg(before_id)::uuid)
ORDER BY created_at DESC, id DESC LIMIT sqlc.arg(page_size);

-- name: CountTargets :many
SELECT COALESCE(wave, -1)::integer AS wave, status, count(*)::bigint AS nodes, sum(failures)::bigint AS failures
FROM agent_rollout_targets WHERE rollout_id = $1 GROUP BY wave, status ORDER BY 1, 2;

-- name: ListTargets :many
SELECT * FROM agent_rollout_targets
WHERE rollout_id = $1 AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status)) AND node_id > sqlc.arg(after)::uuid
ORDER BY node_id LIMIT sqlc.arg(page_size);

-- name: Live :many
-- What is under way, with what is known of the nodes and their tasks.
SELECT sqlc.embed(t), n.status AS node_status, n.schedulable, n.held_by, n.reported_agent_version, n.agent_channel,
    (n.certificate_not_after IS NOT NULL AND n.certificate_not_after > clock_timestamp())::boolean AS certified,
    COALESCE(c.last_contact_at, 'epoch')::timestamptz AS heard_at, COALESCE(c.agent_memory, 0)::bigint AS memory,
    c.agent_started_at, COALESCE(k.status, '')::text AS task_status,
    COALESCE(k.error_code, '')::text AS task_code, COALESCE(k.error_message, '')::text AS task_message,
    -- The clocks of the control plane and of the database may differ a little.
    EXISTS (SELECT FROM node_certificates x WHERE x.node_id = t.node_id
        AND x.issued_at > t.started_at - interval '30 seconds')::boolean AS renewed
FROM agent_rollout_targets t JOIN nodes n ON n.id = t.node_id LEFT JOIN node_contacts c ON c.node_id = n.id
LEFT JOIN node_tasks k ON k.id = t.task_id
WHERE t.rollout_id = $1 AND t.status IN ('updating', 'baking', 'returning') ORDER BY t.node_id;

-- name: Startable :many
-- Nodes of a wave, or of an earlier one, that may be begun with. Those that were
-- offline come after the others.
SELECT sqlc.embed(t), n.status AS node_status, n.schedulable, n.held_by, n.reported_agent_version, n.agent_channel,
    n.certificate_not_after, COALESCE(n.capabilities ->> 'agent.protocol', '')::text AS protocol,
    ARRAY(SELECT DISTINCT o.kind FROM node_occupations o WHERE o.node_id = n.id ORDER BY 1)::text[] AS occupied,
    (SELECT c.agent_memory FROM node_contacts c WHERE c.node_id = n.id) AS memory,
    CASE WHEN COALESCE(n.capabilities ->> 'agent.architecture', b.architecture) <> r.architecture
        THEN COALESCE(n.capabilities ->> 'agent.architecture', b.architecture) ELSE '' END::text AS foreign_architecture
FROM agent_rollout_targets t JOIN nodes n ON n.id = t.node_id
LEFT JOIN agent_releases b ON b.version = n.reported_agent_version
LEFT JOIN agent_releases r ON r.version = sqlc.arg(version)
WHERE t.rollout_id = $1 AND t.wave <= $2 AND (t.status = 'pending' OR t.status = 'skipped_offline'
    AND (n.status <> 'offline' OR n.certificate_not_after IS NULL OR n.certificate_not_after <= sqlc.arg(now)::timestamptz)
    AND NOT EXISTS (SELECT FROM agent_rollout_targets o WHERE o.node_id = t.node_id AND o.rollout_id <> t.rollout_id
        AND o.status IN ('pending', 'updating', 'baking', 'returning')))
ORDER BY t.status, t.wave, t.node_id LIMIT sqlc.arg(most);

-- name: SetTarget :exec
UPDATE agent_rollout_targets SET status = $3, detail = $4, from_version = $5, was_schedulable = $6, task_id = $7,
    failures = $8, started_at = $9, deadline_at = $10, bake_until = $11, finished_at = $12, memory_before = sqlc.narg(memory_before),
    silent = sqlc.arg(silent)
WHERE rollout_id = $1 AND node_id = $2;

-- name: MarkBack :exec
-- The nodes that have the version wait for their turn to go back.
UPDATE agent_rollout_targets t SET status = 'returning', detail = sqlc.arg(detail), deadline_at = NULL, finished_at = NULL
FROM nodes n
WHERE n.id = t.node_id AND t.rollout_id = sqlc.arg(rollout_id) AND t.wave >= sqlc.arg(from_wave)
  AND t.status IN ('baking', 'verified', 'failed') AND n.reported_agent_version = sqlc.arg(version)::text
  AND NOT EXISTS (SELECT FROM agent_rollout_targets o WHERE o.node_id = t.node_id AND o.rollout_id <> t.rollout_id
      AND o.status IN ('pending', 'updating', 'baking', 'returning'));

-- name: VersionsBefore :many
SELECT DISTINCT from_version FROM agent_rollout_targets
WHERE rollout_id = $1 AND status IN ('updating', 'baking', 'returning') AND from_version <> '';

-- name: Unfetched :many
-- Nodes whose order nobody has fetched, ever.
SELECT t.* FROM agent_rollout_targets t JOIN node_tasks k ON k.id = t.task_id
WHERE t.rollout_id = $1 AND t.status = 'updating' AND k.status = 'queued' AND k.attempt = 0 ORDER BY t.node_id;

-- name: TaskStatus :one
SELECT status FROM node_tasks WHERE id = $1;

-- name: EndPending :exec
UPDATE agent_rollout_targets SET status = 'excluded', detail = $2, finished_at = clock_timestamp()
WHERE rollout_id = $1 AND status IN ('pending', 'skipped_offline');

-- name: SetRollout :one
UPDATE agent_rollouts SET status = $2, wave = $3, paused_because = $4, paused_code = $5, forgiven = $6, approved_wave = $7,
    finished_at = $8, updated_at = clock_timestamp(), row_version = row_version + 1
WHERE id = $1 RETURNING *;

-- name: CountRollouts :many
-- A paused rollout is not changed until somebody acts.
SELECT status, count(*)::bigint AS rollouts,
    GREATEST(EXTRACT(epoch FROM clock_timestamp() - min(updated_at)), 0)::double precision AS oldest_seconds
FROM agent_rollouts WHERE status NOT IN ('completed', 'aborted') GROUP BY status;

-- name: ForgetWaiting :exec
-- How long a busy node is waited for counts from the next window on.
UPDATE agent_rollout_targets SET deadline_at = NULL, detail = ''
WHERE rollout_id = $1 AND status = 'pending' AND deadline_at IS NOT NULL;

-- name: Silent :many
-- Rollouts that a node failed in without a word, and whose version it reports now. One
-- that was completed has proven its version elsewhere.
SELECT t.rollout_id FROM agent_rollout_targets t JOIN agent_rollouts r ON r.id = t.rollout_id JOIN nodes n ON n.id = t.node_id
WHERE t.node_id = sqlc.arg(node_id) AND t.silent AND t.status = 'failed' AND r.status <> 'completed'
  AND n.reported_agent_version = r.version
  AND NOT EXISTS (SELECT FROM agent_rollout_targets o WHERE o.node_id = t.node_id
      AND o.status IN ('pending', 'updating', 'baking', 'returning'))
ORDER BY r.created_at;

-- name: LockTarget :one
SELECT * FROM agent_rollout_targets WHERE rollout_id = $1 AND node_id = $2 FOR UPDATE;
