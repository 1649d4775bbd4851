package job

import (
	"context"

	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/fault"
)

// Mischief is what goes wrong around stages, for simulations of faults.
type Mischief interface {
	// Before runs before a stage; its error is the outcome, and the stage is not run.
	Before(ctx context.Context, call durable.StageCall) error
	// After runs when a stage has ended; its error replaces the outcome.
	After(ctx context.Context, call durable.StageCall, outcome error) error
}

// ErrKilled is what Mischief returns to play a worker that dies at this very
// moment: nothing is recorded, and Temporal gives the stage to another one.
var ErrKilled = fault.New(fault.Unavailable, codeKilled, "the worker was killed in the middle of a stage")

const codeKilled = "worker_killed"

type peace struct{}

func (peace) Before(context.Context, durable.StageCall) error { return nil }

func (peace) After(context.Context, durable.StageCall, error) error { return nil }
