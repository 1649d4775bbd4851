package fleetview_test

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// The fleet of 10,000 nodes at a glance, over the API: the first page of the
// console waits for it.
func BenchmarkFleet(b *testing.B) {
	w := newWorld(b)
	site := w.site(b, "dc1", "eu-1")
	w.exec(b, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, reported_agent_version, reported_agent_commit, certificate_not_after)
		SELECT gen_random_uuid(), (ARRAY['active', 'active', 'active', 'offline', 'quarantined'])[i % 5 + 1], 'n' || i, '10.0.0.1', $1, 8, 'eu-' || i % 4, 'maas', '1.0.0', 'abc123', $2
		FROM generate_series(1, 10000) AS i`, someSKU, now.Add(time.Hour))
	w.exec(b,
		`INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id) SELECT n.id, $1, p.id, n.hostname FROM nodes n, maas_site_profiles p`, site)
	w.exec(b, `INSERT INTO reconciliation_findings (id, site_id, node_id, type, severity, subject, status, expected, observed, message, opened_at, last_seen_at)
		SELECT gen_random_uuid(), $1, id, 'released', 'warning', id::text, 'open', '', '', '', $2, $2 FROM nodes WHERE hostname LIKE '%7'`, site, now)
	w.exec(b, `INSERT INTO node_onboardings (id, site_id, profile_id, hostname, ipmi_ip, sku_id, node_id, status, current_stage, workflow_id, requested_by, correlation_id)
		SELECT gen_random_uuid(), $1, p.id, n.hostname, n.hostname, n.sku_id, n.id, 'running', 'x', 'w', 'o', 'c' FROM nodes n, maas_site_profiles p WHERE n.hostname LIKE '%3'`, site)
	w.exec(b, `ANALYZE`)
	for _, path := range []string{"", "?q=N99&region_code=eu-1", "/map", "/map?region_code=eu-1"} {
		b.Run(map[bool]string{true: path, false: "summary"}[path != ""], func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if answer := w.get(b, "root", path); answer.Status != http.StatusOK {
					b.Fatalf("%d %s", answer.Status, answer.Body)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
