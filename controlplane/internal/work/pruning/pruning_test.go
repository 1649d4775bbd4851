package pruning_test

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/engine/telemetry/telemetrytest"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/pruning"
)

// past makes a node with a history of every kind, one row a day, the oldest first: of
// each kind ten rows. Job 01 is a cleaning that is over, with evidence of the task of
// day 1 and a certificate; of the jobs 02, 04 and 05 on one node all are over, 03 is
// parked.
const past = `
INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, generation)
SELECT ('00000000-0000-7000-8000-00000000000' || g)::uuid, 'active', 'n' || g, '', (SELECT min(id) FROM skus), 8, 'eu-1', 'maas', 2
FROM generate_series(1, 2) AS g;
CREATE TEMP TABLE days AS SELECT g, timestamptz '2026-01-01Z' + g * interval '1 day' AS at FROM generate_series(1, 10) AS g;
INSERT INTO outbox_events (id, destination, partition, aggregate_kind, aggregate_id, event_type, envelope, correlation_id, status, finished_at)
SELECT gen_random_uuid(), 'nats', 0, 'x', g::text, 'x', '{}', 'c', CASE g WHEN 1 THEN 'pending' WHEN 2 THEN 'failed' ELSE 'published' END,
    CASE WHEN g > 2 THEN at END FROM days;
INSERT INTO node_certificates (serial, node_id, key_fingerprint, issued_at, not_after)
SELECT 'old' || g, '00000000-0000-7000-8000-000000000001', 'f', at - interval '1 day', at FROM days;
INSERT INTO node_certificates (serial, node_id, key_fingerprint, issued_at, not_after)
VALUES ('only', '00000000-0000-7000-8000-000000000002', 'f', '2025-01-01Z', '2025-01-02Z');
INSERT INTO node_events (node_id, occurred_at, kind, cause, actor_kind, actor_id, correlation_id, snapshot)
SELECT '00000000-0000-7000-8000-000000000001', at, k, 'c', 'node', 'n', 'c', '{}' FROM days, unnest(ARRAY['certificate_renewed', 'updated']) AS k;
INSERT INTO node_tasks (id, node_id, type, params, status, concurrency_class, generation, max_attempts, deadline_at, requested_by, correlation_id, created_at, finished_at)
SELECT ('00000000-0000-7000-8000-0000000001' || lpad(g::text, 2, '0'))::uuid, '00000000-0000-7000-8000-000000000001',
    CASE g WHEN 2 THEN 'node.lock_login' ELSE 'node.inspect' END, '{}', 'succeeded', 'concurrent', CASE g WHEN 3 THEN 1 ELSE 2 END, 1, at, 'u', 'c', at, at FROM days;
INSERT INTO node_tasks (id, node_id, type, params, concurrency_class, generation, max_attempts, deadline_at, requested_by, correlation_id, created_at)
SELECT gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 'node.inspect', '{}', 'concurrent', 2, 1, at, 'u', 'c', at FROM days WHERE g = 1;
INSERT INTO node_task_steps (task_id, attempt, seq, step, status, at) SELECT id, 1, 1, 's', 'succeeded', created_at FROM node_tasks;
INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
VALUES ('00000000-0000-7000-8000-000000000301', 'dc1', 'eu-1', 'http://maas/MAAS', 'eth0', 0, 'eth0', decode(repeat('00', 16), 'hex'));
INSERT INTO jobs (id, family, kind, site_id, node_id, subject, current_stage, status, phase, workflow_id, requested_by, correlation_id, completed_at, parked_at)
SELECT ('00000000-0000-7000-8000-0000000002' || id)::uuid, family, kind, site_id, ('00000000-0000-7000-8000-00000000000' || node)::uuid, 'n' || node, 's', status, phase,
    'w' || id, 'u', 'c', CASE phase WHEN 'over' THEN timestamptz '2026-01-01Z' END, CASE phase WHEN 'parked' THEN timestamptz '2026-01-01Z' END
FROM (VALUES ('01', 'decommission', 'reimage', NULL, 1, 'completed', 'over'),
    ('02', 'onboarding', '', '00000000-0000-7000-8000-000000000301'::uuid, 3, 'completed', 'over'),
    ('03', 'onboarding', '', '00000000-0000-7000-8000-000000000301', 2, 'failed_retryable', 'parked'),
    ('04', 'decommission', 'reimage', NULL, 3, 'completed', 'over'),
    ('05', 'decommission', 'reimage', NULL, 3, 'completed', 'over')) AS j(id, family, kind, site_id, node, status, phase);
INSERT INTO job_events (job_id, epoch, stage, attempt, status, occurred_at) SELECT j.id, 1, 's', g, 'succeeded', d.at FROM jobs j, days d ORDER BY g;
INSERT INTO decommission_jobs (job_id, reason) VALUES ('00000000-0000-7000-8000-000000000201', 'why');
INSERT INTO node_decommission_evidence (decommission_id, stage, attempt, epoch, kind, evidence)
VALUES ('00000000-0000-7000-8000-000000000201', 's', 1, 1, 'drain', '{"task_id": "00000000-0000-7000-8000-000000000101"}');
INSERT INTO decommission_certificates (id, node_id, seq, kind, decommission_id, document, digest, key_id, issued_at, evidence_seq)
VALUES (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 1, 'certificate', '00000000-0000-7000-8000-000000000201', '{}', 'd', 'k', '2026-01-01Z', 1);`

