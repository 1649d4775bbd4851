package job_test

import (
	"encoding/json"
	"maps"
	"testing"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/work/job"
)

// legacy makes jobs of both families in every status, as the schema before had
// them: alone and in batches, with ledgers whose entries take turns.
const legacy = `
INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
VALUES ('00000000-0000-7000-8000-000000000001', 'dc1', 'eu-1', 'http://maas/MAAS', 'eth0', 0, 'eth0', decode(repeat('00', 16), 'hex'));
INSERT INTO maas_site_profiles (id, site_id, name) VALUES ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 'default');
INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
SELECT gen_random_uuid(), 'active', 'd' || s.n, '', (SELECT min(id) FROM skus), 8, 'eu-1', 'maas' FROM generate_series(1, 8) AS s(n);
INSERT INTO node_onboarding_batches (id, site_id, profile_id, sku_id, total, requested_by, correlation_id, paused_at)
SELECT '00000000-0000-7000-8000-000000000003', site_id, id, (SELECT min(id) FROM skus), 4, 'u', 'c', '2026-03-01Z' FROM maas_site_profiles;
INSERT INTO node_decommission_batches (id, mode, selector, total, max_parallel, max_failures, requested_by, correlation_id, reason)
VALUES ('00000000-0000-7000-8000-000000000004', 'reimage', '{"sku_id": "x"}', 4, 3, 1, 'u', 'c', 'why');
CREATE TEMP TABLE states AS SELECT * FROM (VALUES (1, 'pending'), (2, 'running'), (3, 'compensating'), (4, 'failed_retryable'), (5, 'failed_manual_intervention'),
    (6, 'completed'), (7, 'cancelled'), (8, 'reconciled')) AS s(n, status);
INSERT INTO node_onboardings (id, batch_id, site_id, profile_id, sku_id, hostname, ipmi_ip, pxe_mac, maas_system_id, node_id, initialize_disks, status, current_stage,
    current_attempt, current_takes, epoch, action, adopted, failure_class, error_code, error_message, error_remedy, error_details, facts, observed_status,
    observed_power, observed_ips, observed_at, observed_since, workflow_id, workflow_run_id, requested_by, correlation_id, admitted_at, started_at,
    stage_started_at, parked_at, completed_at)
SELECT gen_random_uuid(), CASE WHEN s.n % 2 = 0 THEN '00000000-0000-7000-8000-000000000003'::uuid END, p.site_id, p.id, (SELECT min(id) FROM skus), 'o' || s.n,
    '10.0.0.' || s.n, 'mac' || s.n, CASE WHEN s.n <> 1 THEN 'sys' || s.n ELSE '' END, gen_random_uuid(), s.n > 4, s.status, 'stage' || s.n, s.n, s.n + 1, s.n + 2, 'resume', s.n > 3, 'bmc_power_failure',
    'code', 'message', 'remedy', '{"a": 1}', '{"b": 2}', 'Ready', 'on', '{10.1.1.1}', now(), now(), 'onboarding-' || s.n, 'run', 'user', 'corr', now(), now(), now(),
    CASE WHEN s.status LIKE 'failed%' THEN now() END, CASE WHEN s.n > 5 THEN now() END
FROM states s, maas_site_profiles p;
INSERT INTO node_decommissions (id, batch_id, node_id, site_id, profile_id, hostname, ipmi_ip, maas_system_id, mode, erase, storage_cleanup, reason, plan_hash, origin,
    overrides, follow_ups, status, current_stage, current_attempt, epoch, action, facts, workflow_id, requested_by, requested_by_name, correlation_id, admitted_at,
    parked_at, completed_at)
SELECT gen_random_uuid(), CASE WHEN s.n % 2 = 0 THEN '00000000-0000-7000-8000-000000000004'::uuid END, d.id, CASE WHEN s.n > 3 THEN p.site_id END,
    CASE WHEN s.n > 3 THEN p.id END, d.hostname, '10.0.1.' || s.n, 'sys' || s.n, 'reimage', 'quick', 'local', 'why', 'hash', 'active', '[{"stage": "x"}]', '[{"what": "y"}]', s.status,
    'stage' || s.n, s.n, s.n, '', '{"c": 3}', 'decommission-' || s.n, 'user', 'User', 'corr', now(), CASE WHEN s.status LIKE 'failed%' THEN now() END, CASE WHEN s.n > 5 THEN now() END
FROM states s JOIN nodes d ON d.hostname = 'd' || s.n, maas_site_profiles p;
INSERT INTO node_onboarding_events (onboarding_id, epoch, stage, attempt, status, message, details)
SELECT id, 1, 'stage', g, (ARRAY['started', 'failed', 'action', 'note', 'observed'])[g], 'entry ' || g, '{"d": 4}' FROM generate_series(1, 5) AS g, node_onboardings ORDER BY g;
INSERT INTO node_decommission_events (decommission_id, epoch, stage, attempt, status, message)
SELECT id, 1, 'stage', g, 'succeeded', 'entry ' || g FROM generate_series(1, 3) AS g, node_decommissions ORDER BY g;
INSERT INTO node_decommission_evidence (decommission_id, stage, attempt, epoch, kind, evidence) SELECT id, 's', 1, 1, 'drain', '{}' FROM node_decommissions;`

