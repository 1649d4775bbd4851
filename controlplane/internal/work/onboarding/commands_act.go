package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
)

// Act does what an operator decided about an onboarding.
func (s *Service) Act(ctx context.Context, of id.Onboarding, action durable.JobEvent, reason string) (Onboarding, error) {
	return s.jobs.Act(ctx, of.String(), action, reason)
}