var today = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func service(db *postgres.DB, every, ledgers time.Duration, keep int32) *pruning.Service {
	const month = 30 * 24 * time.Hour
	nodes := node.New(node.Config{DB: db})
	return pruning.New(pruning.Config{
		DB: db, Logger: slog.New(slog.DiscardHandler), Clock: func() time.Time { return today },
		Policy: pruning.Policy{Every: every, KeepNewest: keep, Kinds: []pruning.Kind{
			{Name: "outbox_events", Keep: month, Rows: outbox.Finished{DB: db}},
			{Name: "node_certificates", Keep: month, Rows: node.Certificates{Service: nodes}},
			{Name: "node_tasks", Keep: month, Rows: agenttask.Commands{DB: db}},
			{Name: "certificate_renewals", Keep: month, Rows: node.Renewals{Service: nodes}},
			{Name: "job_ledgers", Keep: ledgers, Rows: job.Ledgers{DB: db}},
		}},
	})
}

func seeded(t *testing.T) (db, owner *postgres.DB) {
	t.Helper()
	db, owner = postgrestest.NewWithOwner(t)
	if _, err := owner.Exec(t.Context(), past); err != nil {
		t.Fatal(err)
	}
	return db, owner
}

func rowsOf(kinds []pruning.Pruned) map[string]int64 {
	out := map[string]int64{}
	for _, k := range kinds {
		out[k.Name] = k.Rows
	}
	return out
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	a, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("%s: got %s, want %s", what, a, b)
	}
}

