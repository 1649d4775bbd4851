package onboarding

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/job"
)

// Batch is a group of onboardings that were requested together.
type Batch struct {
	job.Batch
	ID      id.OnboardingBatch
	Site    id.Site
	Profile id.Profile
	SKU     string
}

// Batch reads a batch and counts its onboardings by status.
func (s *Service) Batch(ctx context.Context, batch id.OnboardingBatch) (Batch, error) {
	b, err := s.batches.Batch(ctx, s.db, id.JobBatch(batch))
	if err != nil {
		return Batch{}, err
	}
	list, err := s.withOwn(ctx, []job.Batch{b})
	if err != nil {
		return Batch{}, err
	}
	return list[0], nil
}

// withOwn adds the columns that only onboardings have.
func (s *Service) withOwn(ctx context.Context, batches []job.Batch) ([]Batch, error) {
	out, ids, at := make([]Batch, len(batches)), make([]string, len(batches)), map[id.OnboardingBatch]int{}
	for i, b := range batches {
		out[i] = Batch{Batch: b, ID: id.OnboardingBatch(b.ID)}
		ids[i], at[out[i].ID] = b.ID.String(), i
	}
	rows, err := s.reads.OwnOfBatches(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read batches of onboardings: %w", err)
	}
	for _, r := range rows {
		b := &out[at[r.BatchID]]
		b.Site, b.Profile, b.SKU = r.SiteID, r.ProfileID, r.SkuID
	}
	return out, nil
}

// BatchWorkflowID is the id of the workflow of a batch.
func BatchWorkflowID(batch string) string { return "onboarding-batch-" + batch }

// wakeBatch signals the workflow of a batch that some of its onboardings have
// places, and starts the workflow if there is none.
func wakeBatch(batch string) outbox.WorkflowSignal {
	return outbox.WorkflowSignal{WorkflowID: BatchWorkflowID(batch), Name: turnSignal, Start: &outbox.WorkflowStart{
		Type: batchWorkflowType, ID: BatchWorkflowID(batch), Queue: durable.TaskQueue, Input: job.Input{ID: batch},
		Marks: map[string]string{durable.MarkBatch: batch},
	}}
}

// admission reads which onboardings of a batch have a place but have not begun,
// and how many have no place yet.
func (s *Service) admission(ctx context.Context, batch id.OnboardingBatch) (Admission, error) {
	b, err := s.Batch(ctx, batch)
	if err != nil {
		return Admission{}, err
	}
	rows, err := s.reads.PendingOfBatch(ctx, batch)
	if err != nil {
		return Admission{}, fmt.Errorf("list pending onboardings of batch: %w", err)
	}
	out := Admission{Site: b.Site}
	for _, r := range rows {
		if r.AdmittedAt == nil {
			out.Waiting++
			continue
		}
		out.Start = append(out.Start, Admitted{ID: r.ID, Hostname: r.Hostname})
	}
	return out, nil
}
