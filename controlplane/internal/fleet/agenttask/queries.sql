-- name: Target :one
-- Says whether a node can be given a task of a type at all. Agents of nodes
-- outside the fleet are refused; while a node is being removed, it may only be
-- uninstalled.
SELECT generation,
       (node_is(status, 'fenced') OR (status = 'removing' AND sqlc.arg(type)::text <> 'node.uninstall'))::boolean AS fenced,
       status::text AS status
FROM nodes WHERE id = sqlc.arg(node_id);

-- name: Insert :one
INSERT INTO node_tasks (id, node_id, type, params, concurrency_class, generation, max_attempts, deadline_at,
                        idempotency_key, await_workflow_id, requested_by, reason, correlation_id, trace_parent,
                        window_seconds, await_signal)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (node_id, idempotency_key) WHERE idempotency_key <> '' DO NOTHING
RETURNING *;

-- name: InsertForFleet :execrows
INSERT INTO node_tasks (id, node_id, type, params, concurrency_class, generation, max_attempts, deadline_at,
                        idempotency_key, requested_by, reason, correlation_id, trace_parent)
SELECT gen_random_uuid(), n.id, sqlc.arg(type), sqlc.arg(params), sqlc.arg(concurrency_class), n.generation,
       sqlc.arg(max_attempts), sqlc.arg(deadline_at), sqlc.arg(idempotency_key), sqlc.arg(requested_by),
       sqlc.arg(reason), sqlc.arg(correlation_id), sqlc.arg(trace_parent)
FROM nodes n WHERE node_is(n.status, 'attended')
ON CONFLICT (node_id, idempotency_key) WHERE idempotency_key <> '' DO NOTHING;

-- name: DeployUsers :many
-- The accounts that the machines of nodes were set up by, by what the deployment
-- says that made the present installation; none for those of before it was kept.
SELECT n.id, (j.facts->>'deploy_user')::text AS deploy_user
FROM nodes n CROSS JOIN LATERAL (
    SELECT o.id, o.facts FROM node_onboardings o WHERE o.node_id = n.id AND o.facts ? 'deployed_at'
    UNION ALL SELECT d.id, d.facts FROM node_decommissions d WHERE d.node_id = n.id AND d.facts ? 'deployed_at'
    ORDER BY id DESC LIMIT 1) j
WHERE n.id = ANY(sqlc.arg(nodes)::uuid[]) AND j.facts ? 'deploy_user';

-- name: OpenLogins :many
-- Nodes whose agent has not locked the account that their machine was set up by,
-- and was not asked lately. What an agent says of an account, be it there or not,
-- proves something only if that is the one that was deployed, or if the agent looked
-- for others.
SELECT n.id, n.generation, COALESCE(j.facts->>'deploy_user', s.deploy_user)::text AS deploy_user
FROM nodes n JOIN node_maas_state b ON b.node_id = n.id JOIN maas_sites s ON s.id = b.site_id
LEFT JOIN LATERAL (
    SELECT o.id, o.facts FROM node_onboardings o WHERE o.node_id = n.id AND o.facts ? 'deployed_at'
    UNION ALL SELECT d.id, d.facts FROM node_decommissions d WHERE d.node_id = n.id AND d.facts ? 'deployed_at'
    ORDER BY id DESC LIMIT 1) j ON true
WHERE node_is(n.status, 'steady') AND n.held_by = '' AND (sqlc.narg(after)::uuid IS NULL OR n.id > sqlc.narg(after)) AND NOT EXISTS (
    SELECT FROM node_tasks t WHERE t.node_id = n.id AND t.type = sqlc.arg(type)::text AND t.generation = n.generation
      AND (t.status IN ('queued', 'dispatched') OR t.created_at > sqlc.arg(since)::timestamptz OR t.status = 'succeeded'
        AND (t.output @> '{"searched": true}' OR t.params->>'username' = j.facts->>'deploy_user')))
ORDER BY n.id LIMIT sqlc.arg(most);

-- name: UnprovenLogins :many
-- Nodes whose agent was asked to lock the account of the name that the site has
-- now, did not look for others, and was not asked to lock what was deployed.
SELECT DISTINCT ON (t.node_id) t.node_id, (t.params->>'username')::text AS username
FROM nodes n JOIN node_tasks t ON t.node_id = n.id AND t.generation = n.generation
WHERE n.id = ANY(sqlc.arg(nodes)::uuid[]) AND t.type = sqlc.arg(type)::text AND t.status = 'succeeded'
  AND NOT EXISTS (SELECT FROM node_tasks d WHERE d.node_id = n.id AND d.type = t.type AND d.generation = n.generation AND d.status = 'succeeded'
    AND d.output @> '{"searched": true}')
