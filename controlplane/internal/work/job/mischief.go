package job

import (
	"context"

	"gpuaas/controlplane/internal/engine/durable"
)

// Mischief makes things go wrong around stages, to simulate faults.
type Mischief[W Extended] interface {
	// Around runs a stage, or does not, or does so twice; what it returns is the
	// outcome.
	Around(ctx context.Context, call durable.StageCall, w W, stage func(context.Context, W) (Result, error)) (Result,
		error)
}

type peace[W Extended] struct{}

func (peace[W]) Around(ctx context.Context, _ durable.StageCall, w W,
	stage func(context.Context, W) (Result, error),
) (Result, error) {
	return stage(ctx, w)
}
