-- +goose Up
-- New profiles park where less would be done than was asked for; those that exist
-- keep what they do.
ALTER TABLE maas_site_profiles
    ALTER COLUMN release_fallback_no_erase SET DEFAULT false,
    ADD COLUMN gpu_scrub text NOT NULL DEFAULT 'if_present'
        CONSTRAINT maas_site_profiles_gpu_scrub CHECK (gpu_scrub IN ('required', 'if_present')),
    ADD COLUMN agent_timeout_seconds integer NOT NULL DEFAULT 600
        CONSTRAINT maas_site_profiles_agent_timeout CHECK (agent_timeout_seconds BETWEEN 60 AND 86400);
ALTER TABLE maas_site_profiles ALTER COLUMN gpu_scrub SET DEFAULT 'required';
COMMENT ON COLUMN maas_site_profiles.gpu_scrub IS 'What becomes of a node on which no GPU is seen although its SKU has some.';
COMMENT ON COLUMN maas_site_profiles.agent_timeout_seconds IS 'How long a task of a turnover may wait for its agent to fetch it.';

-- A decommission that reached its goal says whether all of it was done.
ALTER TABLE decommission_jobs ADD COLUMN outcome text NOT NULL DEFAULT ''
    CONSTRAINT decommission_jobs_outcome CHECK (outcome IN ('', 'clean', 'with_gaps'));
COMMENT ON COLUMN decommission_jobs.outcome IS 'Of one that is completed or reconciled: with_gaps where less was done than was asked for; empty: it has not reached its goal.';
UPDATE decommission_jobs d SET outcome = CASE
    WHEN d.overrides <> '[]' OR d.follow_ups <> '[]' OR COALESCE((d.facts #>> '{release,fell_back}')::boolean, false)
      OR EXISTS (SELECT FROM node_decommission_evidence e JOIN nodes n ON n.id = j.node_id
        WHERE e.decommission_id = d.job_id AND e.kind = 'gpu_scrub' AND e.evidence #>> '{output,outcome}' = 'not_applicable' AND n.gpus_total > 0)
    THEN 'with_gaps' ELSE 'clean' END
FROM jobs j WHERE j.id = d.job_id AND j.status IN ('completed', 'reconciled');
CREATE INDEX decommission_jobs_with_gaps ON decommission_jobs (job_id) WHERE outcome = 'with_gaps';

CREATE OR REPLACE VIEW node_decommissions AS
SELECT j.id, j.batch_id, j.node_id, j.site_id, d.profile_id, j.subject AS hostname, d.ipmi_ip, d.pxe_mac, d.maas_system_id,
    j.kind AS mode, d.erase, d.storage_cleanup, d.reason, d.plan_hash, d.origin, d.overrides, d.follow_ups,
    j.status::job_status AS status, j.current_stage, j.current_attempt, j.current_takes, j.epoch, j.action, j.adopted,
    j.failure_class, j.error_code, j.error_message, j.error_remedy, j.error_details, d.facts,
    d.observed_status, d.observed_power, d.observed_ips, d.observed_at, d.observed_since,
    j.workflow_id, j.workflow_run_id, j.requested_by, d.requested_by_name, j.correlation_id, j.requested_at, j.admitted_at, j.started_at, j.stage_started_at,
    j.parked_at, j.completed_at, j.updated_at, d.outcome
FROM jobs j JOIN decommission_jobs d ON d.job_id = j.id WHERE j.family = 'decommission';