ORDER BY t.node_id, t.created_at DESC;

-- name: LockByKey :one
SELECT * FROM node_tasks WHERE node_id = $1 AND idempotency_key = $2 FOR UPDATE;

-- name: Await :exec
UPDATE node_tasks SET await_workflow_id = $2 WHERE id = $1;

-- name: AwaitMany :many
-- Notes who is told when these tasks end, and by which signal. Those that have
-- ended already are left out of the answer.
UPDATE node_tasks SET await_workflow_id = sqlc.arg(workflow_id), await_signal = sqlc.arg(signal)
WHERE id = ANY(sqlc.arg(tasks)::uuid[]) AND status IN ('queued', 'dispatched') RETURNING id;

-- name: EndedOf :many
SELECT * FROM node_tasks WHERE id = ANY(sqlc.arg(tasks)::uuid[]) AND status NOT IN ('queued', 'dispatched');

-- name: Get :one
SELECT * FROM node_tasks WHERE id = $1;

-- name: Held :one
-- A task, and whether the node has been taken over since it got the task.
SELECT sqlc.embed(t), (t.generation < n.generation)::boolean AS superseded
FROM node_tasks t JOIN nodes n ON n.id = t.node_id
WHERE t.id = $1 FOR UPDATE OF t;

-- name: Claim :one
-- The oldest task that the node may work on now. It must belong to the node and
-- to its present generation. Beside a task that changes the node, only tasks
-- are claimed that may run beside anything.
WITH next AS (
    SELECT t.id FROM node_tasks t JOIN nodes n ON n.id = t.node_id AND n.generation = t.generation
    WHERE t.node_id = sqlc.arg(node_id) AND t.generation = sqlc.arg(generation) AND t.status = 'queued'
      AND t.deadline_at > sqlc.arg(now)::timestamptz
      AND NOT node_is(n.status, 'fenced') AND (n.status <> 'removing' OR t.type = 'node.uninstall')
      AND (n.held_by = '' OR t.type NOT IN ('allocation.provision_user', 'terminal.open')) -- nobody gets in behind a cleaning
      AND (t.concurrency_class = 'concurrent' OR NOT EXISTS (
          SELECT FROM node_tasks d
          WHERE d.node_id = t.node_id AND d.status = 'dispatched' AND d.concurrency_class <> 'concurrent'))
    ORDER BY t.created_at, t.id
    LIMIT 1
    FOR UPDATE OF t SKIP LOCKED)
UPDATE node_tasks t
SET status = 'dispatched', attempt = t.attempt + 1, dispatched_at = sqlc.arg(now)::timestamptz,
    lease_expires_at = sqlc.arg(lease_expires_at)::timestamptz
FROM next WHERE t.id = next.id
RETURNING t.*;

-- name: NoteSigner :exec
-- The node waits meanwhile, and nothing is decided by it: its commit does not wait for the disk.
UPDATE node_tasks SET signer_version = sqlc.arg(signer_version)
WHERE id = sqlc.arg(id) AND attempt = sqlc.arg(attempt) AND status = 'dispatched'
  AND set_config('synchronous_commit', 'off', true) = 'off';

-- name: PutBack :one
-- Undoes a claim that did not reach the node. It does not count as an attempt.
UPDATE node_tasks SET status = 'queued', attempt = attempt - 1, lease_expires_at = NULL
WHERE id = sqlc.arg(id) AND attempt = sqlc.arg(attempt) AND status = 'dispatched'
RETURNING *;

-- name: Requeue :exec
UPDATE node_tasks SET status = 'queued', lease_expires_at = NULL WHERE id = $1;

-- name: Finish :one
UPDATE node_tasks
SET status = sqlc.arg(status), lease_expires_at = NULL, finished_at = sqlc.arg(finished_at)::timestamptz,
    output = sqlc.narg(output), error_code = sqlc.arg(error_code), error_message = sqlc.arg(error_message),
    error_remedy = sqlc.arg(error_remedy), agent_version = sqlc.arg(agent_version), started_at = sqlc.narg(started_at)
WHERE id = sqlc.arg(id)
RETURNING *;

-- name: RequestCancel :one
UPDATE node_tasks SET cancel_requested = true WHERE id = $1 RETURNING *;

-- name: RenewLease :exec
UPDATE node_tasks SET lease_expires_at = sqlc.arg(lease_expires_at)::timestamptz WHERE id = sqlc.arg(id) AND status = 'dispatched';