// whole is every row that a query shows, by its first column.
func whole(t *testing.T, db *postgres.DB, query string) map[string]string {
	t.Helper()
	rows, err := db.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var key string
		var row json.RawMessage
		if err := rows.Scan(&key, &row); err != nil {
			t.Fatal(err)
		}
		out[key] = string(row)
	}
	if rows.Err() != nil || len(out) == 0 {
		t.Fatal(len(out), rows.Err())
	}
	return out
}

// Whoever read jobs before the migration reads the same after it, whatever status
// they are in: rows, batches and the numbers of entries of ledgers.
func TestTheMigrationCarriesJobsOver(t *testing.T) {
	e := postgrestest.At(t, 27)
	if _, err := e.Owner.Exec(t.Context(), legacy); err != nil {
		t.Fatal(err)
	}
	// What the batches of one family have now that they had not before, nobody set.
	const onboardingBatches = `SELECT id::text, to_jsonb(b) - 'max_parallel' - 'max_failures' - 'reason' FROM node_onboarding_batches b`
	const decommissionBatches = `SELECT id::text, to_jsonb(b) - 'paused_at' FROM node_decommission_batches b`
	reads := map[string][2]string{
		"onboardings":          {`SELECT id::text, to_jsonb(o) FROM node_onboardings o`, ""},
		"decommissions":        {`SELECT id::text, to_jsonb(d) - 'outcome' FROM node_decommissions d`, ""},
		"onboarding batches":   {onboardingBatches, ""},
		"decommission batches": {decommissionBatches, ""},
		"evidence":             {`SELECT seq::text, to_jsonb(e) FROM node_decommission_evidence e`, ""},
		"ledgers": {
			`SELECT onboarding_id || ' ' || seq, to_jsonb(e) - 'onboarding_id' FROM node_onboarding_events e
			UNION ALL SELECT decommission_id || ' ' || seq, to_jsonb(e) - 'decommission_id' FROM node_decommission_events e`,
			`SELECT job_id || ' ' || seq, to_jsonb(e) - 'job_id' FROM job_events e`,
		},
	}
	before := map[string]map[string]string{}
	for name, read := range reads {
		before[name] = whole(t, e.Owner, read[0])
	}
	e.Forward(t)
	for name, read := range reads {
		query := read[0]
		if read[1] != "" {
			query = read[1]
		}
		if after := whole(t, e.Owner, query); !maps.Equal(before[name], after) {
			t.Errorf("%s were\n%v and are\n%v", name, before[name], after)
		}
	}
	// All of them have an override and something left to be done.
	var wrong int
	if err := e.Owner.QueryRow(t.Context(), `SELECT count(*) FROM node_decommissions
		WHERE outcome <> CASE WHEN status IN ('completed', 'reconciled') THEN 'with_gaps' ELSE '' END`).Scan(&wrong); err != nil ||
		wrong > 0 {
		t.Errorf("%d have another outcome, %v", wrong, err)
	}
	for key, row := range whole(t, e.Owner, `SELECT id::text, jsonb_build_object('status', status, 'phase', phase, 'live', EXISTS (
			SELECT FROM job_claims c WHERE c.job_id = j.id AND c.key <> '')) FROM jobs j`) {
		var got struct {
			Status job.Status
			Phase  job.Phase
			Live   bool
		}
		if err := json.Unmarshal([]byte(row), &got); err != nil {
			t.Fatal(err)
		}
		if want := job.Parking.PhaseOf(got.Status); got.Phase != want || got.Live != (want != job.Over) {
			t.Errorf("%s: %s, want phase %s", key, row, want)
		}
	}
}

