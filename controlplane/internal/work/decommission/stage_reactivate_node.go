package decommission

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageReactivate names the stage "Accept its agent again".
const StageReactivate = "reactivate_node"

var _ = catalog.Declare(job.Stage{
	Name: StageReactivate, Title: "Accept its agent again", Attempts: databaseRetryCount, Resume: StageReactivate,
	Looks:    "the state of the node",
	Does:     "makes the retired node active, but holds it",
	Expects:  "the node is active and held",
	Again:    looksFirst,
	OnCancel: "the node is held until somebody retires it anew",
	Fails:    []job.FailureMode{inventoryAway},
}, hooks.reactivate)

// reactivate lets the agent of a retired node in again. The node stays held
// until it is proven clean.
func (s *Service) reactivate(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	err := s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, n node.Node) error {
		if _, err := s.hold(ctx, tx, d, n); err != nil {
			return err
		}
		if n.Status != node.Retired {
			return nil
		}
		_, err := node.Move(ctx, tx, d.Node, node.Reactivate, d.cause())
		return err
	})
	return job.Result{Message: d.Hostname + " is active again, and held until it is proven clean"}, err
}
