package onboarding

import (
	"context"
	"slices"
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

// Admission is the activity of the workflow of a batch.
func (s *Service) Admission(ctx context.Context, batch id.OnboardingBatch) (Admission, error) {
	return s.admission(ctx, batch)
}

// PauseBatch begins no further onboarding of a batch.
func (s *Service) PauseBatch(ctx context.Context, batch id.OnboardingBatch, reason string) (Batch, error) {
	return s.changed(ctx, batch, s.batches.Pause(ctx, id.JobBatch(batch), reason))
}

// ResumeBatch goes on with a batch that is paused.
func (s *Service) ResumeBatch(ctx context.Context, batch id.OnboardingBatch, reason string) (Batch, error) {
	return s.changed(ctx, batch, s.batches.Resume(ctx, id.JobBatch(batch), reason))
}

// CancelBatch ends a batch.
func (s *Service) CancelBatch(ctx context.Context, batch id.OnboardingBatch, reason string) (Batch, error) {
	return s.changed(ctx, batch, s.batches.Cancel(ctx, id.JobBatch(batch), reason))
}

func (s *Service) changed(ctx context.Context, batch id.OnboardingBatch, err error) (Batch, error) {
	if err != nil {
		return Batch{}, err
	}
	return s.Batch(ctx, batch)
}

// Slots says how many places of a site are in use, and how many there are.
func (s *Service) Slots(ctx context.Context, of id.Site) (used, limit int, err error) {
	held, limit, err := s.rows.Slots(ctx, of)
	for _, n := range held {
		used += n
	}
	return used, limit, err
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

// Stages lists the stages in order.
func Stages() []job.Stage { return slices.Clone(stages) }