// What live jobs had for themselves they still have, and new entries come after
// the old ones.
func TestTheMigrationKeepsClaimsAndTheOrderOfLedgers(t *testing.T) {
	e := postgrestest.At(t, 27)
	if _, err := e.Owner.Exec(t.Context(), legacy); err != nil {
		t.Fatal(err)
	}
	e.Forward(t)
	for _, of := range []string{"onboarding.hostname", "onboarding.bmc", "onboarding.machine", "decommission.node"} {
		_, err := e.Owner.Exec(t.Context(), `INSERT INTO job_claims (job_id, kind, key)
			SELECT (SELECT id FROM jobs WHERE phase = 'over' LIMIT 1), kind, key FROM job_claims WHERE kind = $1 AND key <> '' LIMIT 1`, of)
		if !postgres.Violates(err, job.ClaimTaken) {
			t.Errorf("%s can be claimed twice: %v", of, err)
		}
	}
	var later bool
	if err := e.Owner.QueryRow(t.Context(), `WITH told AS (INSERT INTO job_events (job_id, epoch, stage, attempt, status)
		SELECT id, 1, 's', 1, 'note' FROM jobs LIMIT 1 RETURNING seq) SELECT told.seq > (SELECT max(seq) FROM job_events) FROM told`).Scan(&later); err != nil || !later {
		t.Errorf("a new entry does not come after the old ones: %v", err)
	}
}

// Batches of the version before go on: one that its failures had stopped stays
// stopped until somebody resumes it, and jobs that use MAAS count at their site.
func TestTheMigrationKeepsWhatBatchesDecided(t *testing.T) {
	e := postgrestest.At(t, 30)
	if _, err := e.Owner.Exec(t.Context(), `
INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
VALUES ('00000000-0000-7000-8000-000000000001', 'dc1', 'eu-1', 'http://maas/MAAS', 'eth0', 0, 'eth0', decode(repeat('00', 16), 'hex'));
INSERT INTO job_batches (id, family, total, max_parallel, max_failures, requested_by, correlation_id, paused_at)
SELECT ('00000000-0000-7000-8000-00000000010' || n)::uuid, family, 2, 2, most, 'u', 'c', paused FROM (VALUES
    (1, 'decommission', 0, NULL::timestamptz), (2, 'decommission', 1, NULL), (3, 'onboarding', NULL, '2026-03-01Z'), (4, 'onboarding', NULL, NULL)) AS b(n, family, most, paused);
INSERT INTO jobs (id, family, kind, batch_id, site_id, node_id, subject, status, phase, current_stage, workflow_id, requested_by, correlation_id, parked_at)
SELECT gen_random_uuid(), b.family, CASE WHEN b.family = 'decommission' THEN k.kind ELSE '' END, b.id, m.id, gen_random_uuid(), 'a', s.status, s.phase, 's', 'w', 'u', 'c',
    CASE WHEN s.phase = 'parked' THEN now() END
FROM job_batches b, maas_sites m, (VALUES ('pending', 'waiting'), ('failed_retryable', 'parked')) AS s(status, phase), (VALUES ('reimage'), ('soft_reset')) AS k(kind)
WHERE b.family = 'decommission' OR k.kind = 'reimage'`); err != nil {
		t.Fatal(err)
	}
	e.Forward(t)
	stopped := whole(t, e.Owner, `SELECT right(id::text, 1), jsonb_build_array(paused_at IS NOT NULL, halted, pause_reason) FROM job_batches`)
	want := map[string]string{
		"1": `[true, true, "2 failed or were cancelled, and at most 0 may"]`,
		"2": `[true, true, "2 failed or were cancelled, and at most 1 may"]`,
		"3": `[true, false, ""]`, "4": `[false, false, ""]`,
	}
	if !maps.Equal(stopped, want) {
		t.Errorf("batches are %v", stopped)
	}
	counted := whole(t, e.Owner, `SELECT DISTINCT family || ' ' || kind, to_jsonb(site_place) FROM jobs`)
	if want := map[string]string{
		"onboarding ": "true", "decommission reimage": "true",
		"decommission soft_reset": "false",
	}; !maps.Equal(counted, want) {
		t.Errorf("places of sites: %v", counted)
	}
}
