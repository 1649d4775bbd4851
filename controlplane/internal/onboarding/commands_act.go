package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/id"
)

// Act does what an operator decided about an onboarding.
func (s *Service) Act(ctx context.Context, of id.Onboarding, action durable.JobEvent, reason string) (Onboarding, error) {
	return s.jobs.Act(ctx, of.String(), action, reason)
}
