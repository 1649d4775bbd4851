-- name: InsertJobs :exec
-- New jobs wait for their workflow, and for a place where they have none yet.
INSERT INTO jobs (id, family, kind, batch_id, site_id, node_id, subject, status, phase, current_stage, workflow_id, requested_by, correlation_id,
    requested_at, admitted_at, updated_at)
SELECT n.id, sqlc.arg(family)::text, n.kind, sqlc.narg(batch_id)::uuid, NULLIF(n.site_id, '')::uuid, NULLIF(n.node_id, '')::uuid, n.subject,
    sqlc.arg(status)::text, 'waiting', n.stage, n.workflow_id, sqlc.arg(requested_by)::text, sqlc.arg(correlation_id)::text,
    sqlc.arg(requested_at)::timestamptz, sqlc.narg(admitted_at)::timestamptz, sqlc.arg(requested_at)::timestamptz
FROM (SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(kinds)::text[]) AS kind, unnest(sqlc.arg(site_ids)::text[]) AS site_id,
    unnest(sqlc.arg(node_ids)::text[]) AS node_id, unnest(sqlc.arg(subjects)::text[]) AS subject, unnest(sqlc.arg(stages)::text[]) AS stage,
    unnest(sqlc.arg(workflow_ids)::text[]) AS workflow_id) n;

-- name: Claim :exec
-- Fails with job_claims_key if another job that has not ended claims the same.
INSERT INTO job_claims (job_id, kind, key)
SELECT unnest(sqlc.arg(jobs)::uuid[]), unnest(sqlc.arg(kinds)::text[]), unnest(sqlc.arg(keys)::text[])
ON CONFLICT (job_id, kind) DO UPDATE SET key = EXCLUDED.key WHERE job_claims.key <> EXCLUDED.key;

-- name: Lock :execrows
SELECT id FROM jobs WHERE id = $1 FOR NO KEY UPDATE;

-- name: Events :many
SELECT * FROM job_events WHERE job_id = $1 AND seq > $2 ORDER BY seq LIMIT $3;

-- name: LatestEvents :many
SELECT * FROM (SELECT * FROM job_events WHERE job_id = $1 ORDER BY seq DESC LIMIT $2) AS newest ORDER BY seq;

-- name: TypicalSeconds :many
-- The median of how long each stage of a kind of job took from the beginning of
-- the attempt that succeeded, in the jobs that were started last.
WITH newest AS (
    SELECT d.id, d.kind FROM unnest(sqlc.arg(kinds)::text[]) AS k(kind) CROSS JOIN LATERAL (
        SELECT x.id, x.kind FROM jobs x
        WHERE x.family = sqlc.arg(family) AND x.kind = k.kind AND x.started_at IS NOT NULL
          AND (sqlc.narg(site_id)::uuid IS NULL OR x.site_id = sqlc.narg(site_id)::uuid)
        ORDER BY x.id DESC LIMIT sqlc.arg(jobs)) d
)
SELECT n.kind, p.stage, round(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM p.took)::float8)::numeric, 3)::float8 AS seconds
FROM newest n CROSS JOIN LATERAL (
    SELECT e.stage, e.status, e.occurred_at - lag(e.occurred_at) OVER (PARTITION BY e.stage ORDER BY e.seq) AS took
    FROM job_events e WHERE e.job_id = n.id AND e.status IN ('started', 'succeeded')) p
WHERE p.status = 'succeeded' AND p.took IS NOT NULL GROUP BY n.kind, p.stage;

-- name: Unfinished :one
-- Whether the newest attempt at a stage was begun and has not ended.
SELECT COALESCE((SELECT status = 'started' FROM job_events
    WHERE job_id = $1 AND epoch = $2 AND stage = $3 AND status IN ('started', 'succeeded', 'failed', 'skipped', 'compensated')
    ORDER BY seq DESC LIMIT 1), false)::boolean AS unfinished;

