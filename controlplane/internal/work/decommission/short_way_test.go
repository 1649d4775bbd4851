package decommission_test

import (
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// calledAgo lets the agent of a node have called some time ago.
func (y *yard) calledAgo(tb testing.TB, of id.Node, ago string) {
	tb.Helper()
	y.exec(tb, `INSERT INTO node_contacts (node_id, last_contact_at) VALUES ($1, now() - $2::interval)
		ON CONFLICT (node_id) DO UPDATE SET last_contact_at = EXCLUDED.last_contact_at`, of, ago)
}

// The plan for a node whose agent is gone offers to install it anew in one
// decision, and what it offers works: nobody is waited for.
func TestThePlanOffersTheShortWayForADeadNode(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.calledAgo(t, n, "3 hours")
	offered := y.plan(t, n, decommission.Reimage).ShortWay
	if offered == nil || len(offered.Stages) != 3 || !strings.Contains(offered.Why, "3 h") ||
		!strings.Contains(offered.Command, "--without-agent") {
		t.Fatalf("offered is %+v", offered)
	}
	r := asked(decommission.Reimage)
	r.WithoutAgent, r.ResidualRisk = true, "what was in memory"
	short, err := y.service.Plan(y.ctx, n, r)
	if err != nil || short.ShortWay != nil || goesThrough(short, decommission.StageDrain) || len(short.Blocks) > 0 {
		t.Errorf("%+v, %v", short, err)
	}
	r.PlanHash = short.Hash
	d, made, err := y.service.Request(y.ctx, n, r)
	if err != nil || !made {
		t.Fatal(err)
	}
	if again, made, err := y.service.Request(y.ctx, n, r); err != nil || made || again.ID != d.ID {
		t.Errorf("asking again: %v, %v", made, err)
	}
	d = y.run(t, d.ID)
	wants(t, d, job.Completed, decommission.StageEnable, "")
	if len(d.Overrides) != 3 || d.Outcome != decommission.WithGaps || d.Overrides[0].ResidualRisk != r.ResidualRisk {
		t.Errorf("it is %s, and went on without %+v", d.Outcome, d.Overrides)
	}
	// Only the new agent is asked: to end the drain.
	if asked := y.tasksOf(t, n, agentwire.TypeDrain); asked != 1 {
		t.Errorf("agents were asked %d times", asked)
	}
}

// An agent that calls again before its turn comes is asked after all, and a request
// without the short way is not answered with an operation that takes it.
func TestAnAgentThatComesBackIsAsked(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.calledAgo(t, n, "3 hours")
	r := asked(decommission.Reimage)
	r.WithoutAgent, r.ResidualRisk = true, "what was in memory"
	d, made, err := y.service.Request(y.ctx, n, r)
	if err != nil || !made {
		t.Fatal(err)
	}
	if _, _, err := y.service.Request(y.ctx, n, asked(decommission.Reimage)); err == nil {
		t.Error("a whole reimage is answered with one that cleans less")
	}
	y.calledAgo(t, n, "-1 seconds")
	d = y.run(t, d.ID)
	wants(t, d, job.Completed, decommission.StageEnable, "")
	if asked := y.tasksOf(t, n, agentwire.TypeDrain); asked != 2 {
		t.Errorf("agents were asked %d times: the one that came back to drain, and the new one to end that", asked)
	}
}

// An agent that answers cleans first: the short way is neither offered nor taken.
func TestTheShortWayIsForDeadAgentsOnly(t *testing.T) {
	y := newYard(t)
	n := y.node(t, node.Active, true)
	y.calledAgo(t, n, "10 seconds")
	if p := y.plan(t, n, decommission.Reimage); p.ShortWay != nil {
		t.Errorf("offered is %+v", p.ShortWay)
	}
	r := asked(decommission.Reimage)
	r.WithoutAgent, r.ResidualRisk = true, "what was in memory"
	if _, _, err := y.service.Request(y.ctx, n, r); fault.CodeOf(err) != "agent_not_gone" {
		t.Error(err)
	}
	y.calledAgo(t, n, "3 hours")
	for _, change := range []func(*decommission.Request){
		func(r *decommission.Request) { r.ResidualRisk = " " },
		func(r *decommission.Request) { r.Mode = decommission.SoftReset },
	} {
		wrong := r
		change(&wrong)
		if _, _, err := y.service.Request(y.ctx, n, wrong); fault.CodeOf(err) != "validation_error" {
			t.Error(err)
		}
	}
	if p := y.plan(t, n, decommission.SoftReset); p.ShortWay != nil {
		t.Errorf("a soft reset without an agent is offered: %+v", p.ShortWay)
	}
}
