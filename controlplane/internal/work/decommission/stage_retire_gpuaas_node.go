package decommission

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageRetire names the stage "Retire".
const StageRetire = "retire_gpuaas_node"

var _ = catalog.Declare(job.Stage{
	Name: StageRetire, Title: "Retire", Attempts: databaseRetryCount, Resume: StageRetire,
	Looks:    "the state of the node",
	Does:     "makes it retired",
	Expects:  "the node is retired",
	Again:    looksFirst,
	OnCancel: nothingUndone,
	Fails:    []job.FailureMode{inventoryAway, {Class: bringup.StateAmbiguity, When: "the node is not draining"}},
}, hooks.retire)

// retire ends the drain and retires the node.
func (s *Service) retire(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	err := s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, n node.Node) error {
		if n.Status.Is(node.Out) {
			return nil
		}
		if d.Mode == Retire && n.Tainted() { // a drain does not clean the node, and says so
			return tainted(d, "somebody got access to it after it was validated")
		}
		_, err := node.Move(ctx, tx, d.Node, node.Drained, d.cause())
		return err
	})
	return job.Result{Message: d.Hostname + " is retired"}, err
}
