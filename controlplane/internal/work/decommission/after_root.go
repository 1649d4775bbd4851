package decommission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// performer runs a stage of this package.
type performer = func(hooks, context.Context, Decommission, *bringup.Work) (job.Result, error)

// afterRoot says whether a stage asks the installation of a tenant who had root,
// in the operation that cleans up after that tenant. The tenant decides whether
// that installation answers, and what it says counts for nothing: such a stage
// must not keep the machine from being released.
func (s *Service) afterRoot(ctx context.Context, d Decommission, stage string) (bool, error) {
	if d.Mode != Reimage || !slices.Contains(beforeRelease, stage) {
		return false, nil
	}
	n, err := s.nodes.Node(ctx, d.Node)
	if err != nil || !n.Root.Stands() {
		return false, err
	}
	t, err := s.allocations.Of(ctx, s.db, d.Node)
	return err == nil && t != nil && t.Cleanup == d.ID, err
}

// tryOldAgent runs a stage on the installation of a tenant who had root. If the
// agent fails, or is not done within its patience, the operation goes on without
// it: the new installation cleans everything again.
func (h hooks) tryOldAgent(ctx context.Context, d Decommission, stage string, w *bringup.Work, perform performer) (
	job.Result, error,
) {
	result, err := perform(h, ctx, d, w)
	var failed *job.Failure
	why := "its agent is not done in time"
	switch {
	case errors.As(err, &failed):
		why = failed.Message
	case err != nil || result.Await == nil:
		return result, err
	default:
		left, err := h.patienceLeft(ctx, d, h.patienceOf(w, errand{}))
		if err != nil {
			return result, err
		}
		if left > 0 {
			result.Await.Most = min(result.Await.Most, left)
			return result, nil
		}
	}
	if err := w.Fence(ctx); err != nil { // without the fence this would stop tasks of the next epoch
		return job.Result{}, err
	}
	if err := h.tasks.CancelOf(ctx, d.Node, d.WorkflowID, "the old installation is not waited for"); err != nil {
		return job.Result{}, err
	}
	return skipped(fmt.Sprintf("a tenant had root on this installation, and %s is not waited for: %s; MAAS releases the machine, and the new installation is cleaned",
		stage, why)), nil
}

// patienceLeft returns how long the oldest unfinished task of an operation may
// still take, counted from when it was given.
func (s *Service) patienceLeft(ctx context.Context, d Decommission, patience time.Duration) (time.Duration, error) {
	tasks, err := agenttask.LiveOf(ctx, s.db, d.Node, d.WorkflowID)
	left := patience
	for _, t := range tasks {
		left = min(left, t.CreatedAt.Add(patience).Sub(s.now()))
	}
	return left, err
}
