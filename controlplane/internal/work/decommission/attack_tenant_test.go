package decommission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// A tenant who had root stops the agent, lets it lie, or lets it hold what it was
// given for ever, to keep the GPUs after the release. The machine is taken away
// all the same, and proven clean by its new installation.
func TestAttackARootTenantCannotKeepTheMachine(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(y *yard){
		"the agent is stopped": func(y *yard) { y.agent.set(true, false) },
		"the agent says that accounts are left": func(y *yard) {
			y.agent.on(agentwire.TypeDrain, succeeds(agentwire.DrainOutput{UsersLeft: []string{"mallory"}}))
		},
		"the agent says that it cannot clean": func(y *yard) {
			y.agent.on(agentwire.TypeStorageCleanup, fails("disk_busy", "no"))
		},
		"the agent keeps what it was given": func(y *yard) {
			y.agent.on(agentwire.TypeDrain, keeps)
			y.agent.stubborn = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &landlord{}
			y := newYard(t, renting(l))
			n := y.node(t, node.Active, true)
			y.provision(t, n, true)
			prepare(y)
			held := 0
			y.before = func(call durable.StageCall) error {
				switch call.Stage {
				case decommission.StageDrain:
					if held++; held == 3 { // the agent never lets the lease end
						y.exec(t, `UPDATE node_tasks SET created_at = created_at - interval '1 day' WHERE status = 'dispatched'`)
					}
				case "release_maas_node":
					wellAgain(y)
					y.agent.stubborn = false
				}
				return nil
			}
			own := asked(decommission.Reimage)
			own.CleanupOf = l.rent(n, "releasing", false)
			end := y.run(t, y.begun(t, n, own).ID)
			wants(t, end, job.Completed, decommission.StageEnable, "")
			l.heard(t, "end: ", "cleaned: ")
			if now := y.see(t, n); now.Tainted() || now.Root.Stands() || !now.Schedulable {
				t.Errorf("the node is %+v", now)
			}
			if name == "the agent is stopped" && !lacks(y.paper(t, end.ID).Document, "accounts", "") {
				t.Errorf("gaps are %+v", y.paper(t, end.ID).Document.NotCovered)
			}
		})
	}
	// What an operator asked for waits for the operator.
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.provision(t, n, true)
	y.agent.set(true, false)
	wants(t, y.run(t, y.request(t, n, decommission.Reimage).ID), job.FailedManualIntervention, decommission.StageDrain,
		"agent_unreachable")
}

// What operators say about a tenant, and what a tenant called its file systems,
// stays out of the paper that this tenant and the next one read.
func TestAttackReadingWhatOperatorsSayAboutTheTenantBefore(t *testing.T) {
	l := &landlord{}
	y := newYard(t, renting(l))
	n := y.node(t, node.Active, false)
	l.rent(n, "active", true)
	seen := cleaned()
	seen.Unmounted, seen.ConfigRemoved = []string{"/mnt/acme-secret-project"}, []string{"/etc/acme-secret-project"}
	y.agent.on(agentwire.TypeStorageCleanup, succeeds(seen))
	y.agent.on(agentwire.TypeGPUScrub, fails("gpu_busy", "no"))
	r := ending(decommission.SoftReset)
	r.Reason = "acme-secret-project did not pay"
	d := y.begun(t, n, r)
	end := y.run(t, d.ID, y.override(t, d.ID, decommission.StageScrub))
	wants(t, end, job.Completed, decommission.StageEnable, "")
	paper := y.paper(t, d.ID)
	raw, err := json.Marshal(paper)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"secret-project", "operator-1", "shredded", "data may be readable"} {
		if strings.Contains(string(raw), word) {
			t.Errorf("it says %q: %s", word, raw)
		}
	}
	if doc := paper.Document; len(doc.Overrides) != 1 || doc.Overrides[0].Stage != decommission.StageScrub {
		t.Errorf("what was passed over is not named: %+v", doc.Overrides)
	}
	if end.Reason != r.Reason || !strings.Contains(end.Overrides[0].Reason, "shredded") {
		t.Errorf("operators do not read it either: %+v", end)
	}
}
