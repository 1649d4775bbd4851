package decommission

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission/internal/decommissiondb"
	"gpuaas/controlplane/internal/work/job"
)

var _ = catalog.Declare(job.Stage{
	Name: job.StageCompensate, Title: "Undo", Attempts: 3, Limit: job.Limit(site.StageRelease), Pseudo: true,
	Looks:   "how far the operation came",
	Does:    "cancels the task that is under way, and returns the node to what it was where nothing was destroyed",
	Expects: "the node has an owner or a state of its own",
	Again:   looksFirst,
	Fails:   []job.FailureMode{maasAway, inventoryAway},
}, hooks.letGo)

// letGo undoes an operation as far as possible: it cancels the running task
// and, when that has ended, returns the node to a state that needs no owner. A
// released machine cannot be brought back.
func (s *Service) letGo(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	if err := w.Fence(ctx); err != nil {
		return job.Result{}, err
	}
	if err := s.tasks.CancelOf(ctx, d.Node, d.WorkflowID, "the operation that gave it was stopped"); err != nil {
		return job.Result{}, err
	}
	busy, err := s.busy(ctx, d)
	if err != nil || busy != nil {
		return job.Result{Await: busy}, err
	}
	w.Facts.Left = nil
	if d.Mode == Reimage && released(w) { // give up the installation that has begun since
		if err := s.bringup.Compensate(ctx, w); err != nil {
			return job.Result{}, err
		}
	}
	if w.Reset { // a restart keeps its node
		return job.Result{Left: w.Facts.Left}, nil
	}
	err = s.free(ctx, d, w)
	return job.Result{Left: w.Facts.Left}, err
}

// busy returns what to wait for while the agent still runs a task of the
// operation: a disk that is being erased must not go to a tenant. If the agent
// falls silent, the task expires after a while.
func (s *Service) busy(ctx context.Context, d Decommission) (await *job.Await, err error) {
	tasks, err := agenttask.LiveOf(ctx, s.db, d.Node, d.WorkflowID)
	for _, t := range tasks {
		if t, err = s.tasks.TellWhenEnded(ctx, t.ID, d.WorkflowID); err != nil {
			return nil, err
		}
		if !t.Status.Ended() {
			await = &job.Await{Signal: agenttask.SignalName(t.ID), Most: agentwire.Lease}
		}
	}
	return await, err
}

// free returns the node to a state that needs no owner, and releases the hold.
func (s *Service) free(ctx context.Context, d Decommission, w *bringup.Work) error {
	leave := func(format string, args ...any) { w.Facts.Left = append(w.Facts.Left, fmt.Sprintf(format, args...)) }
	return s.inNode(ctx, d, w, func(ctx context.Context, tx pgx.Tx, n node.Node) error {
		after, err := s.back(ctx, tx, d, w, n)
		if err != nil || after.Status == node.Deleted {
			return err
		}
		leave("node %s is %s", d.Hostname, after.Status)
		drained, err := d.drained(ctx, tx)
		if err != nil {
			return err
		}
		t, err := s.allocations.Of(ctx, tx, d.Node)
		if err != nil {
			return err
		}
		untouched := t != nil && t.Live && !drained // what taints the node is the tenant who works on it
		if serves := after.Status.Is(node.Serving); serves && !untouched && (after.Tainted() || drained) {
			if _, err := node.KeepOut(ctx, tx, d.Node, d.cause()+" was stopped, and the node is not proven clean"); err != nil {
				return err
			}
			leave("it is held, because it is not proven clean: %s",
				or(remedyOf(after.Incredible()), "gpuaas node reset "+d.Hostname+""))
		}
		_, err = node.Unhold(ctx, tx, d.Node, d.holder(), d.cause()+" was stopped")
		return err
	})
}

// onAgent are the stages that change a node through its agent.
var onAgent = []string{StageDrain, StageStorage, StageScrub, StageStorageAgain, StageScrubAgain}

// drained says whether the agent may be refusing users or may have left disks
// half cleaned: it was given a task, at whatever stage the operation is now.
func (d Decommission) drained(ctx context.Context, tx pgx.Tx) (bool, error) {
	if d.Mode == Reactivate {
		return true, nil
	}
	began, err := decommissiondb.New(tx).Began(ctx, decommissiondb.BeganParams{JobID: d.ID.String(), Stages: onAgent})
	if err != nil {
		return false, fmt.Errorf("look for what the agent was given: %w", err)
	}
	return began, nil
}

// back moves a node whose operation was stopped to a state that needs no owner.
func (s *Service) back(ctx context.Context, tx pgx.Tx, d Decommission, w *bringup.Work, n node.Node) (node.Node,
	error,
) {
	gone := w.Facts.Release != nil && w.Facts.Release.RequestedAt != nil
	switch n.Status {
	case node.Draining:
		if gone {
			w.Facts.Left = append(w.Facts.Left, "the machine was released: what was on it is gone")
			return node.Move(ctx, tx, d.Node, node.Drained, d.cause()+" was stopped after the machine was released")
		}
		return s.asBefore(ctx, tx, d)
	case node.Enrolling: // a reimage that was under way
		return node.Move(ctx, tx, d.Node, node.Quarantine, d.cause()+" was stopped in the middle")
	case node.Removing:
		return node.Move(ctx, tx, d.Node, node.UninstallFailed, d.cause()+" was stopped")
	case node.Active, node.Offline, node.Quarantined, node.Retired, node.Deleted, node.BootstrapIssued:
	}
	return n, nil
}

// asBefore returns a draining node to its earlier state. A node that was out of
// service for another reason stays out of service.
func (s *Service) asBefore(ctx context.Context, tx pgx.Tx, d Decommission) (node.Node, error) {
	stopped := d.cause() + " was stopped"
	if d.Origin == node.Retired {
		return node.Move(ctx, tx, d.Node, node.Drained, stopped)
	}
	after, err := node.Move(ctx, tx, d.Node, node.DrainFailed, stopped)
	if err != nil || d.Origin != node.Quarantined {
		return after, err
	}
	q, err := node.LastQuarantined(ctx, tx, d.Node)
	if err != nil {
		return node.Node{}, err
	}
	why := q.Cause
	if !ofValidation(q) {
		why = fmt.Sprintf("%s; "+quarantinedBefore+"%s", stopped, or(why, "nobody said why"))
	}
	return node.Move(ctx, tx, d.Node, node.Quarantine, why)
}
