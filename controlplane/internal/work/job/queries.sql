-- name: InsertJobs :exec
-- New jobs wait for a place, and then for their workflow.
INSERT INTO jobs (id, family, kind, batch_id, site_id, site_place, node_id, subject, status, phase, current_stage, workflow_id, requested_by,
    correlation_id, requested_at, updated_at)
SELECT n.id, sqlc.arg(family)::text, n.kind, sqlc.narg(batch_id)::uuid, NULLIF(n.site_id, '')::uuid, n.site_place, NULLIF(n.node_id, '')::uuid, n.subject,
    sqlc.arg(status)::text, 'waiting', n.stage, n.workflow_id, sqlc.arg(requested_by)::text, sqlc.arg(correlation_id)::text,
    sqlc.arg(requested_at)::timestamptz, sqlc.arg(requested_at)::timestamptz
FROM (SELECT unnest(sqlc.arg(ids)::uuid[]) AS id, unnest(sqlc.arg(kinds)::text[]) AS kind, unnest(sqlc.arg(site_ids)::text[]) AS site_id,
    unnest(sqlc.arg(site_places)::boolean[]) AS site_place, unnest(sqlc.arg(node_ids)::text[]) AS node_id, unnest(sqlc.arg(subjects)::text[]) AS subject, unnest(sqlc.arg(stages)::text[]) AS stage,
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

-- name: Batches :many
-- The batches of a family, newest first: those that are named, or a page of all.
-- Places is how many jobs of it may hold one at once; 0: as many as there are.
SELECT sqlc.embed(b), COALESCE(l.max_parallel, 0)::integer AS places FROM job_batches b JOIN job_batch_limits l ON l.batch_id = b.id
WHERE b.family = sqlc.arg(family) AND (cardinality(sqlc.arg(ids)::uuid[]) = 0 OR b.id = ANY(sqlc.arg(ids)::uuid[]))
  AND (sqlc.arg(after)::uuid = '00000000-0000-0000-0000-000000000000' OR b.id < sqlc.arg(after)::uuid)
ORDER BY b.id DESC LIMIT sqlc.arg(page_size);

-- name: SetBatch :exec
UPDATE job_batches SET paused_at = sqlc.narg(paused_at), paused_by = sqlc.arg(paused_by), paused_by_name = sqlc.arg(paused_by_name),
    pause_reason = sqlc.arg(pause_reason), halted = sqlc.arg(halted), cancelled_at = sqlc.narg(cancelled_at), max_failures = sqlc.narg(max_failures)
WHERE id = sqlc.arg(id);

-- name: BatchCounts :many
SELECT batch_id, status, count(*)::integer AS number FROM jobs WHERE batch_id = ANY(sqlc.arg(ids)::uuid[]) GROUP BY batch_id, status;

-- name: LockPlaces :exec
-- Makes a transaction the only one that hands out places, of all sites and batches.
SELECT pg_advisory_xact_lock(hashtextextended('places', 0));

-- name: Halt :exec
-- Pauses the batches of a family of which too many jobs did not reach their goal,
-- if jobs of them wait: one batch, or all.
UPDATE job_batches b SET paused_at = sqlc.arg(now)::timestamptz, halted = true,
    pause_reason = f.failures || ' failed or were cancelled; the limit is ' || b.max_failures
FROM (SELECT j.batch_id, count(*) AS failures FROM jobs j JOIN job_batches x ON x.id = j.batch_id
      WHERE x.family = sqlc.arg(family) AND (sqlc.narg(batch_id)::uuid IS NULL OR x.id = sqlc.narg(batch_id)::uuid)
        AND x.max_failures IS NOT NULL AND x.paused_at IS NULL AND x.cancelled_at IS NULL
        AND (j.phase = 'parked' OR j.status = ANY(sqlc.arg(missed)::text[]))
        AND EXISTS (SELECT 1 FROM jobs w WHERE w.batch_id = x.id AND w.phase = 'waiting' AND w.admitted_at IS NULL)
      GROUP BY j.batch_id) f
WHERE f.batch_id = b.id AND f.failures > b.max_failures;

-- name: Admit :many
-- Gives free places to jobs that wait at a site, in a batch, or are named; to all
-- that wait where everything is set. A job asked for on its own counts as a day
-- older than it is. A job that somebody is just changing is passed over: whoever
-- does that hands places on afterwards. One call may leave places free where sites
-- and batches both limit; the caller repeats it until nothing is admitted.
WITH waiting AS MATERIALIZED (
    SELECT w.id, w.batch_id, CASE WHEN w.site_place THEN w.site_id END AS site_id,
        CASE WHEN w.batch_id IS NULL THEN w.requested_at - interval '1 day' ELSE w.requested_at END AS turn
    FROM jobs w LEFT JOIN job_batches b ON b.id = w.batch_id
    WHERE w.phase = 'waiting' AND w.admitted_at IS NULL AND w.family = ANY(sqlc.arg(families)::text[])
      AND b.paused_at IS NULL AND b.cancelled_at IS NULL
      AND (sqlc.arg(everything)::boolean OR w.id = ANY(sqlc.arg(ids)::uuid[]) OR w.batch_id = sqlc.narg(batch_id)::uuid OR w.site_id = sqlc.narg(site_id)::uuid)
), free_of_sites AS MATERIALIZED (
    SELECT m.id, m.max_parallel - (SELECT count(*) FROM job_places p WHERE p.site_id = m.id AND p.site_place) AS free
    FROM maas_sites m WHERE m.id IN (SELECT DISTINCT x.site_id FROM waiting x)
), free_of_batches AS MATERIALIZED (
    SELECT l.batch_id, l.max_parallel - (SELECT count(*) FROM job_places p WHERE p.batch_id = l.batch_id) AS free
    FROM job_batch_limits l WHERE l.batch_id IN (SELECT DISTINCT x.batch_id FROM waiting x)
), of_batches AS (
    SELECT w.*, s.free AS site_free, row_number() OVER (PARTITION BY w.batch_id ORDER BY w.turn, w.id) AS number, b.free AS batch_free
    FROM waiting w LEFT JOIN free_of_sites s ON s.id = w.site_id LEFT JOIN free_of_batches b ON b.batch_id = w.batch_id
    WHERE COALESCE(s.free, 1) > 0
), of_sites AS (
    SELECT o.id, o.turn, o.site_free, row_number() OVER (PARTITION BY o.site_id ORDER BY o.turn, o.id) AS number
    FROM of_batches o WHERE o.batch_free IS NULL OR o.number <= o.batch_free
), chosen AS MATERIALIZED (
    SELECT j.id FROM jobs j JOIN of_sites o ON o.id = j.id
    WHERE (o.site_free IS NULL OR o.number <= o.site_free) AND j.phase = 'waiting' AND j.admitted_at IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs j SET admitted_at = sqlc.arg(now)::timestamptz, updated_at = sqlc.arg(now)::timestamptz FROM chosen c WHERE j.id = c.id
RETURNING j.id, j.family, j.batch_id, j.site_id, j.subject, j.status, j.current_stage, j.workflow_id;

-- name: AdmitFree :many
-- Begins those of the named jobs that need no place: neither a batch nor a site
-- limits them.
UPDATE jobs j SET admitted_at = sqlc.arg(now)::timestamptz, updated_at = sqlc.arg(now)::timestamptz
WHERE j.id = ANY(sqlc.arg(ids)::uuid[]) AND j.batch_id IS NULL AND NOT j.site_place AND j.phase = 'waiting' AND j.admitted_at IS NULL
  AND j.family = ANY(sqlc.arg(families)::text[])
RETURNING j.id, j.family, j.batch_id, j.site_id, j.subject, j.status, j.current_stage, j.workflow_id;

-- name: HasSitePlace :one
-- Whether a job takes a place of its site while it is in work.
SELECT site_place FROM jobs WHERE id = sqlc.arg(id);

-- name: NotBegun :many
-- Jobs that have had a place for long and that no workflow has begun.
SELECT j.id, j.family, j.batch_id, j.site_id, j.subject, j.status, j.current_stage, j.workflow_id FROM jobs j
WHERE j.completed_at IS NULL AND j.phase = 'waiting' AND j.admitted_at < sqlc.arg(before)::timestamptz AND j.family = ANY(sqlc.arg(families)::text[])
ORDER BY j.id;

-- name: Queue :one
-- What a job that waits for a place waits in.
SELECT COALESCE(s.name, '')::text AS site, COALESCE(s.max_parallel, 0)::integer AS site_limit, l.max_parallel AS batch_limit,
    (SELECT count(*) FROM job_places p WHERE p.batch_id = j.batch_id)::integer AS of_batch
FROM jobs j LEFT JOIN maas_sites s ON s.id = j.site_id AND j.site_place LEFT JOIN job_batch_limits l ON l.batch_id = j.batch_id
WHERE j.id = sqlc.arg(id);

-- name: HoldersAtSite :many
-- How many places of a site the jobs of each family hold.
SELECT p.family, count(*)::integer AS held FROM job_places p WHERE p.site_id = sqlc.arg(site_id)::uuid AND p.site_place GROUP BY p.family ORDER BY p.family;

-- name: SiteLimit :one
SELECT max_parallel FROM maas_sites WHERE id = sqlc.arg(site_id)::uuid;

-- name: LiveOfBatch :many
SELECT id FROM jobs WHERE batch_id = sqlc.arg(batch_id) AND completed_at IS NULL ORDER BY id;

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

-- name: CountPrunable :one
SELECT count(*) FROM job_events_prunable p WHERE p.completed_at < sqlc.arg(before)::timestamptz
  AND (p.node_id IS NULL OR (SELECT count(*) FROM (SELECT FROM jobs n WHERE n.node_id = p.node_id AND n.id > p.job_id
    LIMIT sqlc.arg(keep)::int) newer) >= sqlc.arg(keep)::int);

-- name: Prune :execrows
DELETE FROM job_events WHERE seq IN (
    SELECT p.seq FROM job_events_prunable p WHERE p.completed_at < sqlc.arg(before)::timestamptz
      AND (p.node_id IS NULL OR (SELECT count(*) FROM (SELECT FROM jobs n WHERE n.node_id = p.node_id AND n.id > p.job_id
        LIMIT sqlc.arg(keep)::int) newer) >= sqlc.arg(keep)::int)
    ORDER BY p.completed_at LIMIT sqlc.arg(batch)::int);
