package job

import (
	"context"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
)

// Mischief is what goes wrong around stages, for simulations of faults.
type Mischief interface {
	// Around runs a stage, or does not, or does so twice; what it returns is the
	// outcome.
	Around(ctx context.Context, call durable.StageCall, w *bringup.Work, stage bringup.Stage) (bringup.Result, error)
}

// ErrKilled is what Mischief returns to play a worker that dies at this very
// moment: nothing is recorded, and Temporal gives the stage to another one.
var ErrKilled = fault.New(fault.Unavailable, codeKilled, "the worker was killed in the middle of a stage")

const codeKilled = "worker_killed"

type peace struct{}

func (peace) Around(ctx context.Context, _ durable.StageCall, w *bringup.Work, stage bringup.Stage) (bringup.Result, error) {
	return stage(ctx, w)
}
