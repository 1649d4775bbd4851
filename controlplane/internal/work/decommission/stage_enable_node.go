package decommission

import (
	"context"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageEnable names the stage "Return it to scheduling".
const StageEnable = "enable_node"

var _ = catalog.Declare(job.Stage{
	Name: StageEnable, Title: "Return it to scheduling", Attempts: 2, Awaits: true, Resume: StageEnable,
	Looks:    "the proof that the node is clean",
	Does:     "lets the agent take users again and lets go of the node",
	Expects:  "the node is active and schedulable, if nobody else holds it",
	Again:    looksFirst,
	OnCancel: letGo,
	Fails: []job.FailureMode{
		agentSilent, {Class: bringup.StateAmbiguity, When: "no clean validation is newer than the last taint"},
	},
}, hooks.enable)

// The failure code that only this stage has.
var codeStillDraining = job.DeclareCode(job.Code{
	Name: "still_draining", Class: bringup.StateAmbiguity,
	Cause:   "The agent was told to accept users again, but still refuses them.",
	Remedy:  "look at the agent on the machine, then retry",
	Runbook: "decommission-parked",
})

// enable lets the agent accept users again. The end of the operation releases
// the hold, and fails while the node is not proven clean.
func (s *Service) enable(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	t, await, err := s.ask(ctx, d, w, StageEnable, errand{
		kind:   agentwire.TypeDrain,
		params: agentwire.DrainParams{Reason: d.cause(), Resume: true},
	})
	if err != nil || await != nil {
		return job.Result{Await: await}, err
	}
	out, err := output[agentwire.DrainOutput](t)
	if err != nil {
		return job.Result{}, err
	}
	if out.Draining {
		return job.Result{}, codeStillDraining.Failed("the agent of %s still refuses users", d.Hostname).
			About(map[string]any{"task_id": t.ID})
	}
	result := job.Result{Message: d.Hostname + " takes users again", Details: map[string]any{"task_id": t.ID}}
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil {
		return result, err
	}
	if !d.Mode.proves(n) {
		result.Message = d.Hostname + " stays out of scheduling: it is tainted, and only a reset proves it clean"
		result.Evidence = []job.Evidence{followUp("reset "+d.Hostname,
			"a storage cleanup does not prove a tainted node clean", "gpuaas node reset "+d.Hostname+"")}
		return result, nil
	}
	why, err := s.quarantinedStill(ctx, d)
	if err == nil && why != "" {
		result.Message = d.Hostname + " is clean, and stays quarantined: " + why
		result.Evidence = []job.Evidence{followUp("return "+d.Hostname+" to service",
			"it was quarantined for another reason than what was cleaned: "+why, "gpuaas node return "+d.Hostname)}
	}
	return result, err
}
