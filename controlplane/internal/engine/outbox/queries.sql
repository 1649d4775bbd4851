-- name: Lock :exec
-- The locks last until the end of the transaction, so that within an aggregate
-- the order of seq is the order of commits.
SELECT count(pg_advisory_xact_lock(key)) FROM unnest(sqlc.arg(keys)::bigint[]) AS key;

-- name: Insert :exec
INSERT INTO outbox_events (id, destination, partition, aggregate_kind, aggregate_id, event_type, envelope,
                           org_id, project_id, correlation_id, trace_parent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: InsertInTurn :exec
-- Lock and Insert of one row in one statement. The number of the row is taken
-- when the lock is held, because only then there is a row of turn to insert.
WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(sqlc.arg(key)::bigint))
INSERT INTO outbox_events (id, destination, partition, aggregate_kind, aggregate_id, event_type, envelope,
                           org_id, project_id, correlation_id, trace_parent)
SELECT sqlc.arg(id), sqlc.arg(destination), sqlc.arg(partition), sqlc.arg(aggregate_kind), sqlc.arg(aggregate_id),
       sqlc.arg(event_type), sqlc.arg(envelope), sqlc.narg(org_id), sqlc.narg(project_id), sqlc.arg(correlation_id),
       sqlc.arg(trace_parent)
FROM turn;

-- name: InsertAhead :exec
-- InsertInTurn of a message that may turn out to be needless. It looks as if it waited for its second attempt, so that it
-- is delivered when its time comes, and those behind it wait for it.
WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(sqlc.arg(key)::bigint))
INSERT INTO outbox_events (id, destination, partition, aggregate_kind, aggregate_id, event_type, envelope, correlation_id, trace_parent,
                           attempt_count, next_attempt_at)
SELECT sqlc.arg(id), sqlc.arg(destination), sqlc.arg(partition), sqlc.arg(aggregate_kind), sqlc.arg(aggregate_id),
       sqlc.arg(event_type), sqlc.arg(envelope), sqlc.arg(correlation_id), sqlc.arg(trace_parent),
       1, clock_timestamp() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
FROM turn;

-- name: PutOff :exec
-- Changes when messages are delivered that InsertAhead added. One that is overdue is being delivered.
UPDATE outbox_events SET next_attempt_at = clock_timestamp() + make_interval(secs => sqlc.arg(lease_seconds)::float8)
WHERE id = ANY (sqlc.arg(ids)::uuid[]) AND status = 'pending' AND attempt_count = 1 AND next_attempt_at > clock_timestamp();

-- name: Spare :exec
-- Deletes messages of InsertAhead that nobody needs any more.
DELETE FROM outbox_events WHERE id = ANY (sqlc.arg(ids)::uuid[]) AND status = 'pending';

-- name: ClaimPartition :one
SELECT p.partition FROM outbox_partitions p
WHERE p.destination = sqlc.arg(destination)
  AND EXISTS (
    SELECT FROM outbox_events e
    WHERE e.destination = p.destination AND e.partition = p.partition AND e.status = 'pending'
      AND e.next_attempt_at <= statement_timestamp()
      AND NOT EXISTS (
        SELECT FROM outbox_events w
        WHERE w.status = 'pending' AND w.attempt_count > 0 AND w.destination = e.destination
          AND w.aggregate_kind = e.aggregate_kind AND w.aggregate_id = e.aggregate_id
          AND w.seq < e.seq AND w.next_attempt_at > statement_timestamp()))
ORDER BY random()
LIMIT 1
FOR UPDATE OF p SKIP LOCKED;

-- name: DueEvents :many
-- statement_timestamp() gives all rows the same moment. Otherwise an event
-- could come due after it was read and before its successor is read.
SELECT e.* FROM outbox_events e
WHERE e.destination = sqlc.arg(destination) AND e.partition = sqlc.arg(partition) AND e.status = 'pending'
  AND e.next_attempt_at <= statement_timestamp()
  AND NOT EXISTS (
    SELECT FROM outbox_events w
    WHERE w.status = 'pending' AND w.attempt_count > 0 AND w.destination = e.destination
      AND w.aggregate_kind = e.aggregate_kind AND w.aggregate_id = e.aggregate_id
      AND w.seq < e.seq AND w.next_attempt_at > statement_timestamp())
