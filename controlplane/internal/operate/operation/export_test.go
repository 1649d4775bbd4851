package operation

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
)

// Turn takes one turn with a run.
func (s *Service) Turn(ctx context.Context, of id.Operation) (Look, error) { return s.turn(ctx, of) }
