package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/job"
)

// Act carries out an operator's action on an onboarding.
func (s *Service) Act(ctx context.Context, of id.Onboarding, action job.Trigger, reason string) (Onboarding, error) {
	return s.jobs.Act(ctx, of.String(), action, reason)
}

// parkedOf returns the parked onboardings of a batch.
func (s *Service) parkedOf(ctx context.Context, batch id.JobBatch) ([]Onboarding, error) {
	of := id.OnboardingBatch(batch)
	if _, err := s.Batch(ctx, of); err != nil {
		return nil, err
	}
	return s.List(ctx, Filter{Batch: of, Statuses: job.Parking.In(job.Parked)},
		postgres.Slice[id.Onboarding]{Limit: MaxBatch})
}
