-- name: Insert :one
INSERT INTO operations (id, org_id, project_id, resource_name, operation_type, version, digest, only_plan, inputs, target_kind,
    target_selector, plan_hash, policy, total_steps, max_concurrency, max_failures, ramp, timeout_seconds, trigger_source,
    linked_allocation_id, linked_node_id, again_of, requested_by, requested_by_name, reason, correlation_id,
    trace_id, trace_parent, approval_role, policy_decisions, approval_expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27,
    $28, $29, $30, sqlc.narg(approval_expires_at))
RETURNING *;

-- InsertTargets adds the frozen list of targets, in one statement.
-- name: InsertTargets :exec
INSERT INTO operation_targets (id, operation_id, position, node_id, hostname, allocation_id, status, error_code, error_class,
    error_message, error_remedy, finished_at)
SELECT t.id, sqlc.arg(operation_id), t.position, t.node_id, t.hostname, t.allocation_id, t.status, t.error_code, t.error_class,
    t.error_message, t.error_remedy, CASE WHEN t.status = 'skipped' THEN clock_timestamp() END
FROM jsonb_to_recordset(sqlc.arg(targets)::jsonb) AS t (id uuid, position integer, node_id uuid, hostname text, allocation_id uuid,
    status text, error_code text, error_class text, error_message text, error_remedy text);

-- name: Get :one
SELECT * FROM operations WHERE id = $1;

-- name: Lock :one
SELECT * FROM operations WHERE id = $1 FOR NO KEY UPDATE;

-- List gives operations, newest first. Without a project it gives those of the platform, or all.
-- name: List :many
SELECT * FROM operations
WHERE (sqlc.narg(project)::uuid IS NULL OR project_id = sqlc.narg(project))
  AND (sqlc.narg(node)::uuid IS NULL OR id IN (SELECT t.operation_id FROM operation_targets t WHERE t.node_id = sqlc.narg(node)))
  AND (sqlc.narg(type)::text IS NULL OR operation_type = sqlc.narg(type))
  AND (sqlc.arg(statuses)::text[] = '{}' OR status = ANY (sqlc.arg(statuses)::text[]))
  AND (sqlc.narg(before)::uuid IS NULL OR id < sqlc.narg(before))
ORDER BY id DESC LIMIT sqlc.arg(page_size);

-- Counts says of operations how many targets are in which state.
-- name: Counts :many
SELECT operation_id, status::text AS status, count(*)::integer AS targets FROM operation_targets
WHERE operation_id = ANY (sqlc.arg(operations)::uuid[]) GROUP BY operation_id, status;

-- Targets gives targets in their order, with the step that their node says it is at.
-- name: Targets :many
SELECT sqlc.embed(t), COALESCE(s.step, '')::text AS at_step, COALESCE(s.status, '')::text AS at_status, s.percent AS at_percent
FROM operation_targets t LEFT JOIN LATERAL (
    SELECT n.step, n.status, n.percent FROM node_task_steps n WHERE t.status = 'running' AND n.task_id = t.task_id
    ORDER BY n.attempt DESC, n.seq DESC LIMIT 1) s ON true
WHERE operation_id = sqlc.arg(operation_id) AND position > sqlc.arg(after)
  AND (sqlc.arg(statuses)::text[] = '{}' OR t.status = ANY (sqlc.arg(statuses)::text[]))
ORDER BY position LIMIT sqlc.arg(page_size);

-- name: Target :one
SELECT * FROM operation_targets WHERE id = $1;

-- LogStream finds what a task of a node prints for, also when the target has another task by now, and how far its lines have come. It
-- finds nothing of an earlier installation of the node, and of a task that ended a while ago.
-- name: LogStream :one
SELECT t.id AS target_id, t.operation_id, COALESCE(s.next_seq, 1)::bigint AS next_seq, COALESCE(s.bytes, 0)::bigint AS bytes
FROM node_tasks k JOIN nodes n ON n.id = k.node_id AND n.generation = k.generation
LEFT JOIN operation_log_streams s ON s.task_id = k.id
JOIN operation_targets t ON t.id = COALESCE(s.target_id, (k.params ->> 'target_id')::uuid) AND t.node_id = k.node_id
WHERE k.id = sqlc.arg(task_id) AND k.node_id = sqlc.arg(node_id) AND k.type = 'operation.run'
  AND (k.finished_at IS NULL OR k.finished_at > clock_timestamp() - sqlc.arg(seconds)::bigint * interval '1 second');

-- Running are the targets that nodes work on.
-- name: Running :many
SELECT * FROM operation_targets WHERE operation_id = $1 AND status = 'running' ORDER BY position;

