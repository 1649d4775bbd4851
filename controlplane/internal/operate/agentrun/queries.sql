-- name: Insert :one
INSERT INTO agent_runs (id, node_id, hostname, mode, scenario, safety_policy, target_version, way, brokered_because, status,
    detail, from_version, generation, had_certificate, was_schedulable, deadline_at, reason, requested_by, requested_by_name,
    correlation_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) RETURNING *;

-- name: Run :one
SELECT * FROM agent_runs WHERE id = $1;

-- name: LockRun :one
SELECT * FROM agent_runs WHERE id = $1 FOR UPDATE;

-- name: Latest :one
SELECT * FROM agent_runs WHERE node_id = $1 ORDER BY created_at DESC, id DESC LIMIT 1;

-- name: List :many
SELECT * FROM agent_runs
WHERE node_id = sqlc.arg(node_id) AND (created_at, id) < (sqlc.arg(before)::timestamptz, sqlc.arg(before_id)::uuid)
ORDER BY created_at DESC, id DESC LIMIT sqlc.arg(page_size);

-- name: Save :one
UPDATE agent_runs SET way = $2, brokered_because = $3, status = $4, detail = $5, error_code = $6, error_message = $7,
    error_remedy = $8, generation = $9, had_certificate = $10, attempt = $11, task_id = $12, decommission_id = $13,
    phase_started_at = $14, deadline_at = $15, finished_at = $16, from_version = $17, was_schedulable = $18,
    updated_at = clock_timestamp(), version = version + 1
WHERE id = $1 RETURNING *;

-- name: Occupied :many
-- What a node is busy with besides the run itself and what the run told it.
SELECT DISTINCT o.kind FROM node_occupations o
WHERE o.node_id = $1 AND o.kind <> 'agent run' AND o.occupant <> sqlc.arg(own_task)::text ORDER BY 1;

-- name: InRollout :one
SELECT COALESCE((SELECT t.rollout_id::text FROM agent_rollout_targets t WHERE t.node_id = $1
    AND t.status IN ('updating', 'baking', 'returning')), '')::text AS rollout;

-- name: Task :one
SELECT status, error_code, error_message FROM node_tasks WHERE id = $1;

-- name: Decommission :one
SELECT status, phase, error_code, completed_at FROM jobs WHERE id = $1;

-- name: Renewed :one
-- Since the agent was told to update itself; tasks are pruned in the end. The clocks of the control plane and of the
-- database may differ a little.
SELECT EXISTS (SELECT FROM node_certificates x WHERE x.node_id = $1
    AND x.issued_at > COALESCE((SELECT t.created_at FROM node_tasks t WHERE t.id = sqlc.arg(task)),
        sqlc.arg(since)::timestamptz) - interval '30 seconds')::boolean AS renewed;

-- name: CountRuns :many
SELECT status::text AS status, count(*)::bigint AS runs,
    GREATEST(EXTRACT(epoch FROM clock_timestamp() - min(updated_at)), 0)::double precision AS oldest_seconds
FROM agent_runs WHERE status NOT IN ('succeeded', 'cancelled') GROUP BY status;