func count(t *testing.T, db *postgres.DB, query string) (n int64) {
	t.Helper()
	if err := db.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A run deletes what a survey counted, and nothing that is needed: messages that wait,
// the newest certificate of a node, tasks that evidence names or that tell what was
// done to the machine, every other entry of a node's history, ledgers of cleanings.
func TestARunDeletesWhatTheSurveyCounts(t *testing.T) {
	db, owner := seeded(t)
	s := service(db, 0, time.Hour, 2)
	ctx := auth.With(telemetry.WithCorrelation(t.Context(), id.NewString()), auth.System("test"))
	due, err := s.Survey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// Tasks: not that of day 1 (evidence), of day 2 (the last that locked logins), nor
	// the two newest. Ledgers: nine of the ten entries of job 02, which two followed.
	expected := map[string]int64{
		"outbox_events": 8, "node_certificates": 8, "node_tasks": 6, "certificate_renewals": 8, "job_ledgers": 9,
	}
	want(t, "survey", rowsOf(due.Kinds), expected)
	metrics := telemetrytest.New(t)
	run, err := s.Request(ctx)
	if err != nil || !run.Complete {
		t.Fatal(run, err)
	}
	want(t, "run", rowsOf(run.Kinds), expected)
	metrics.Wants(t, `gpuaas_pruning_deleted_total{kind="node_tasks"} 6`, `gpuaas_pruning_runs_total{outcome="complete"} 1`)
	for _, c := range []struct {
		query string
		left  int64
	}{
		{`SELECT count(*) FROM outbox_events`, 2},
		{`SELECT count(*) FROM node_certificates WHERE serial IN ('only', 'old9', 'old10')`, 3},
		{`SELECT count(*) FROM node_certificates`, 3},
		{`SELECT count(*) FROM node_tasks`, 5},
		{`SELECT count(*) FROM node_task_steps`, 5},
		{`SELECT count(*) FROM node_tasks t JOIN node_decommission_evidence e ON e.evidence->>'task_id' = t.id::text`, 1},
		{`SELECT count(*) FROM node_tasks WHERE type = 'node.lock_login'`, 1},
		{`SELECT count(*) FROM node_events WHERE kind = 'certificate_renewed'`, 2},
		{`SELECT count(*) FROM node_events WHERE kind = 'updated'`, 10},
		{`SELECT count(*) FROM job_events WHERE job_id = '00000000-0000-7000-8000-000000000201'`, 10},
		{`SELECT count(*) FROM job_events WHERE job_id = '00000000-0000-7000-8000-000000000202'`, 1},
		{`SELECT count(*) FROM job_events WHERE job_id = '00000000-0000-7000-8000-000000000203'`, 10},
		{`SELECT count(*) FROM jobs`, 5},
		{`SELECT count(*) FROM node_decommission_evidence`, 1},
		{`SELECT count(*) FROM decommission_certificates`, 1},
		{`SELECT count(*) FROM audit_logs WHERE action IN ('pruning.begin', 'pruning.end')`, 2},
		{`SELECT (metadata->'deleted'->>'node_tasks')::bigint FROM audit_logs WHERE action = 'pruning.end'`, 6},
	} {
		want(t, c.query, count(t, owner, c.query), c.left)
	}
	if due, err = s.Survey(ctx); err != nil || due.LastRun == nil || !due.LastRun.Equal(today) {
		t.Fatal(due, err)
	}
	want(t, "second survey", rowsOf(due.Kinds), map[string]int64{
		"outbox_events": 0, "node_certificates": 0, "node_tasks": 0, "certificate_renewals": 0, "job_ledgers": 0,
	})
}

func TestKindsWithoutAnAgeAreKept(t *testing.T) {
	db, owner := seeded(t)
	ctx := auth.With(telemetry.WithCorrelation(t.Context(), id.NewString()), auth.System("test"))
	if _, err := service(db, 0, 0, 2).Request(ctx); err != nil {
		t.Fatal(err)
	}
	want(t, "entries of ledgers", count(t, owner, `SELECT count(*) FROM job_events`), 50)
}

func TestTasksOfANodeStayWhileAJobIsAtWorkOnIt(t *testing.T) {
	db, owner := seeded(t)
	if _, err := owner.Exec(t.Context(), `UPDATE jobs SET node_id = '00000000-0000-7000-8000-000000000001'`); err != nil {
		t.Fatal(err)
	}
	due, err := service(db, 0, 0, 2).Survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "tasks", rowsOf(due.Kinds)["node_tasks"], 0)
}

// Of two workers one deletes what is old, and not again before it is due.
func TestWorkersPruneOnceInAWhile(t *testing.T) {
	db, owner := seeded(t)
	ctx := telemetry.WithCorrelation(t.Context(), id.NewString())
	for range 2 {
		if err := service(db, 24*time.Hour, 0, 2).Tend(ctx); err != nil {
			t.Fatal(err)
		}
	}
	const ends = `SELECT count(*) FROM audit_logs WHERE action = 'pruning.end' AND actor_kind = 'system'`
	want(t, "runs", count(t, owner, ends), 1)
	if _, err := owner.Exec(t.Context(), `UPDATE pruning SET last_run_at = last_run_at - interval '1 day'`); err != nil {
		t.Fatal(err)
	}
	if err := service(db, 0, 0, 2).Tend(ctx); err != nil { // turned off
		t.Fatal(err)
	}
	want(t, "runs while turned off", count(t, owner, ends), 1)
	if err := service(db, 24*time.Hour, 0, 2).Tend(ctx); err != nil {
		t.Fatal(err)
	}
	want(t, "runs a day later", count(t, owner, ends), 2)
}

// Whoever speaks to the database as the product cannot delete what must stay.
func TestAttackDeleteWhatProves(t *testing.T) {
	db, _ := seeded(t)
	for _, statement := range []string{
		`DELETE FROM audit_logs`, `DELETE FROM node_decommission_evidence`, `DELETE FROM decommission_certificates`,
		`DELETE FROM jobs`, `DELETE FROM node_events WHERE kind = 'updated'`, `DELETE FROM node_tasks WHERE status = 'queued'`,
		`DELETE FROM node_events`,
	} {
		if _, err := db.Exec(t.Context(), statement); err == nil {
			t.Errorf("the product may run %q", statement)
		}
	}
}
