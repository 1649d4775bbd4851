package decommission_test

import (
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

func TestADrainWaitsForNoAgentOfAMachineThatSomebodyReleased(t *testing.T) {
	t.Parallel()
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
			if got := y.run(t, d.ID); got.Status != job.Completed {
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

// Somebody released a machine on which a tenant had been. Nothing was cleaned
// through the installation that is gone, so that the new one has to.
func TestAttackAMachineReleasedElsewhereIsCleanedByItsNewInstallation(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.provision(t, n, false)
	y.exec(t, `UPDATE nodes SET status = 'quarantined', schedulable = false WHERE id = $1`, n)
	y.exec(t, `UPDATE node_contacts SET last_contact_at = now() - interval '1 hour' WHERE node_id = $1`, n)
	y.script.vacant = proven
	y.agent.asked = nil
	d := y.run(t, y.request(t, n, decommission.Reimage).ID)
	wants(t, d, job.Completed, decommission.StageEnable, "")
	same(t, "tasks", y.agent.asked, listed("node.storage_cleanup, node.gpu_scrub, node.validate_clean, node.drain"))
	if subjects := y.paper(t, d.ID).Document.Subjects; len(subjects) == 0 {
		t.Error("its certificate names nothing that was cleaned")
	}
}

// Cleaning the same installation again never helps against what only somebody
// with root leaves: the operation says so at once, instead of leading in a circle.
func TestWhatOnlyRootLeavesIsNotCleanedAgain(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	left := dirty()
	left.Findings = []agentwire.CleanFinding{{
		Kind: "users", Subject: "mallory",
		Detail: "another account with the rights of root",
	}}
	y.agent.on(agentwire.TypeValidateClean, succeeds(left))
	d := y.run(t, y.request(t, n, decommission.SoftReset).ID)
	wants(t, d, job.FailedManualIntervention, decommission.StageValidate, "validation_root_residue")
	if decommission.Recommended(d) != job.Cancel ||
		!strings.Contains(d.ErrorRemedy, "cancel this job, then reimage the node") {
		t.Errorf("%s is recommended: %s", decommission.Recommended(d), d.ErrorRemedy)
	}
	if now := y.see(t, n); !now.Root.Stands() {
		t.Errorf("the node is %+v", now)
	}
}
