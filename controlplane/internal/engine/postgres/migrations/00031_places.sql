-- +goose Up
-- Batches of all families are decided about in one way: places of sites and of
-- batches, pauses, and the maximum of failures.

ALTER TABLE jobs ADD COLUMN site_place boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN jobs.site_place IS 'Whether it takes a place of its site while it is in work, because it uses the MAAS or the BMCs of the site.';
UPDATE jobs SET site_place = true
WHERE family = 'onboarding' OR family = 'decommission' AND site_id IS NOT NULL AND kind IN ('reimage', 'full_decommission');
ALTER TABLE jobs ADD CONSTRAINT jobs_site_place CHECK (site_id IS NOT NULL OR NOT site_place);
CREATE INDEX jobs_waiting ON jobs (requested_at, id) WHERE phase = 'waiting' AND admitted_at IS NULL;

ALTER TABLE job_batches ADD COLUMN paused_by text NOT NULL DEFAULT '', ADD COLUMN paused_by_name text NOT NULL DEFAULT '',
    ADD COLUMN pause_reason text NOT NULL DEFAULT '', ADD COLUMN halted boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT job_batches_halted CHECK (paused_at IS NOT NULL OR NOT halted);
COMMENT ON COLUMN job_batches.paused_at IS 'Since when no further job of it is begun; null: it is not paused.';
COMMENT ON COLUMN job_batches.halted IS 'Whether the control plane paused it, because more than max_failures did not reach their goal.';

-- Batches that the version before had stopped for their failures stay stopped.
UPDATE job_batches b SET paused_at = clock_timestamp(), halted = true,
    pause_reason = f.failures || ' failed or were cancelled, and at most ' || b.max_failures || ' may'
FROM (SELECT batch_id, count(*) FILTER (WHERE phase = 'parked' OR status = 'cancelled') AS failures,
          count(*) FILTER (WHERE phase = 'waiting' AND admitted_at IS NULL) AS waiting
      FROM jobs WHERE batch_id IS NOT NULL GROUP BY batch_id) f
WHERE f.batch_id = b.id AND b.paused_at IS NULL AND b.cancelled_at IS NULL AND f.waiting > 0 AND f.failures > b.max_failures;

-- The jobs that hold a place of their batch and, where site_place is set, of their
-- site: they run, are being undone, or were admitted and have not started.
CREATE VIEW job_places AS
SELECT id, family, batch_id, site_id, site_place FROM jobs
WHERE completed_at IS NULL AND (phase IN ('working', 'undoing') OR phase = 'waiting' AND admitted_at IS NOT NULL);

-- How many jobs of a batch may hold a place at once; null: as many as there are.
-- A batch of onboardings without a number of its own goes by its profile.
CREATE VIEW job_batch_limits AS
SELECT b.id AS batch_id, COALESCE(b.max_parallel, p.batch_max_parallel) AS max_parallel
FROM job_batches b LEFT JOIN onboarding_batches o ON o.batch_id = b.id LEFT JOIN maas_site_profiles p ON p.id = o.profile_id;

GRANT SELECT ON job_places, job_batch_limits TO gpuaas_app;
