package onboarding

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

// A place within the limits of a site is taken by every onboarding that runs,
// that is being undone, or that was admitted and has not started. Whoever gives
// a place back hands it on in the same transaction: to one that was asked for
// on its own first, then to the batches, whose workflows fill their share.
//
// All of it happens under one lock per site, taken after the locks of rows and
// before those of the outbox.

const (
	workflowType      = "MaasNodeOnboardWorkflow"
	batchWorkflowType = "MaasNodeBatchOnboardWorkflow"
	// turnSignal tells the workflow of a batch that there may be something to do.
	turnSignal = "turn"
)

// WorkflowID is the id of the workflow of an onboarding.
func WorkflowID(job id.Onboarding) string { return "onboarding-" + job.String() }

// BatchWorkflowID is the id of the workflow of a batch.
func BatchWorkflowID(batch id.OnboardingBatch) string { return "onboarding-batch-" + batch.String() }

// Slots says how many onboardings of a site are in work, and how many may be.
func (s *Service) Slots(ctx context.Context, of id.Site) (used, limit int, err error) {
	places, err := s.rows.Places(ctx, s.db, of, "")
	return int(places.OfSite), int(places.SiteLimit), err
}

// admitSingles gives free places to onboardings that were asked for on their
// own, oldest first, and starts them. The places are locked.
func (s *Service) admitSingles(ctx context.Context, tx pgx.Tx, of id.Site) error {
	places, err := s.rows.Places(ctx, tx, of, "")
	if err != nil {
		return err
	}
	free := places.SiteLimit - places.OfSite
	if free <= 0 {
		return nil
	}
	admitted, err := s.rows.AdmitSingles(ctx, tx, of, free, s.now())
	if err != nil {
		return err
	}
	for _, o := range admitted {
		if err := outbox.StartWorkflow(ctx, tx, s.jobs.Start(o)); err != nil {
			return err
		}
	}
	return nil
}

// handOn passes a place of a site on. Call it last in a transaction that gave
// one back.
func (s *Service) handOn(ctx context.Context, tx pgx.Tx, of id.Site) error {
	if err := s.rows.LockPlaces(ctx, tx, of); err != nil {
		return err
	}
	if err := s.admitSingles(ctx, tx, of); err != nil {
		return err
	}
	waiting, err := onboardingdb.New(tx).WaitingBatches(ctx, of)
	if err != nil {
		return fmt.Errorf("list waiting batches: %w", err)
	}
	for _, batch := range waiting {
		if err := tellBatch(ctx, tx, batch); err != nil {
			return err
		}
	}
	return nil
}

// Tend hands out places that nobody gave back: a limit was raised, or what waits
// was forgotten.
func (s *Service) Tend(ctx context.Context) error {
	sites, err := s.reads.PendingSites(ctx)
	if err != nil {
		return fmt.Errorf("list sites with pending onboardings: %w", err)
	}
	for _, of := range sites {
		err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.handOn(ctx, tx, of) })
		if err != nil {
			return err
		}
	}
	return nil
}

func tellBatch(ctx context.Context, tx pgx.Tx, batch id.OnboardingBatch) error {
	return outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{WorkflowID: BatchWorkflowID(batch), Name: turnSignal, Start: batchStart(batch)})
}

func batchStart(batch id.OnboardingBatch) *outbox.WorkflowStart {
	return &outbox.WorkflowStart{
		Type: batchWorkflowType, ID: BatchWorkflowID(batch), Queue: durable.TaskQueue, Input: BatchInput{ID: batch},
		Marks: map[string]string{durable.MarkBatch: batch.String()},
	}
}

func marksOf(o Onboarding) map[string]string {
	if o.Batch.IsZero() {
		return nil
	}
	return map[string]string{durable.MarkBatch: o.Batch.String()}
}

// Admitted is an onboarding whose workflow the workflow of its batch starts.
type Admitted struct {
	ID       id.Onboarding `json:"id"`
	Hostname string        `json:"hostname"`
}

// Admission is what the workflow of a batch does next.
type Admission struct {
	Start   []Admitted `json:"start,omitempty"`
	Waiting int        `json:"waiting"` // that have no place yet
	Site    id.Site    `json:"site"`
}

// admitBatch gives a batch its share of the free places, after those that were
// asked for on their own. Repeating it names those that were admitted and have
// not begun once more. The batch is locked, so that none is admitted once
// somebody was told that it is paused.
func (s *Service) admitBatch(ctx context.Context, batch id.OnboardingBatch) (Admission, error) {
	var out Admission
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := onboardingdb.New(tx)
		b, err := s.lockBatch(ctx, tx, batch)
		if err != nil {
			return err
		}
		if err := s.rows.LockPlaces(ctx, tx, b.Site); err != nil {
			return err
		}
		if err := s.admitSingles(ctx, tx, b.Site); err != nil {
			return err
		}
		if b.PausedAt == nil && b.CancelledAt == nil {
			if err := s.fillBatch(ctx, tx, b); err != nil {
				return err
			}
		}
		out, err = admissionOf(ctx, q, b)
		return err
	})
	return out, err
}

// lockBatch reads a batch and locks it.
func (s *Service) lockBatch(ctx context.Context, tx pgx.Tx, batch id.OnboardingBatch) (Batch, error) {
	if _, err := s.rows.LockBatch(ctx, tx, batch.String()); err != nil {
		return Batch{}, err
	}
	r, err := onboardingdb.New(tx).Batch(ctx, batch)
	return s.batchFound(r, err)
}

func (s *Service) fillBatch(ctx context.Context, tx pgx.Tx, b Batch) error {
	limit, err := onboardingdb.New(tx).BatchLimit(ctx, b.Profile)
	if err != nil {
		return fmt.Errorf("read limit of batch: %w", err)
	}
	places, err := s.rows.Places(ctx, tx, b.Site, b.ID.String())
	if err != nil {
		return err
	}
	free := min(places.SiteLimit-places.OfSite, limit-places.OfBatch)
	if free <= 0 {
		return nil
	}
	_, err = s.rows.AdmitOfBatch(ctx, tx, b.ID.String(), free, s.now())
	return err
}

func admissionOf(ctx context.Context, q *onboardingdb.Queries, b Batch) (Admission, error) {
	out := Admission{Site: b.Site}
	rows, err := q.AdmittedOfBatch(ctx, b.ID)
	if err != nil {
		return out, fmt.Errorf("list admitted onboardings: %w", err)
	}
	for _, r := range rows {
		out.Start = append(out.Start, Admitted{ID: r.ID, Hostname: r.Hostname})
	}
	waiting, err := q.PendingOfBatch(ctx, b.ID)
	if err != nil {
		return out, fmt.Errorf("count waiting onboardings: %w", err)
	}
	out.Waiting = int(waiting)
	return out, nil
}