ORDER BY e.seq
LIMIT sqlc.arg(batch_size);

-- name: MarkPublished :exec
UPDATE outbox_events
SET status = sqlc.arg(status), attempt_count = attempt_count + 1, last_error = '', finished_at = clock_timestamp()
WHERE seq = ANY (sqlc.arg(seqs)::bigint[]);

-- name: MarkAttempt :exec
UPDATE outbox_events
SET status = sqlc.arg(status), attempt_count = attempt_count + 1, last_error = sqlc.arg(last_error),
    next_attempt_at = clock_timestamp() + make_interval(secs => sqlc.arg(delay_seconds)::float8)
WHERE seq = sqlc.arg(seq);

-- name: Outlook :one
-- What a relay that found nothing to claim may expect: work that another relay
-- holds, and how long until the next waiting event comes due.
SELECT EXISTS (
         SELECT FROM outbox_events f
         WHERE f.destination = sqlc.arg(destination) AND f.status = 'pending' AND f.attempt_count = 0)::boolean AS held_elsewhere,
       COALESCE((
         SELECT EXTRACT(EPOCH FROM min(w.next_attempt_at) - statement_timestamp())
         FROM outbox_events w
         WHERE w.destination = sqlc.arg(destination) AND w.status = 'pending' AND w.attempt_count > 0), 'infinity')::float8 AS due_in_seconds;

-- name: CountFinished :one
SELECT count(*) FROM outbox_events WHERE status IN ('published', 'discarded') AND finished_at < sqlc.arg(before)::timestamptz;

-- name: DeleteFinished :execrows
DELETE FROM outbox_events WHERE seq IN (
    SELECT seq FROM outbox_events
    WHERE status IN ('published', 'discarded') AND finished_at < sqlc.arg(before)::timestamptz
    ORDER BY finished_at
    LIMIT sqlc.arg(batch_size)
    FOR UPDATE SKIP LOCKED);

-- name: ListFailed :many
SELECT * FROM outbox_events
WHERE status = 'failed' AND (sqlc.narg(before)::bigint IS NULL OR seq < sqlc.narg(before))
  AND NOT EXISTS (SELECT FROM unnest(sqlc.arg(hidden)::text[]) AS prefix WHERE starts_with(event_type, prefix))
ORDER BY seq DESC
LIMIT sqlc.arg(page_size);

-- name: LockEvent :one
SELECT * FROM outbox_events WHERE id = $1 FOR UPDATE;

-- name: Requeue :one
UPDATE outbox_events
SET status = sqlc.arg(status), attempt_count = 0, next_attempt_at = clock_timestamp()
WHERE seq = sqlc.arg(seq)
RETURNING *;

-- name: Discard :one
UPDATE outbox_events
SET status = sqlc.arg(status), finished_at = clock_timestamp()
WHERE seq = sqlc.arg(seq)
RETURNING *;

-- name: Stats :many
SELECT d.destination,
       (SELECT count(*) FROM outbox_events e
        WHERE e.destination = d.destination AND e.status = 'pending')::bigint AS pending,
       (SELECT count(*) FROM outbox_events e
        WHERE e.destination = d.destination AND e.status = 'failed')::bigint AS failed,
       COALESCE((SELECT EXTRACT(EPOCH FROM statement_timestamp() - min(e.created_at)) FROM outbox_events e
        WHERE e.destination = d.destination AND e.status = 'pending'), 0)::float8 AS oldest_pending_seconds
FROM (SELECT DISTINCT destination FROM outbox_partitions) d
ORDER BY d.destination;

-- name: Undelivered :one
SELECT (EXISTS (SELECT FROM outbox_events p WHERE p.destination = 'nats' AND p.aggregate_kind = sqlc.arg(aggregate_kind)
                 AND p.aggregate_id = sqlc.arg(aggregate_id) AND p.status = 'pending')
    OR EXISTS (SELECT FROM outbox_events f WHERE f.destination = 'nats' AND f.aggregate_kind = sqlc.arg(aggregate_kind)
                 AND f.aggregate_id = sqlc.arg(aggregate_id) AND f.status = 'failed'))::boolean AS undelivered;
