-- name: LockProject :exec
SELECT pg_advisory_xact_lock(hashtextextended('webhooks ' || sqlc.arg(project)::text, 0));

-- name: Org :one
SELECT org_id FROM projects WHERE id = $1;

-- name: Count :one
SELECT count(*) FROM webhooks WHERE project_id = $1;

-- name: Insert :one
INSERT INTO webhooks (id, org_id, project_id, name, url, kinds, created_by) VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING *;

-- name: Get :one
SELECT * FROM webhooks WHERE id = $1 AND project_id = $2;

-- name: Lock :one
SELECT * FROM webhooks WHERE id = $1 FOR UPDATE;

-- name: List :many
SELECT * FROM webhooks WHERE project_id = sqlc.arg(project_id) AND id > sqlc.arg(after)::uuid
ORDER BY id LIMIT sqlc.arg(page_size);

-- name: Update :one
UPDATE webhooks SET name = sqlc.arg(name), url = sqlc.arg(url), kinds = sqlc.arg(kinds),
    disabled_at = CASE WHEN sqlc.arg(disabled_reason)::text = '' THEN NULL ELSE coalesce(disabled_at, clock_timestamp()) END,
    disabled_reason = sqlc.arg(disabled_reason)::text,
    failing_since = CASE WHEN disabled_at IS NOT NULL THEN NULL ELSE failing_since END,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = sqlc.arg(id) RETURNING *;

-- name: NoteRotation :one
UPDATE webhooks SET secret_rotated_at = clock_timestamp(), version = version + 1, updated_at = clock_timestamp()
WHERE id = $1 RETURNING *;

-- name: Delete :exec
DELETE FROM webhooks WHERE id = $1;

-- name: DeleteDeliveries :exec
DELETE FROM webhook_deliveries WHERE webhook_id = $1;

-- name: InsertDelivery :one
INSERT INTO webhook_deliveries (webhook_id, project_id, event_id, event_type, envelope) VALUES ($1, $2, $3, $4, $5)
RETURNING *;

-- name: GetDelivery :one
SELECT * FROM webhook_deliveries WHERE id = $1 AND webhook_id = $2;

-- name: ListDeliveries :many
-- Newest first. A zero position means the beginning.
SELECT * FROM webhook_deliveries
WHERE webhook_id = sqlc.arg(webhook_id) AND (sqlc.arg(before)::bigint = 0 OR seq < sqlc.arg(before)::bigint)
  AND (sqlc.arg(status)::text = ''
       OR sqlc.arg(status)::text = CASE WHEN finished_at IS NULL THEN 'waiting' WHEN delivered THEN 'delivered' ELSE 'failed' END)
ORDER BY seq DESC LIMIT sqlc.arg(page_size);

-- name: LockClaims :exec
SELECT pg_advisory_xact_lock(hashtextextended('webhook deliveries', 0));

-- name: Claim :many
-- Takes what is due: so many of one webhook, of one project and of one tenant at a time, counting those under way, so that
-- receivers that are slow hold up nobody else. Tenants take turns, their projects within, and the webhooks of these. Only
-- the first few of a webhook are read, by an index, however many wait.
WITH busy AS (
    SELECT w.id, w.project_id, w.org_id FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id
    WHERE d.leased_until > statement_timestamp()
), due AS (
    SELECT d.id, w.project_id, w.org_id, d.next_at,
        row_number() OVER (PARTITION BY w.id ORDER BY d.next_at, d.seq) + (SELECT count(*) FROM busy b WHERE b.id = w.id) AS in_hook
    FROM webhooks w CROSS JOIN LATERAL (
        SELECT f.id, f.next_at, f.seq FROM webhook_deliveries f
        WHERE f.webhook_id = w.id AND f.next_at <= statement_timestamp()
        ORDER BY f.next_at, f.seq LIMIT sqlc.arg(of_webhook)::int) AS d
    WHERE w.disabled_at IS NULL
), of_projects AS (
    SELECT id, org_id, next_at,
        row_number() OVER (PARTITION BY project_id ORDER BY in_hook, next_at)
            + (SELECT count(*) FROM busy b WHERE b.project_id = due.project_id) AS in_project
    FROM due WHERE in_hook <= sqlc.arg(of_webhook)::int
), of_tenants AS (
    SELECT id, next_at,
        row_number() OVER (PARTITION BY org_id ORDER BY in_project, next_at)
            + (SELECT count(*) FROM busy b WHERE b.org_id = of_projects.org_id) AS in_tenant
    FROM of_projects WHERE in_project <= sqlc.arg(of_project)::int
), chosen AS (
    SELECT id FROM of_tenants WHERE in_tenant <= sqlc.arg(of_tenant)::int ORDER BY in_tenant, next_at LIMIT sqlc.arg(most)::int
)
UPDATE webhook_deliveries d
SET attempts = attempts + 1, attempted_at = clock_timestamp(), next_at = clock_timestamp() + make_interval(secs => sqlc.arg(lease)::float8),
    leased_until = clock_timestamp() + make_interval(secs => sqlc.arg(lease)::float8)
