package decommission_test

import (
	"flag"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/testkit"
)

var writeHistories = flag.Bool("update-histories", false, "record the histories that must still replay")

// Histories of workflows that are under way must replay with every release:
// change the workflow in no way in which these would not.
func TestHistoriesReplay(t *testing.T) {
	if *writeHistories {
		recordHistories(t)
	}
	for _, name := range []string{"soft_reset_resumed", "reimage", "full_decommission", "cancelled"} {
		durabletest.Replay(t, filepath.Join("testdata", "history_"+name+".json"), func(r worker.WorkflowReplayer) {
			r.RegisterWorkflowWithOptions(decommission.Workflow, workflow.RegisterOptions{Name: "NodeDecommissionWorkflow"})
		})
	}
}

func recordHistories(t *testing.T) {
	t.Helper()
	y := newYard(t, alone)
	reset, silent := y.node(t, node.Active, false), y.node(t, node.Active, false)
	one, two := y.node(t, node.Active, true), y.node(t, node.Active, true)
	y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()), succeeds(clean(agentwire.TypeValidateClean)))
	temporal := y.serve(t, reset, one, two)
	parked := y.request(t, reset, decommission.SoftReset)
	y.becomes(t, parked.ID, job.FailedManualIntervention)
	if _, err := y.service.Act(y.ctx, parked.ID, job.Resume, "it was mended"); err != nil {
		t.Fatal(err)
	}
	y.becomes(t, parked.ID, job.Completed)
	reimage, full := y.request(t, one, decommission.Reimage), y.request(t, two, decommission.FullDecommission)
	y.becomes(t, reimage.ID, job.Completed)
	y.becomes(t, full.ID, job.Completed)
	lost := y.request(t, silent, decommission.Drain)
	testkit.Eventually(t, "the drain is queued", func() bool { return y.tasksOf(t, silent, agentwire.TypeDrain) == 1 })
	if _, err := y.service.Act(y.ctx, lost.ID, job.Cancel, "it is gone"); err != nil {
		t.Fatal(err)
	}
	y.becomes(t, lost.ID, job.Cancelled)
	for name, workflowID := range map[string]string{
		"soft_reset_resumed": parked.WorkflowID, "reimage": reimage.WorkflowID, "full_decommission": full.WorkflowID,
		"cancelled": lost.WorkflowID,
	} {
		durabletest.KeepHistory(t, temporal, workflowID, filepath.Join("testdata", "history_"+name+".json"))
	}
}
