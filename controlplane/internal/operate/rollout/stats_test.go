package rollout_test

import (
	"strings"
	"testing"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/engine/telemetry/telemetrytest"
	"gpuaas/controlplane/internal/operate/rollout"
)

func TestWhatBecameOfNodesIsToldAndCounted(t *testing.T) {
	scraper := telemetrytest.New(t)
	w := newWorld(t, 6)
	if err := rollout.ObserveStats(w.db); err != nil {
		t.Fatal(err)
	}
	w.takes[w.nodes[0]], w.takes[w.nodes[1]] = "wrong version", "crash"
	r := w.run(w.begin(rollout.Plan{Canaries: 2}).ID, false)
	if r.Status != rollout.Paused {
		t.Fatalf("%s %q", r.Status, r.PausedBecause)
	}
	for event, want := range map[eventwire.Type]int{eventwire.AgentNodeFailed: 2, eventwire.AgentNodeReturned: 1} {
		var got int
		if err := w.owner.QueryRow(w.ctx, `SELECT count(*) FROM outbox_events WHERE event_type = $1 AND aggregate_id = $2`,
			event, r.ID.String()).Scan(&got); err != nil || got != want {
			t.Errorf("%d events %s, want %d: %v", got, event, want, err)
		}
	}
	w.exec(`UPDATE agent_rollouts SET updated_at = clock_timestamp() - interval '1 day'`)
	if got := scraper.Scrape(t); !strings.Contains(got, "gpuaas_agent_rollouts_paused_since_seconds 86") {
		t.Error("it is not told how long the rollout waits")
	}
	scraper.Wants(
		t, `gpuaas_agent_rollout_nodes_total{outcome="failed"} 2`,
		`gpuaas_agent_rollout_nodes_total{outcome="returned"} 1`,
		`gpuaas_agent_rollouts{status="paused"} 1`, `gpuaas_agent_rollouts{status="running"} 0`,
	)
}
