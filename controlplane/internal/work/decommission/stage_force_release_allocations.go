package decommission

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageForceRelease names the stage "End allocations".
const StageForceRelease = "force_release_allocations"

var _ = catalog.Declare(job.Stage{
	Name: StageForceRelease, Title: "End allocations", Attempts: 3, Resume: StageForceRelease,
	Looks:    "the allocations of the node",
	Does:     "ends those that are left",
	Expects:  "nobody has the node",
	Again:    looksFirst,
	OnCancel: letGo,
	Fails:    []job.FailureMode{{Class: bringup.StateAmbiguity, When: "allocations remain attached"}},
}, hooks.forceRelease)

// The code of failures that only this stage has.
var codeAllocationsRemain = job.DeclareCode(job.Code{
	Name: "allocations_remain", Class: bringup.StateAmbiguity,
	Cause:   "An allocation could not be ended.",
	Remedy:  "end the allocations of the node, then retry",
	Runbook: "decommission-parked",
})

// forceRelease ends what tenants have on the node.
func (s *Service) forceRelease(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	if s.allocations == nil {
		return skipped("nothing allocates nodes yet: there is nothing to end"), nil
	}
	if err := w.Fence(ctx); err != nil {
		return job.Result{}, err
	}
	released, err := s.allocations.ForceRelease(ctx, d.Node, d.Reason)
	if err != nil {
		f := bringup.Classify(err)
		if f.Class != bringup.UpstreamTransient {
			f.Called(codeAllocationsRemain).Final = false
		}
		return job.Result{}, f
	}
	return job.Result{Message: fmt.Sprintf("%d allocations were ended", released)}, nil
}
