-- Tests put jobs into the states that they are about by writing the views that
-- show them whole. The product cannot: nothing grants its role more than reading.

CREATE FUNCTION test_phase(status text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE status WHEN 'pending' THEN 'waiting' WHEN 'running' THEN 'working' WHEN 'compensating' THEN 'undoing'
        WHEN 'failed_retryable' THEN 'parked' WHEN 'failed_manual_intervention' THEN 'parked' ELSE 'over' END
$$;

-- What a new row has that the test does not give.
CREATE FUNCTION test_defaults() RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT jsonb_build_object('status', 'pending', 'current_attempt', 0, 'current_takes', 0, 'epoch', 1, 'action', '', 'adopted', false, 'failure_class', '',
        'error_code', '', 'error_message', '', 'error_remedy', '', 'error_details', '{}'::jsonb, 'workflow_run_id', '', 'kind', '',
        'requested_at', clock_timestamp(), 'updated_at', clock_timestamp(),
        'pxe_mac', '', 'maas_system_id', '', 'ipmi_ip', '', 'initialize_disks', false, 'facts', '{}'::jsonb, 'observed_status', '', 'observed_power', '',
        'observed_ips', '[]'::jsonb, 'erase', 'none', 'storage_cleanup', 'none', 'plan_hash', '', 'origin', '', 'overrides', '[]'::jsonb,
        'follow_ups', '[]'::jsonb, 'requested_by_name', '', 'outcome', '')
$$;

CREATE FUNCTION test_write_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of     text := TG_ARGV[0];
    given  jsonb := test_defaults() || jsonb_strip_nulls(to_jsonb(NEW));
    job    jobs;
BEGIN
    given := given || jsonb_build_object('family', of, 'subject', NEW.hostname, 'job_id', NEW.id, 'phase', test_phase(given ->> 'status'));
    IF given ? 'mode' THEN
        given := given || jsonb_build_object('kind', given ->> 'mode');
    END IF;
    given := given || jsonb_build_object('site_place', given ->> 'site_id' IS NOT NULL AND (of = 'onboarding' OR given ->> 'mode' IN ('reimage', 'full_decommission')));
    job := jsonb_populate_record(NULL::jobs, given);
    IF TG_OP = 'INSERT' THEN
        INSERT INTO jobs SELECT job.*;
        IF of = 'onboarding' THEN
            INSERT INTO onboarding_jobs SELECT (jsonb_populate_record(NULL::onboarding_jobs, given)).*;
        ELSE
            INSERT INTO decommission_jobs SELECT (jsonb_populate_record(NULL::decommission_jobs, given)).*;
        END IF;
    ELSE
        UPDATE jobs SET batch_id = job.batch_id, site_id = job.site_id, node_id = job.node_id, subject = job.subject, status = job.status, phase = job.phase,
            current_stage = job.current_stage, current_attempt = job.current_attempt, current_takes = job.current_takes, epoch = job.epoch, action = job.action,
            adopted = job.adopted, failure_class = job.failure_class, error_code = job.error_code, error_message = job.error_message,
            error_remedy = job.error_remedy, error_details = job.error_details, workflow_id = job.workflow_id, workflow_run_id = job.workflow_run_id,
            requested_at = job.requested_at, admitted_at = job.admitted_at, started_at = job.started_at, stage_started_at = job.stage_started_at,
            parked_at = job.parked_at, completed_at = job.completed_at, updated_at = job.updated_at
        WHERE id = NEW.id;
        IF of = 'onboarding' THEN
            UPDATE onboarding_jobs SET maas_system_id = NEW.maas_system_id, pxe_mac = NEW.pxe_mac, ipmi_ip = NEW.ipmi_ip, facts = NEW.facts,
                observed_status = NEW.observed_status, observed_power = NEW.observed_power, observed_ips = NEW.observed_ips,
                observed_at = NEW.observed_at, observed_since = NEW.observed_since WHERE job_id = NEW.id;
        ELSE
            UPDATE decommission_jobs SET maas_system_id = NEW.maas_system_id, pxe_mac = NEW.pxe_mac, ipmi_ip = NEW.ipmi_ip, facts = NEW.facts,
                observed_status = NEW.observed_status, observed_power = NEW.observed_power, observed_ips = NEW.observed_ips,
                observed_at = NEW.observed_at, observed_since = NEW.observed_since WHERE job_id = NEW.id;
        END IF;
    END IF;
    DELETE FROM job_claims WHERE job_id = NEW.id;
    IF job.completed_at IS NULL AND of = 'onboarding' THEN
        INSERT INTO job_claims (job_id, kind, key) VALUES (NEW.id, 'onboarding.hostname', NEW.site_id || ' ' || NEW.hostname),
            (NEW.id, 'onboarding.bmc', NEW.site_id || ' ' || (given ->> 'ipmi_ip')),
            (NEW.id, 'onboarding.machine', CASE WHEN given ->> 'maas_system_id' <> '' THEN NEW.site_id || ' ' || (given ->> 'maas_system_id') ELSE '' END);
    ELSIF job.completed_at IS NULL THEN
        INSERT INTO job_claims (job_id, kind, key) VALUES (NEW.id, 'decommission.node', NEW.node_id::text);
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER test_write INSTEAD OF INSERT OR UPDATE ON node_onboardings FOR EACH ROW EXECUTE FUNCTION test_write_job('onboarding');
CREATE TRIGGER test_write INSTEAD OF INSERT OR UPDATE ON node_decommissions FOR EACH ROW EXECUTE FUNCTION test_write_job('decommission');