-- name: Noticed :one
-- Whether that is what was last observed, or was observed since anything else
-- happened to the job.
SELECT EXISTS (SELECT 1 FROM job_events e WHERE e.job_id = sqlc.arg(job_id) AND e.status = 'observed' AND e.message = sqlc.arg(message)::text
    AND (e.seq = (SELECT max(s.seq) FROM job_events s WHERE s.job_id = sqlc.arg(job_id) AND s.status = 'observed')
      OR e.seq > (SELECT COALESCE(max(h.seq), 0) FROM job_events h WHERE h.job_id = sqlc.arg(job_id) AND h.status <> 'observed')));

-- name: InsertEvent :exec
INSERT INTO job_events (job_id, epoch, stage, attempt, status, message, details, occurred_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: Start :execrows
UPDATE jobs SET status = sqlc.arg(status), phase = 'working', started_at = sqlc.arg(now)::timestamptz,
    admitted_at = COALESCE(admitted_at, sqlc.arg(now)::timestamptz), workflow_run_id = sqlc.arg(workflow_run_id), updated_at = sqlc.arg(now)::timestamptz
WHERE id = sqlc.arg(id) AND phase = 'waiting';

-- name: BeginStage :execrows
-- Takes a stage up. Only the run that the row expects may do that, and the ledger
-- tells only the first time. An attempt that has not ended may be taken up again,
-- but not by a worker that merely goes on from the stage before it. From then on
-- updated_at is the token of whoever took the stage up last: a worker that lost
-- touch holds an older one.
WITH before AS (
    SELECT o.id, o.epoch, o.current_attempt FROM jobs o
    WHERE o.id = sqlc.arg(id) AND o.epoch = sqlc.arg(epoch)
      AND CASE WHEN sqlc.arg(undoes)::boolean THEN o.phase = 'undoing'
          WHEN sqlc.arg(adopts)::boolean THEN o.phase = 'working' AND o.action = ANY(sqlc.arg(adopting)::text[])
          ELSE o.phase = 'working' AND o.action <> ALL(sqlc.arg(adopting)::text[]) AND o.current_stage = sqlc.arg(stage)::text END
      AND (o.current_attempt = sqlc.arg(attempt)::integer - 1 OR NOT sqlc.arg(chained)::boolean AND o.current_attempt = sqlc.arg(attempt)::integer
        AND 'started' = (SELECT e.status FROM job_events e
            WHERE e.job_id = o.id AND e.epoch = o.epoch AND e.stage = sqlc.arg(stage)::text
              AND e.status IN ('started', 'succeeded', 'failed', 'skipped', 'compensated')
            ORDER BY e.seq DESC LIMIT 1))
    FOR NO KEY UPDATE
), told AS (
    INSERT INTO job_events (job_id, epoch, stage, attempt, status, occurred_at)
    SELECT b.id, b.epoch, sqlc.arg(stage)::text, sqlc.arg(attempt)::integer, 'started', sqlc.arg(now)::timestamptz
    FROM before b WHERE b.current_attempt < sqlc.arg(attempt)::integer
)
UPDATE jobs o SET current_attempt = sqlc.arg(attempt)::integer,
    current_takes = CASE WHEN b.current_attempt = sqlc.arg(attempt)::integer THEN o.current_takes + 1 ELSE 1 END, workflow_run_id = sqlc.arg(workflow_run_id)::text,
    stage_started_at = COALESCE(o.stage_started_at, sqlc.arg(now)::timestamptz), updated_at = clock_timestamp()
FROM before b WHERE o.id = b.id;

-- name: Fence :one
SELECT EXISTS (SELECT 1 FROM jobs
    WHERE id = sqlc.arg(id) AND epoch = sqlc.arg(epoch) AND phase IN ('working', 'undoing') AND updated_at = sqlc.arg(token)::timestamptz);

-- name: Save :one
-- Passes the fence and gives a new token. What the family keeps is written by
-- statements that follow in the same transaction and do not look at the fence. So
-- one that was lost must be an error, which undoes them: no job has the epoch 0,
-- and the check jobs_fence says so.
UPDATE jobs SET updated_at = clock_timestamp(),
    epoch = CASE WHEN epoch = sqlc.arg(epoch) AND phase IN ('working', 'undoing') AND updated_at = sqlc.arg(token)::timestamptz THEN epoch ELSE 0 END
WHERE id = sqlc.arg(id) RETURNING updated_at;

-- name: EndStage :execrows
-- Ends an attempt: where the job goes from here and the entry of the ledger, all
-- or nothing. A job that is over claims nothing any more.
WITH before AS (
    SELECT o.id, o.epoch FROM jobs o
    WHERE o.id = sqlc.arg(id) AND o.epoch = sqlc.arg(epoch) AND o.phase IN ('working', 'undoing') AND o.updated_at = sqlc.arg(token)::timestamptz
    FOR NO KEY UPDATE
), told AS (
    INSERT INTO job_events (job_id, epoch, stage, attempt, status, message, details, occurred_at)
    SELECT b.id, b.epoch, sqlc.arg(told_stage)::text, sqlc.arg(attempt)::integer, sqlc.arg(told_status)::text, sqlc.arg(told_message)::text,
        sqlc.arg(told_details)::jsonb, sqlc.arg(now)::timestamptz
    FROM before b WHERE sqlc.arg(told_status)::text <> ''
), freed AS (
    DELETE FROM job_claims c USING before b WHERE c.job_id = b.id AND sqlc.narg(completed_at)::timestamptz IS NOT NULL
)
UPDATE jobs o SET node_id = COALESCE(sqlc.narg(node_id)::uuid, o.node_id),
    status = sqlc.arg(status), phase = sqlc.arg(phase), current_stage = sqlc.arg(next_stage)::text, current_attempt = sqlc.arg(next_attempt)::integer, current_takes = 0,
    stage_started_at = CASE WHEN sqlc.arg(same_stage)::boolean THEN o.stage_started_at END,
    action = sqlc.arg(action), adopted = sqlc.arg(adopted),
    failure_class = sqlc.arg(failure_class), error_code = sqlc.arg(error_code), error_message = sqlc.arg(error_message),
    error_remedy = sqlc.arg(error_remedy), error_details = sqlc.arg(error_details),
    parked_at = sqlc.narg(parked_at)::timestamptz, completed_at = sqlc.narg(completed_at)::timestamptz, updated_at = clock_timestamp()
FROM before b WHERE o.id = b.id;

-- name: Act :execrows
-- What an operator decided about a job whose row is locked: whatever runs for it
-- is superseded.
WITH freed AS (
    DELETE FROM job_claims c WHERE c.job_id = sqlc.arg(id) AND sqlc.narg(completed_at)::timestamptz IS NOT NULL
)
UPDATE jobs SET epoch = epoch + 1, status = sqlc.arg(status), phase = sqlc.arg(phase), current_stage = sqlc.arg(current_stage), current_attempt = 0,
    stage_started_at = NULL, action = sqlc.arg(action), node_id = COALESCE(sqlc.narg(node_id)::uuid, node_id),
    failure_class = sqlc.arg(failure_class), error_code = sqlc.arg(error_code), error_message = sqlc.arg(error_message),
    error_remedy = sqlc.arg(error_remedy), error_details = sqlc.arg(error_details),
    parked_at = sqlc.narg(parked_at)::timestamptz, completed_at = sqlc.narg(completed_at)::timestamptz, updated_at = clock_timestamp()
WHERE id = sqlc.arg(id);

-- name: Standing :many
-- Jobs that have not ended, from a partial index: those that have are not counted,
-- however many there are.
SELECT j.family, COALESCE(s.name, '')::text AS site, j.status, j.current_stage AS stage, j.failure_class, count(*) AS jobs,
    COALESCE(EXTRACT(epoch FROM clock_timestamp() - min(j.parked_at)), 0)::float8 AS parked
FROM jobs j LEFT JOIN maas_sites s ON s.id = j.site_id WHERE j.completed_at IS NULL
GROUP BY 1, 2, 3, 4, 5;

-- name: InsertBatch :exec
INSERT INTO job_batches (id, family, total, max_parallel, max_failures, reason, requested_by, correlation_id, requested_at)
VALUES (sqlc.arg(id), sqlc.arg(family), sqlc.arg(total), sqlc.narg(max_parallel), sqlc.narg(max_failures), sqlc.arg(reason), sqlc.arg(requested_by),
    sqlc.arg(correlation_id), sqlc.arg(requested_at));

-- name: LockBatch :one
SELECT * FROM job_batches WHERE id = $1 AND family = $2 FOR NO KEY UPDATE;

-- name: SetBatch :exec
UPDATE job_batches SET paused_at = sqlc.narg(paused_at), cancelled_at = sqlc.narg(cancelled_at), max_failures = sqlc.narg(max_failures) WHERE id = sqlc.arg(id);

-- name: BatchCounts :many
SELECT batch_id, status, count(*)::integer AS number FROM jobs WHERE batch_id = ANY(sqlc.arg(ids)::uuid[]) GROUP BY batch_id, status;

-- name: LockPlaces :exec
SELECT pg_advisory_xact_lock(hashtextextended('places of ' || sqlc.arg(site_id)::text, 0));

-- name: Places :one
-- A place within the limit of a site is held by every job that runs, that is being
-- undone, or that was admitted and has not started.
SELECT s.max_parallel AS site_limit, count(j.id)::integer AS of_site,
    (count(j.id) FILTER (WHERE j.batch_id = sqlc.narg(batch_id)::uuid))::integer AS of_batch
FROM maas_sites s LEFT JOIN jobs j ON j.site_id = s.id AND j.completed_at IS NULL AND j.family = sqlc.arg(family)
  AND (j.phase IN ('working', 'undoing') OR j.phase = 'waiting' AND j.admitted_at IS NOT NULL)
WHERE s.id = sqlc.arg(site_id) GROUP BY s.id;

-- name: HeldOfBatch :one
SELECT count(*)::integer FROM jobs WHERE batch_id = sqlc.arg(batch_id)
  AND (phase IN ('working', 'undoing') OR phase = 'waiting' AND admitted_at IS NOT NULL);

-- name: AdmitSingles :many
-- Gives places of a site to jobs that were asked for on their own, oldest first.
UPDATE jobs SET admitted_at = sqlc.arg(now)::timestamptz, updated_at = sqlc.arg(now)::timestamptz
WHERE id IN (SELECT w.id FROM jobs w
    WHERE w.family = sqlc.arg(family) AND w.site_id = sqlc.arg(site_id) AND w.phase = 'waiting' AND w.completed_at IS NULL AND w.admitted_at IS NULL AND w.batch_id IS NULL
    ORDER BY w.requested_at, w.id LIMIT sqlc.arg(most) FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id;

-- name: AdmitOfBatch :many
-- Gives places to jobs of a batch that wait for one, in their order.
WITH chosen AS MATERIALIZED ( -- one that is cancelled meanwhile leaves its turn to the next
    SELECT w.id FROM jobs w
    WHERE w.batch_id = sqlc.arg(batch_id) AND w.phase = 'waiting' AND w.admitted_at IS NULL
    ORDER BY w.id LIMIT sqlc.arg(most) FOR NO KEY UPDATE
)
UPDATE jobs j SET admitted_at = sqlc.arg(now)::timestamptz, updated_at = sqlc.arg(now)::timestamptz
FROM chosen WHERE j.id = chosen.id RETURNING j.id;

-- name: CancelWaiting :many
-- Ends the jobs of a batch that have not begun.
WITH before AS (
    SELECT o.id, o.epoch, o.current_stage FROM jobs o
    WHERE o.batch_id = sqlc.arg(batch_id) AND o.phase = 'waiting' ORDER BY o.id FOR NO KEY UPDATE
), told AS (
    INSERT INTO job_events (job_id, epoch, stage, attempt, status, message, details, occurred_at)
    SELECT b.id, b.epoch + 1, b.current_stage, 0, 'action', sqlc.arg(message)::text, sqlc.arg(details)::jsonb, sqlc.arg(now)::timestamptz FROM before b
), freed AS (
    DELETE FROM job_claims c USING before b WHERE c.job_id = b.id
)
UPDATE jobs o SET status = sqlc.arg(status), phase = 'over', epoch = o.epoch + 1, action = sqlc.arg(action), completed_at = sqlc.arg(now)::timestamptz,
    updated_at = sqlc.arg(now)::timestamptz
FROM before b WHERE o.id = b.id RETURNING o.id;
