package onboarding_test

import (
	"net/http"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/onboarding"
)

// typical is how long stages are said to take, by name.
func (d *desk) typical(tb testing.TB, query string) map[string]float64 {
	tb.Helper()
	var all struct{ Items []onboarding.StageView }
	d.call(tb, http.MethodGet, "onboarding-stages"+query, nil).Decode(tb, &all)
	out := map[string]float64{}
	for _, s := range all.Items {
		if s.Typical != nil {
			out[s.Name] = *s.Typical
		}
	}
	return out
}

// told writes into a ledger: what happened to a stage, so many seconds after it
// all began.
func (d *desk) told(tb testing.TB, of id.Onboarding, stage, status string, attempt, after int) {
	tb.Helper()
	d.set(tb, `INSERT INTO job_events (job_id, epoch, stage, attempt, status, occurred_at)
		VALUES ($1, 1, $2, $3, $4, timestamptz '2026-03-04 05:06:07Z' + $5 * interval '1 second')`, of, stage, attempt, status, after)
}

func TestStagesTypicallyTake(t *testing.T) {
	d := newDesk(t)
	slow, retried, twice := d.requested(t, "a", "10.0.0.1").OnboardingID, d.requested(t, "b", "10.0.0.2").OnboardingID,
		d.requested(t, "c", "10.0.0.3").OnboardingID
	d.set(t, `UPDATE node_onboardings SET status = 'running', started_at = now()`)
	if got := d.typical(t, ""); len(got) > 0 {
		t.Errorf("before anybody went through them, stages take %v", got)
	}
	const stage = "wait_for_ready"
	d.told(t, slow, stage, "started", 1, 0)
	d.told(t, slow, stage, "note", 1, 30)
	d.told(t, slow, stage, "succeeded", 1, 600)
	// What failed attempts took is not part of it.
	d.told(t, retried, stage, "started", 1, 0)
	d.told(t, retried, stage, "failed", 1, 900)
	d.told(t, retried, stage, "started", 2, 1000)
	d.told(t, retried, stage, "succeeded", 2, 1020)
	// A stage that is come by again counts each time.
	for _, began := range []int{0, 5000} {
		d.told(t, twice, stage, "started", 1, began)
		d.told(t, twice, stage, "succeeded", 1, began+40)
	}
	d.told(t, twice, "commission_node", "started", 1, 0)
	d.told(t, twice, "commission_node", "skipped", 1, 1)
	d.told(t, twice, "deploy_node", "started", 1, 0)

	// of 20, 40, 40 and 600
	for query, want := range map[string]float64{
		"": 40, "?site_id=" + d.site.String(): 40,
		"?site_id=" + id.NewString(): 0,
	} {
		got := d.typical(t, query)
		if got[stage] != want || want == 0 && len(got) > 0 || want > 0 && len(got) != 1 {
			t.Errorf("%q: stages take %v, want %v of %s alone", query, got, want, stage)
		}
	}
	d.call(t, http.MethodGet, "onboarding-stages?site_id=somewhere", nil).Wants(t, http.StatusUnprocessableEntity,
		"validation_error")

	// only those that were started count
	d.set(t, `UPDATE node_onboardings SET status = 'pending', started_at = NULL WHERE id = $1`, twice)
	if got := d.typical(t, ""); got[stage] != 310 {
		t.Errorf("stages take %v", got)
	}
}

// BenchmarkTypical reads how long stages take where 10,000 machines went
// through all of them.
func BenchmarkTypical(b *testing.B) {
	d := newDesk(b)
	of := d.requested(b, "a", "10.0.0.1").OnboardingID
	d.set(b, `INSERT INTO node_onboardings (id, site_id, profile_id, sku_id, hostname, ipmi_ip, node_id, status, current_stage, workflow_id, requested_by, correlation_id, started_at, completed_at)
		SELECT gen_random_uuid(), site_id, profile_id, sku_id, 'n' || n, n::text, gen_random_uuid(), 'completed', current_stage, '', '', '', now(), now()
		FROM node_onboardings, generate_series(1, 10000) AS n WHERE id = $1`, of)
	for _, s := range onboarding.Stages() {
		d.set(b, `INSERT INTO job_events (job_id, epoch, stage, attempt, status, occurred_at)
			SELECT o.id, 1, $1, 1, e.status, now() + e.n * interval '1 minute'
			FROM node_onboardings o, (VALUES (1, 'started'), (2, 'note'), (3, 'succeeded')) AS e(n, status)`, s.Name)
	}
	d.set(b, `ANALYZE node_onboardings`)
	d.set(b, `ANALYZE job_events`)
	for _, at := range []struct{ name, query string }{
		{"all", ""},
		{"site", "?site_id=" + d.site.String()},
		{"elsewhere", "?site_id=" + id.NewString()},
	} {
		b.Run(at.name, func(b *testing.B) {
			for b.Loop() {
				d.typical(b, at.query)
			}
		})
	}
}
