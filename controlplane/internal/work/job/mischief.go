package job

import (
	"context"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
)

// Mischief is what goes wrong around stages, for simulations of faults.
type Mischief[W Extended] interface {
	// Around runs a stage, or does not, or does so twice; what it returns is the
	// outcome.
	Around(ctx context.Context, call durable.StageCall, w W, stage func(context.Context, W) (Result, error)) (Result, error)
}

// ErrKilled is what Mischief returns to play a worker that dies at this very
// moment: nothing is recorded, and Temporal gives the stage to another one.
var ErrKilled = fault.New(fault.Unavailable, codeKilled, "the worker was killed in the middle of a stage")

// The codes that the runner itself gives.
const (
	codeKilled = "worker_killed"
	codeLost   = "stage_lost"
	codeDefect = "stage_defect"
)

type peace[W Extended] struct{}

func (peace[W]) Around(ctx context.Context, _ durable.StageCall, w W, stage func(context.Context, W) (Result, error)) (Result, error) {
	return stage(ctx, w)
}