-- Left are the targets that nodes work on although the allocation has ended through which they were reached.
-- name: Left :many
SELECT t.task_id FROM operation_targets t JOIN allocations a ON a.id = t.allocation_id
WHERE t.operation_id = $1 AND t.status = 'running' AND (a.status <> 'active' OR a.release_requested_at IS NOT NULL);

-- Next are the targets to hand out, in their order.
-- name: Next :many
SELECT * FROM operation_targets WHERE operation_id = $1 AND status = 'waiting' ORDER BY position LIMIT $2;

-- A status chooses steps that stand so by their newest attempt.
-- name: Steps :many
SELECT s.*, t.hostname, t.node_id, t.position FROM operation_steps s JOIN operation_targets t ON t.id = s.target_id
WHERE s.operation_id = sqlc.arg(operation_id)
  AND (sqlc.narg(target)::uuid IS NULL OR s.target_id = sqlc.narg(target))
  AND (sqlc.arg(status)::text = '' OR s.status = sqlc.arg(status) AND NOT EXISTS (
      SELECT FROM operation_steps l
      WHERE l.target_id = s.target_id AND l.step_index = s.step_index AND l.attempt_number > s.attempt_number))
  AND (t.position, s.attempt_number, s.step_index) >
      (sqlc.arg(after_position)::integer, sqlc.arg(after_attempt)::integer, sqlc.arg(after_step)::integer)
ORDER BY t.position, s.attempt_number, s.step_index LIMIT sqlc.arg(page_size);

-- StepsDone are the last outputs of the steps of targets that succeeded, for what comes after them.
-- name: StepsDone :many
SELECT DISTINCT ON (step_index) step_index, step_id, output FROM operation_steps
WHERE target_id = $1 AND status = 'succeeded' ORDER BY step_index, attempt_number DESC;

-- name: InsertSteps :exec
INSERT INTO operation_steps (operation_id, target_id, attempt_number, step_index, step_id, step_kind, status, changed, summary,
    output, error_code, error_class, error_message, error_remedy, tries, resolved_profile, hardware_match, log_lines,
    log_bytes_dropped, started_at, finished_at, duration_ms)
SELECT sqlc.arg(operation_id), s.target_id, s.attempt_number, s.step_index, s.step_id, s.step_kind, s.status, s.changed, s.summary,
    s.output, s.error_code, s.error_class, s.error_message, s.error_remedy, s.tries, s.resolved_profile, s.hardware_match,
    s.log_lines, s.log_bytes_dropped, s.started_at, s.finished_at, s.duration_ms
FROM jsonb_to_recordset(sqlc.arg(steps)::jsonb) AS s (target_id uuid, attempt_number integer, step_index integer, step_id text,
    step_kind text, status text, changed boolean, summary text, output jsonb, error_code text, error_class text, error_message text,
    error_remedy text, tries integer, resolved_profile text, hardware_match text, log_lines bigint, log_bytes_dropped bigint,
    started_at timestamptz, finished_at timestamptz, duration_ms bigint)
ON CONFLICT DO NOTHING;

-- InsertArtifacts adds what the outputs of steps say about artifacts. A step that is known already has its own.
-- name: InsertArtifacts :exec
INSERT INTO operation_artifacts (operation_id, target_id, attempt_number, step_index, seq, step_id, kind, role, name, digest, before, after, bytes)
SELECT sqlc.arg(operation_id), a.target_id, a.attempt_number, a.step_index, a.seq, a.step_id, a.kind, a.role, a.name, a.digest, a.before,
    a.after, a.bytes
FROM jsonb_to_recordset(sqlc.arg(artifacts)::jsonb) AS a (target_id uuid, attempt_number integer, step_index integer, seq integer,
    step_id text, kind text, role text, name text, digest text, before text, after text, bytes bigint)
ON CONFLICT DO NOTHING;

-- Artifacts gives what the steps of a run left on nodes or found there, by target, attempt and step.
-- name: Artifacts :many
SELECT a.*, t.hostname, t.node_id, t.position FROM operation_artifacts a JOIN operation_targets t ON t.id = a.target_id
WHERE a.operation_id = sqlc.arg(operation_id)
  AND (sqlc.narg(target)::uuid IS NULL OR a.target_id = sqlc.narg(target))
  AND (sqlc.arg(kind)::text = '' OR a.kind = sqlc.arg(kind))
  AND (t.position, a.attempt_number, a.step_index, a.seq) > (sqlc.arg(after_position)::integer, sqlc.arg(after_attempt)::integer,
      sqlc.arg(after_step)::integer, sqlc.arg(after_seq)::integer)