-- name: InsertSteps :exec
INSERT INTO node_task_steps (task_id, attempt, seq, step, status, message, percent, at)
SELECT sqlc.arg(task_id), sqlc.arg(attempt), s.seq, s.name, s.status, coalesce(s.message, ''), s.percent, s.at
FROM jsonb_to_recordset(sqlc.arg(steps)::jsonb) AS s (seq integer, name text, status text, message text, percent integer, at timestamptz)
ON CONFLICT DO NOTHING;

-- name: Steps :many
SELECT * FROM node_task_steps WHERE task_id = $1 ORDER BY attempt, seq;

-- name: Overdue :many
-- Tasks that nobody works on any more, or that nobody may work on: their lease
-- ran out, they waited too long, their node was taken over or is gone, or it goes on
-- for long after the time of its type is over.
SELECT t.id FROM node_tasks t WHERE t.status = 'dispatched' AND t.lease_expires_at <= sqlc.arg(now)::timestamptz
UNION
SELECT t.id FROM node_tasks t WHERE t.status = 'queued' AND t.deadline_at <= sqlc.arg(now)::timestamptz
UNION
SELECT t.id FROM node_tasks t WHERE t.status = 'dispatched'
  AND least(t.deadline_at, t.dispatched_at + make_interval(secs => coalesce(t.window_seconds, 0))) <= sqlc.arg(overrun_before)::timestamptz
UNION
SELECT t.id FROM node_tasks t JOIN nodes n ON n.id = t.node_id
WHERE t.status IN ('queued', 'dispatched') AND (n.generation > t.generation OR n.status = 'deleted')
LIMIT sqlc.arg(batch_size);

-- name: LockOverdue :one
SELECT sqlc.embed(t), (n.generation > t.generation OR n.status = 'deleted')::boolean AS superseded
FROM node_tasks t JOIN nodes n ON n.id = t.node_id
WHERE t.id = $1 FOR UPDATE OF t SKIP LOCKED;

-- name: List :many
SELECT * FROM node_tasks
WHERE (sqlc.narg(created_before)::timestamptz IS NULL
       OR (created_at, id) < (sqlc.narg(created_before)::timestamptz, sqlc.narg(id_before)::uuid))
  AND (sqlc.narg(node)::uuid IS NULL OR node_id = sqlc.narg(node)::uuid)
  AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status))
  AND (sqlc.narg(type)::text IS NULL OR type = sqlc.narg(type))
ORDER BY created_at DESC, id DESC
LIMIT sqlc.arg(page_size);

-- name: WorkedOn :many
-- What a node works on now: handed to it in its present generation, with a live lease.
SELECT t.* FROM node_tasks t JOIN nodes n ON n.id = t.node_id AND n.generation = t.generation
WHERE t.node_id = sqlc.arg(node_id) AND t.type = sqlc.arg(type) AND t.status = 'dispatched' AND NOT t.cancel_requested
  AND t.lease_expires_at > sqlc.arg(now)::timestamptz
ORDER BY t.id;

-- name: Waiting :many
SELECT status, count(*) AS tasks, EXTRACT(epoch FROM clock_timestamp() - min(created_at))::float8 AS oldest_seconds
FROM node_tasks WHERE status IN ('queued', 'dispatched') GROUP BY status;

-- name: LiveOfJob :many
-- The tasks that a job gave a node and that have not ended, newest first. Their
-- keys begin with the id of the job.
SELECT * FROM node_tasks
WHERE node_id = sqlc.arg(node_id) AND starts_with(idempotency_key, sqlc.arg(key_prefix)::text) AND status IN ('queued', 'dispatched')
ORDER BY created_at DESC, id DESC;

-- name: CountPrunable :one
SELECT count(*) FROM node_tasks_prunable p WHERE p.finished_at < sqlc.arg(before)::timestamptz
  AND (SELECT count(*) FROM (SELECT FROM node_tasks n WHERE n.node_id = p.node_id AND n.created_at > p.created_at
    LIMIT sqlc.arg(keep)::int) newer) >= sqlc.arg(keep)::int;

-- name: Prune :execrows
WITH old AS MATERIALIZED (
    SELECT p.id FROM node_tasks_prunable p WHERE p.finished_at < sqlc.arg(before)::timestamptz
      AND (SELECT count(*) FROM (SELECT FROM node_tasks n WHERE n.node_id = p.node_id AND n.created_at > p.created_at
        LIMIT sqlc.arg(keep)::int) newer) >= sqlc.arg(keep)::int
    ORDER BY p.finished_at LIMIT sqlc.arg(batch)::int
), steps AS (
    DELETE FROM node_task_steps s USING old o WHERE s.task_id = o.id
)
DELETE FROM node_tasks t USING old o WHERE t.id = o.id;
