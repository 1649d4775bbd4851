package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/job"
)

// Act does what an operator decided about an onboarding.
func (s *Service) Act(ctx context.Context, of id.Onboarding, action job.Trigger, reason string) (Onboarding, error) {
	return s.jobs.Act(ctx, of.String(), action, reason)
}