FROM chosen, webhooks w
WHERE d.id = chosen.id AND w.id = d.webhook_id
RETURNING d.id, d.webhook_id, d.event_id, d.attempts, d.envelope, w.url;

-- name: PutBack :exec
-- An attempt that was not made does not count.
UPDATE webhook_deliveries SET attempts = attempts - 1, leased_until = NULL, next_at = clock_timestamp() + make_interval(secs => sqlc.arg(wait)::float8)
WHERE id = sqlc.arg(id) AND attempts = sqlc.arg(attempts) AND next_at IS NOT NULL;

-- name: Settle :execrows
-- Zero seconds to wait: it is over.
UPDATE webhook_deliveries
SET leased_until = NULL, delivered = sqlc.arg(delivered), answer_code = sqlc.arg(answer_code), answer_ms = sqlc.arg(answer_ms),
    answer_text = sqlc.arg(answer_text), failure = sqlc.arg(failure),
    next_at = CASE WHEN sqlc.arg(over)::boolean THEN NULL ELSE clock_timestamp() + make_interval(secs => sqlc.arg(wait)::float8) END,
    finished_at = CASE WHEN sqlc.arg(over)::boolean THEN clock_timestamp() END
WHERE id = sqlc.arg(id) AND attempts = sqlc.arg(attempts) AND next_at IS NOT NULL;

-- name: NoteSuccess :exec
UPDATE webhooks SET failing_since = NULL, last_delivered_at = clock_timestamp() WHERE id = $1;

-- name: NoteFailure :one
-- Says whether the webhook has only failed for longer than allowed.
UPDATE webhooks SET failing_since = coalesce(failing_since, clock_timestamp()) WHERE id = sqlc.arg(id)
RETURNING (disabled_at IS NULL AND failing_since < clock_timestamp() - make_interval(secs => sqlc.arg(allowed)::float8))::boolean AS given_up;

-- name: CountWaiting :one
-- Counts what a webhook is still to be told, no further than asked for.
SELECT count(*)::integer FROM (
    SELECT 1 FROM webhook_deliveries WHERE webhook_id = sqlc.arg(webhook_id) AND next_at IS NOT NULL LIMIT sqlc.arg(most)::int) AS w;

-- name: GiveUpWaiting :exec
UPDATE webhook_deliveries SET next_at = NULL, leased_until = NULL, finished_at = clock_timestamp(), failure = sqlc.arg(failure)
WHERE webhook_id = sqlc.arg(webhook_id) AND next_at IS NOT NULL;

-- name: CountPrunable :one
SELECT count(*) FROM webhook_deliveries d
WHERE d.finished_at < sqlc.arg(before)::timestamptz
   OR d.created_at < sqlc.arg(before)::timestamptz AND NOT EXISTS (SELECT FROM webhooks w WHERE w.id = d.webhook_id);

-- name: Prune :execrows
DELETE FROM webhook_deliveries WHERE id IN (
    SELECT d.id FROM webhook_deliveries d
    WHERE d.finished_at < sqlc.arg(before)::timestamptz
       OR d.created_at < sqlc.arg(before)::timestamptz AND NOT EXISTS (SELECT FROM webhooks w WHERE w.id = d.webhook_id)
    LIMIT sqlc.arg(batch_size));