ORDER BY t.position, a.attempt_number, a.step_index, a.seq LIMIT sqlc.arg(page_size);

-- HandOut notes that a node has a target's work.
-- name: HandOut :exec
UPDATE operation_targets SET status = 'running', attempt = attempt + CASE WHEN sqlc.arg(probing)::boolean THEN 0 ELSE 1 END,
    looks = looks + CASE WHEN sqlc.arg(probing)::boolean THEN 1 ELSE 0 END,
    task_id = sqlc.arg(task_id), probing = sqlc.arg(probing)::boolean, handed_out_at = clock_timestamp(), finished_at = NULL,
    error_code = '', error_class = '', error_message = '', error_remedy = ''
WHERE id = sqlc.arg(id);

-- EndTarget notes how a target ended.
-- name: EndTarget :exec
UPDATE operation_targets SET status = sqlc.arg(status)::text, step_index = sqlc.arg(step_index), probing = false,
    changed = changed OR sqlc.arg(changed)::boolean, error_code = sqlc.arg(error_code), error_class = sqlc.arg(error_class),
    error_message = sqlc.arg(error_message), error_remedy = sqlc.arg(error_remedy), finished_at = clock_timestamp()
WHERE id = sqlc.arg(id);

-- Hold has a target wait for the rest of its steps.
-- name: Hold :exec
UPDATE operation_targets SET status = 'waiting', step_index = sqlc.arg(step_index), probing = false,
    changed = changed OR sqlc.arg(changed)::boolean, finished_at = NULL
WHERE id = sqlc.arg(id);

-- EndWaiting ends the targets that nobody has.
-- name: EndWaiting :execrows
UPDATE operation_targets SET status = 'canceled', error_code = sqlc.arg(error_code), error_class = 'cancelled',
    error_message = sqlc.arg(error_message), finished_at = clock_timestamp()
WHERE operation_id = sqlc.arg(operation_id) AND status = 'waiting';

-- Revive has targets wait again that did not succeed. Those whose allocation has ended stay as they are: nobody reaches them any more.
-- name: Revive :execrows
UPDATE operation_targets t SET status = 'waiting', finished_at = NULL, looks = 0
WHERE t.operation_id = sqlc.arg(operation_id) AND t.status IN ('failed', 'canceled', 'skipped')
  AND (sqlc.arg(targets)::uuid[] = '{}' OR t.id = ANY (sqlc.arg(targets)::uuid[]))
  AND (t.allocation_id IS NULL OR EXISTS (SELECT FROM allocations a
       WHERE a.id = t.allocation_id AND a.status = 'active' AND a.release_requested_at IS NULL));

-- Unreachable are the hosts of targets that could go on if their allocation had not ended.
-- name: Unreachable :many
SELECT t.hostname FROM operation_targets t JOIN allocations a ON a.id = t.allocation_id
WHERE t.operation_id = sqlc.arg(operation_id) AND t.status IN ('failed', 'canceled', 'skipped')
  AND (sqlc.arg(targets)::uuid[] = '{}' OR t.id = ANY (sqlc.arg(targets)::uuid[]))
  AND (a.status <> 'active' OR a.release_requested_at IS NOT NULL)
ORDER BY t.position LIMIT 20;

-- OfOthers are the hosts that somebody else rents, of targets that wait or are under way.
-- name: OfOthers :many
SELECT t.hostname FROM operation_targets t JOIN allocations a ON a.id = t.allocation_id
WHERE t.operation_id = sqlc.arg(operation_id) AND t.status IN ('waiting', 'running') AND a.requested_by <> sqlc.arg(who)::text
ORDER BY t.position LIMIT 1;

-- name: Move :one
UPDATE operations SET status = sqlc.arg(to_status)::text, row_version = row_version + 1, updated_at = clock_timestamp(),
    started_at = CASE WHEN sqlc.arg(to_status)::text = 'running' THEN COALESCE(started_at, clock_timestamp()) ELSE started_at END,
    finished_at = CASE WHEN sqlc.arg(ends)::boolean THEN clock_timestamp() END,
    error_code = sqlc.arg(error_code), error_message = sqlc.arg(error_message)
WHERE id = sqlc.arg(id) RETURNING *;

-- name: Pause :one
UPDATE operations SET paused_at = clock_timestamp(), paused_by = sqlc.arg(paused_by), pause_reason = sqlc.arg(pause_reason),
    row_version = row_version + 1, updated_at = clock_timestamp() WHERE id = sqlc.arg(id) RETURNING *;

