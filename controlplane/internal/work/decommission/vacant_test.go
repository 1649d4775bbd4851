package decommission_test

import (
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
)

func TestADrainWaitsForNoAgentOfAMachineThatSomebodyReleased(t *testing.T) {
	for name, c := range map[string]struct {
		vacant func(*bringup.Work) string
		heard  bool
		drains int
	}{
		"released, off, and its agent is silent": {proven, false, 0},
		"its agent was heard of just now":        {proven, true, 1},
		"MAAS shows it deployed":                 {nil, false, 1},
		"MAAS does not have it": {func(w *bringup.Work) string {
			w.Observed = bringup.Observed{Status: bringup.Absent}
			return ""
		}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			of := y.node(t, node.Quarantined, true)
			y.script.vacant = c.vacant
			if c.heard {
				y.exec(t, `INSERT INTO node_contacts (node_id, last_contact_at) VALUES ($1, now()) ON CONFLICT (node_id) DO UPDATE SET last_contact_at = now()`, of)
			}
			d := y.request(t, of, decommission.FullDecommission)
			if got := y.run(t, d.ID); got.Status != durable.JobCompleted {
				t.Fatalf("it is %s: %s", got.Status, got.ErrorMessage)
			}
			if n := y.tasksOf(t, of, agentwire.TypeStorageCleanup); c.drains == 0 && n != 0 {
				t.Errorf("the agent was asked %d times to clean", n)
			}
			if n := y.tasksOf(t, of, agentwire.TypeDrain); n != c.drains {
				t.Errorf("the agent was asked %d times to drain, not %d", n, c.drains)
			}
		})
	}
}
