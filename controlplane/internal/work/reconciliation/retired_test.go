package reconciliation_test

import (
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// MAAS is slow, and a node can be back in service before the run that found it retired
// comes to act.
func TestAMachineWhoseNodeReturnedToServiceMeanwhileIsNotTouched(t *testing.T) {
	t.Parallel()
	for _, policy := range []site.RetiredMachines{site.RetiredRelease, site.RetiredPowerOff} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.exec(t, `UPDATE maas_site_profiles SET retired_machines = $2 WHERE site_id = $1`, w.at, policy)
			w.exec(t, `UPDATE nodes SET status = 'retired', schedulable = false WHERE id = $1`, w.nodes[0])
			delete(w.maas.machines, "m001")
			seen := false
			w.maas.sought = func() { // the last question of the second look, which is about another machine
				if w.count(t, `SELECT count(*) FROM reconciliation_findings WHERE node_id = $1`, w.nodes[0]) > 0 && !seen {
					seen = true
					return
				}
				w.exec(t, `UPDATE nodes SET status = 'active', schedulable = true WHERE id = $1`, w.nodes[0])
			}
			w.asked(t, reconciliation.RunRequest{Full: true})
			if w.status(t, 0) != node.Active || len(w.maas.releases)+len(w.maas.switchedOff) != 0 {
				t.Errorf("the node is %s; released %v, switched off %v", w.status(t, 0), w.maas.releases, w.maas.switchedOff)
			}
			w.maas.sought = nil
			w.cycle(t)
			w.cycle(t)
			if len(w.maas.releases)+len(w.maas.switchedOff)+len(w.open(t, 0)) != 0 {
				t.Errorf("released %v, switched off %v; left is %v", w.maas.releases, w.maas.switchedOff, w.open(t, 0))
			}
		})
	}
}

func TestAMachineThatSomebodySwitchedOnToReturnItsNodeIsLeftOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.exec(t, `UPDATE maas_site_profiles SET retired_machines = 'power_off' WHERE site_id = $1`, w.at)
	w.exec(t, `UPDATE nodes SET status = 'retired', schedulable = false WHERE id = $1`, w.nodes[0])
	w.asked(t, reconciliation.RunRequest{Full: true})
	if len(w.maas.switchedOff) != 1 {
		t.Fatalf("switched off %v", w.maas.switchedOff)
	}
	w.asked(t, reconciliation.RunRequest{Full: true})
	w.maas.machines["m000"].Power = "on"
	w.asked(t, reconciliation.RunRequest{Full: true})
	w.cycle(t)
	if f := w.open(t, 0)[reconciliation.TypeRetiredPoweredOn]; len(w.maas.switchedOff) != 1 ||
		!strings.Contains(f.Withheld, "somebody switched it on again") {
		t.Errorf("switched off %v; withheld because %q", w.maas.switchedOff, f.Withheld)
	}
	w.time = w.time.Add(25 * time.Hour)
	w.asked(t, reconciliation.RunRequest{Full: true})
	if len(w.maas.switchedOff) != 2 {
		t.Errorf("a day later, switched off %v", w.maas.switchedOff)
	}
}