-- name: Unpause :one
UPDATE operations SET paused_at = NULL, paused_by = '', pause_reason = '', forgiven = sqlc.arg(forgiven),
    resumed_by = array_append(array_remove(resumed_by, sqlc.arg(resumed_by)::text), sqlc.arg(resumed_by)::text),
    row_version = row_version + 1, updated_at = clock_timestamp() WHERE id = sqlc.arg(id) RETURNING *;

-- name: AskCancel :one
UPDATE operations SET cancel_requested_at = clock_timestamp(), cancel_requested_by = sqlc.arg(cancel_requested_by),
    cancel_reason = sqlc.arg(cancel_reason), paused_at = NULL, paused_by = '', pause_reason = '', row_version = row_version + 1,
    updated_at = clock_timestamp() WHERE id = sqlc.arg(id) RETURNING *;

-- name: Approve :one
UPDATE operations SET approved_at = clock_timestamp(), approved_by = sqlc.arg(approved_by),
    approved_by_name = sqlc.arg(approved_by_name), row_version = row_version + 1, updated_at = clock_timestamp()
WHERE id = sqlc.arg(id) RETURNING *;

-- Resume has an operation begin again where it stopped.
-- name: Resume :one
UPDATE operations SET status = 'queued', finished_at = NULL, error_code = '', error_message = '', resumes = resumes + 1,
    forgiven = sqlc.arg(forgiven),
    paused_at = NULL, paused_by = '', pause_reason = '', cancel_requested_at = NULL, cancel_requested_by = '', cancel_reason = '',
    approved_at = NULL, approved_by = '', approved_by_name = '', approval_expires_at = sqlc.narg(approval_expires_at),
    resumed_by = array_append(array_remove(resumed_by, sqlc.arg(resumed_by)::text), sqlc.arg(resumed_by)::text),
    row_version = row_version + 1, updated_at = clock_timestamp(), look_again_at = clock_timestamp()
WHERE id = sqlc.arg(id) RETURNING *;

-- Decided adds what the policy document decided since.
-- name: Decided :exec
UPDATE operations SET policy_decisions = policy_decisions || sqlc.arg(decision)::jsonb WHERE id = sqlc.arg(id);

-- name: RowVersion :one
SELECT row_version FROM operations WHERE id = $1;

-- name: LookAgain :exec
UPDATE operations SET look_again_at = clock_timestamp() + sqlc.arg(seconds)::bigint * interval '1 second' WHERE id = sqlc.arg(id);

