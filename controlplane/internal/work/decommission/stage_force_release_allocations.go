package decommission

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
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

// forceRelease sees that nobody works on the node any more. What a tenant had was
// ended with the request; a request of an earlier version could not.
func (s *Service) forceRelease(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	var had *Tenancy
	err := s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, _ node.Node) (err error) {
		if had, err = s.allocations.Of(ctx, tx, d.Node); err != nil {
			return err
		}
		return s.takeOver(ctx, tx, had, d)
	})
	if fault.CodeOf(err) == durable.CodeSuperseded {
		return job.Result{}, err
	}
	if err != nil {
		f := bringup.Classify(err)
		if f.Class != bringup.UpstreamTransient {
			f.Called(codeAllocationsRemain).Final = false
		}
		return job.Result{}, f
	}
	if had == nil {
		return skipped("no tenant has the node: there is nothing to end"), nil
	}
	return job.Result{
		Message: fmt.Sprintf("the work of the tenant has ended: allocation %s of project %s", had.ID, had.Project),
		Details: map[string]any{"allocation_id": had.ID},
	}, nil
}
