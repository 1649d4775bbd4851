package reconciliation_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// A finding names the tenant of the node, and takes nothing away from it.
func TestDriftOfARentedNodeNamesTheTenant(t *testing.T) {
	w := newWorld(t, 2)
	w.tenants = map[id.Node]string{w.nodes[0]: "allocation training-7 of project p, active since yesterday"}
	w.cycle(t)
	for _, m := range []string{"m000", "m001"} {
		w.maas.set(m, "Failed testing", reconciliation.Failed)
	}
	w.cycle(t)
	for n, want := range []bool{true, false} {
		f, ok := w.open(t, n)[reconciliation.TypeHardwareFailed]
		if !ok || strings.Contains(f.Message, "training-7") != want {
			t.Errorf("node %d: found %t, %q", n, ok, f.Message)
		}
	}
	looks := w.count(t, `SELECT looks FROM reconciliation_findings WHERE node_id = $1`, w.nodes[0])
	w.cycle(t)
	if again := w.count(t, `SELECT looks FROM reconciliation_findings WHERE node_id = $1`, w.nodes[0]); again != looks {
		t.Errorf("the same finding was written again: %d looks, then %d", looks, again)
	}
	w.tenants = nil
	w.cycle(t)
	if f := w.open(t, 0)[reconciliation.TypeHardwareFailed]; strings.Contains(f.Message, "training-7") {
		t.Errorf("the tenant has gone, and it says %q", f.Message)
	}
}