-- Forgotten are operations that nobody has looked at although it was time: their workflow is gone.
-- name: Forgotten :many
UPDATE operations SET look_again_at = clock_timestamp() + interval '2 minutes'
WHERE id IN (SELECT o.id FROM operations o WHERE o.status IN ('queued', 'running')
    AND o.look_again_at < clock_timestamp() - sqlc.arg(seconds)::bigint * interval '1 second'
    ORDER BY o.look_again_at LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id, correlation_id;

-- Places are the nodes that a request may mean, with what is known of them: of the platform any node, of a project those of its
-- allocations that are in use.
-- name: Places :many
SELECT n.id AS node_id, n.hostname, n.status::text AS status, n.schedulable, n.hold_reason, n.held_by, n.capabilities,
    COALESCE(i.found->'step_kinds', '[]'::jsonb)::jsonb AS step_kinds, a.id AS allocation_id, a.project_id, a.group_id,
    COALESCE(a.status::text, '')::text AS tenancy, COALESCE(a.requested_by, '')::text AS tenant_by,
    COALESCE(a.status = 'active' AND a.release_requested_at IS NULL AND a.node_id = n.id, false)::boolean AS in_use,
    COALESCE(a.access = 'root', false)::boolean AS tenant_root, COALESCE(k.user_access_only, false)::boolean AS user_access_only
FROM nodes n LEFT JOIN node_inspections i ON i.node_id = n.id LEFT JOIN allocations a ON a.id = n.allocation_id
LEFT JOIN skus k ON k.id = a.sku_id
WHERE n.status <> 'deleted'
  AND (sqlc.narg(project)::uuid IS NULL
       OR a.project_id = sqlc.narg(project) AND a.status = 'active' AND a.release_requested_at IS NULL AND a.node_id = n.id)
  AND (NOT sqlc.arg(named)::boolean OR n.id = ANY (sqlc.arg(nodes)::uuid[]) OR a.id = ANY (sqlc.arg(allocations)::uuid[])
       OR a.group_id = ANY (sqlc.arg(groups)::uuid[]))
  AND (sqlc.arg(region)::text = '' OR n.region_code = sqlc.arg(region)) AND (sqlc.arg(rack)::text = '' OR n.rack = sqlc.arg(rack))
  AND (sqlc.arg(pool)::text = '' OR n.pool = sqlc.arg(pool)) AND (sqlc.arg(sku)::text = '' OR n.sku_id = sqlc.arg(sku))
  AND (sqlc.narg(project)::uuid IS NOT NULL OR n.labels @> sqlc.arg(labels)::jsonb)
  AND (sqlc.narg(project)::uuid IS NULL OR a.labels @> sqlc.arg(labels)::jsonb)
ORDER BY n.hostname, n.id LIMIT sqlc.arg(most);

-- name: OrgOf :one
SELECT org_id FROM projects WHERE id = $1;

-- Unresolved counts live operations, for metrics.
-- name: Live :many
SELECT status::text AS status, (paused_at IS NOT NULL)::boolean AS paused, count(*) AS operations FROM operations
WHERE status IN ('queued', 'running') GROUP BY 1, 2;

-- AppendLog keeps lines of a task, if they begin where it has come to: otherwise another delivery was faster, and nothing is kept. The
-- lock lets one writer add to the log of a run at a time, before a number is taken: numbers then rise in the order of the commits, and
-- whoever follows misses none.
-- name: AppendLog :execrows
WITH turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended(sqlc.arg(operation)::text, 75))
), stream AS (
    INSERT INTO operation_log_streams AS s (task_id, operation_id, target_id, next_seq, bytes)
    SELECT sqlc.arg(task_id), sqlc.arg(operation_id), sqlc.arg(target_id), sqlc.arg(last_seq)::bigint + 1, sqlc.arg(size) FROM turn
    ON CONFLICT (task_id) DO UPDATE SET next_seq = EXCLUDED.next_seq, bytes = s.bytes + EXCLUDED.bytes
    WHERE s.next_seq = sqlc.arg(first_seq)::bigint
    RETURNING s.task_id, s.operation_id, s.target_id
)
INSERT INTO operation_logs (operation_id, target_id, task_id, first_seq, last_seq, steps, body)
SELECT operation_id, target_id, task_id, sqlc.arg(first_seq)::bigint, sqlc.arg(last_seq)::bigint, sqlc.arg(steps)::text[],
    sqlc.arg(body)::bytea FROM stream;

-- DropLines goes on behind lines that are not kept.
-- name: DropLines :execrows
UPDATE operation_log_streams SET next_seq = sqlc.arg(last_seq)::bigint + 1, dropped = dropped + sqlc.arg(size)::bigint
WHERE task_id = sqlc.arg(task_id) AND next_seq = sqlc.arg(first_seq)::bigint;

-- Logs gives chunks in the order in which they came.
-- name: Logs :many
SELECT l.id, l.target_id, l.task_id, l.first_seq, l.last_seq, l.steps, l.body, t.hostname, t.node_id
FROM operation_logs l JOIN operation_targets t ON t.id = l.target_id
WHERE l.operation_id = sqlc.arg(operation_id) AND l.id >= sqlc.arg(from_id)
  AND (sqlc.narg(target)::uuid IS NULL OR l.target_id = sqlc.narg(target))
  AND (sqlc.arg(step)::text = '' OR sqlc.arg(step)::text = ANY (l.steps))
ORDER BY l.id LIMIT sqlc.arg(most);

-- name: CountPrunableLogs :one
SELECT count(*) FROM operation_logs l JOIN operations o ON o.id = l.operation_id WHERE o.finished_at < sqlc.arg(before)::timestamptz;

-- name: PruneLogs :execrows
DELETE FROM operation_logs WHERE id IN (
    SELECT l.id FROM operation_logs l JOIN operations o ON o.id = l.operation_id
    WHERE o.finished_at < sqlc.arg(before)::timestamptz ORDER BY l.id LIMIT sqlc.arg(batch)::int);

-- RefuseWaiting ends the targets that nobody has. One that had begun failed.
-- name: RefuseWaiting :exec
UPDATE operation_targets SET status = CASE WHEN attempt > 0 THEN 'failed' ELSE 'skipped' END, error_code = sqlc.arg(error_code), error_class = sqlc.arg(error_class),
    error_message = sqlc.arg(error_message), error_remedy = sqlc.arg(error_remedy), finished_at = clock_timestamp()
WHERE operation_id = sqlc.arg(operation_id) AND status = 'waiting';
