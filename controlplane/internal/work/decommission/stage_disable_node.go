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
		{Class: bringup.StateAmbiguity, When: "another operation holds the node, or its state does not allow it"},
	},
}, hooks.disable)

// disable holds the node, and drains it if the mode takes it out of service. A
// retired node becomes active on its way, but stays held.
func (s *Service) disable(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	var after node.Node
	err := s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, n node.Node) error {
		var err error
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
