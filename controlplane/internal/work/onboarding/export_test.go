package onboarding

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/job"
)

// RunStage is the activity of every stage.
func (s *Service) RunStage(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
	return s.jobs.RunStage(ctx, call)
}

// LoseStage is the activity that records that a stage brought no answer.
func (s *Service) LoseStage(ctx context.Context, call durable.StageCall, loss durable.StageLoss) (durable.Turn, error) {
	return s.jobs.LoseStage(ctx, call, loss)
}

// AdmitBatch is the activity of the workflow of a batch.
func (s *Service) AdmitBatch(ctx context.Context, batch id.OnboardingBatch) (Admission, error) {
	return s.admitBatch(ctx, batch)
}

// NextTurn is the activity that reads the row.
func (s *Service) NextTurn(ctx context.Context, job string) (durable.Turn, error) {
	return s.jobs.NextTurn(ctx, job)
}

// RunOne is one attempt at one stage.
func (s *Service) RunOne(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
	return s.jobs.RunOne(ctx, call)
}

// StageOf finds a stage, or a pseudo stage, by its name.
func StageOf(name string) (job.Stage, bool) { return table.Of(name) }

// LegalActions lists what an operator may do now.
func LegalActions(o Onboarding) []job.Trigger { return family.LegalActions(o) }

// Recommend ranks the legal actions, best first.
func Recommend(o Onboarding) []job.Advice { return family.Recommend(o) }

// Explain says how an onboarding stands.
func Explain(o Onboarding, events []job.Event, now time.Time) Explanation {
	return explanationOf(family.Explain(o, events, now))
}
