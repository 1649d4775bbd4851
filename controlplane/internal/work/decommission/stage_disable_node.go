package decommission

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageDisable names the stage "Take it out of scheduling".
const StageDisable = "disable_node"

var _ = catalog.Declare(job.Stage{
	Name: StageDisable, Title: "Take it out of scheduling", Attempts: databaseRetryCount, Resume: StageDisable,
	Looks:    "the state of the node and who holds it",
	Does:     "holds the node, and lets it drain where the mode takes it out of service",
	Expects:  "nothing new is scheduled on the node",
	Again:    "a node that it holds already is left so",
	OnCancel: letGo,
	Fails: []job.FailureMode{
		inventoryAway,
		{Class: bringup.StateAmbiguity, When: "another operation holds the node, a tenant got it meanwhile, or its state does not allow it"},
	},
}, hooks.disable)

// The code of failures that only this stage has.
var codeAllocated = job.DeclareCode(job.Code{
	Name: "node_allocated", Class: bringup.StateAmbiguity,
	Cause: "A tenant got the node while this turnover was waiting to start.",
	Remedy: "cancel this job; then release the allocation, or request the turnover again with end_allocation " +
		"(--end-allocation)",
	Runbook: "decommission-parked",
	Mends:   job.Mends{bringup.Decommission: job.Cancel},
})

// disable holds the node, and drains it if the mode takes it out of service. A
// retired node becomes active on its way, but stays held.
func (s *Service) disable(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	var after node.Node
	err := s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, n node.Node) error {
		err := s.unrented(ctx, tx, d)
		if err != nil {
			return err
		}
		if after, err = s.hold(ctx, tx, d, n); err != nil || !d.Mode.leaves() || d.installed(w, n) {
			return err
		}
		if n.Status == node.Retired && d.Mode == Reimage {
			if n, err = node.Move(ctx, tx, d.Node, node.Reactivate, d.cause()); err != nil {
				return err
			}
		}
		switch n.Status {
		case node.Active, node.Offline, node.Quarantined:
			after, err = node.Move(ctx, tx, d.Node, node.Drain, d.cause())
		// it has got further already
		case node.Draining, node.Retired, node.Enrolling, node.Removing, node.Deleted, node.BootstrapIssued:
			after = n
		}
		return err
	})
	return job.Result{Message: fmt.Sprintf("%s is %s and out of scheduling", d.Hostname, after.Status)}, err
}

// unrented refuses to touch a node that was given to a tenant after the operation
// was asked for: nobody was told whose work that would end. After a tenant that has
// left meanwhile, the operation is what cleans up.
func (s *Service) unrented(ctx context.Context, tx pgx.Tx, d Decommission) error {
	t, err := s.allocations.Of(ctx, tx, d.Node)
	if err != nil || t == nil || t.Cleanup == d.ID {
		return err
	}
	if !t.Live {
		return s.takeOver(ctx, tx, t, d)
	}
	return codeAllocated.Failed("%s was given to a tenant after this operation was asked for: %s", d.Hostname, t).
		ForGood().About(map[string]any{"allocation_id": t.ID})
}
