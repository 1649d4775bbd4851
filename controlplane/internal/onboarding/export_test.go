package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/id"
)

// RunStage is the activity of every stage.
func (s *Service) RunStage(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
	return s.runStage(ctx, call)
}

// LoseStage is the activity that records that a stage brought no answer.
func (s *Service) LoseStage(ctx context.Context, call durable.StageCall, loss durable.StageLoss) (durable.Turn, error) {
	return s.loseStage(ctx, call, loss)
}

// AdmitBatch is the activity of the workflow of a batch.
func (s *Service) AdmitBatch(ctx context.Context, batch id.OnboardingBatch) (Admission, error) {
	return s.admitBatch(ctx, batch)
}

// NextTurn is the activity that reads the row.
func (s *Service) NextTurn(ctx context.Context, job string) (durable.Turn, error) {
	return s.nextTurn(ctx, job)
}

// RunOne is one attempt at one stage.
func (s *Service) RunOne(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
	return s.runOne(ctx, call, false)
}
