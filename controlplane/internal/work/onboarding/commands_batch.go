package onboarding

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

// PauseBatch begins no further onboarding of a batch; those that run go on.
func (s *Service) PauseBatch(ctx context.Context, batch id.OnboardingBatch, reason string) (Batch, error) {
	return s.changeBatch(ctx, batch, "pause", reason, func(_ context.Context, _ pgx.Tx, b Batch) (Batch, error) {
		if b.PausedAt == nil {
			now := s.now()
			b.PausedAt = &now
		}
		return b, nil
	})
}

// ResumeBatch goes on with a batch that was paused.
func (s *Service) ResumeBatch(ctx context.Context, batch id.OnboardingBatch, reason string) (Batch, error) {
	return s.changeBatch(ctx, batch, "resume", reason, func(_ context.Context, _ pgx.Tx, b Batch) (Batch, error) {
		b.PausedAt = nil
		return b, nil
	})
}

// CancelBatch ends a batch: onboardings that have not begun are cancelled at
// once, those that run or are being restarted are told to. Parked ones stay as
// they are.
func (s *Service) CancelBatch(ctx context.Context, batch id.OnboardingBatch, reason string) (Batch, error) {
	return s.changeBatch(ctx, batch, "cancel", reason, func(ctx context.Context, tx pgx.Tx, b Batch) (Batch, error) {
		if b.CancelledAt != nil {
			return b, nil
		}
		now := s.now()
		b.CancelledAt, b.PausedAt = &now, nil
		return b, s.cancelAll(ctx, tx, b, reason)
	})
}

func (s *Service) cancelAll(ctx context.Context, tx pgx.Tx, b Batch, reason string) error {
	q := onboardingdb.New(tx)
	details, err := job.EncodeDetails(map[string]any{"action": job.Cancel, "batch_id": b.ID, "actor": auth.From(ctx).ID})
	if err != nil {
		return err
	}
	cancelled, err := s.rows.CancelWaiting(ctx, tx, b.ID.String(), reason, details, s.now())
	if err != nil {
		return err
	}
	freed := false
	var events []outbox.Event
	for _, o := range cancelled {
		freed = freed || o.AdmittedAt != nil
		events = append(events, happening(eventwire.NodeOnboardingCancelled, o, job.Event{Stage: o.Stage, Status: job.OperatorAction, Message: reason}))
	}
	live, err := q.LiveOfBatch(ctx, b.ID)
	if err != nil {
		return fmt.Errorf("list live onboardings: %w", err)
	}
	for _, of := range live {
		o, err := s.rows.Lock(ctx, tx, of.String())
		if err != nil {
			return err
		}
		if o.Status != job.Running && !family.Restarting(o) && !o.Parked() {
			continue // it ended meanwhile
		}
		if _, err := s.jobs.ActIn(ctx, tx, o, job.Cancel, reason); err != nil {
			return err
		}
	}
	if err := outbox.Append(ctx, tx, events...); err != nil {
		return err
	}
	if freed {
		return s.handOn(ctx, tx, b.Site)
	}
	return nil
}

// changeBatch changes a batch and tells its workflow. What is so already is
// left alone.
func (s *Service) changeBatch(
	ctx context.Context, batch id.OnboardingBatch, verb, reason string, change func(context.Context, pgx.Tx, Batch) (Batch, error),
) (Batch, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" {
		return Batch{}, fault.New(fault.Invalid, "reason_missing", "an action needs a reason, which goes into the audit log")
	}
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, err := s.lockBatch(ctx, tx, batch)
		if err != nil {
			return err
		}
		if before.CancelledAt != nil && verb != "cancel" {
			return fault.New(fault.Conflict, "batch_cancelled", "the batch was cancelled: %s is not possible any more", verb).
				WithRemedy("its onboardings can still be acted on one by one")
		}
		after, err := change(ctx, tx, before)
		if err != nil || after.PausedAt == before.PausedAt && after.CancelledAt == before.CancelledAt {
			return err
		}
		if err := s.rows.SetBatch(ctx, tx, job.Batch{ID: batch.String(), PausedAt: after.PausedAt, CancelledAt: after.CancelledAt}); err != nil {
			return err
		}
		if err := recordBatch(ctx, tx, "onboarding_batch."+verb, after, reason, map[string]any{}); err != nil {
			return err
		}
		return tellBatch(ctx, tx, batch)
	})
	if err != nil {
		return Batch{}, err
	}
	return s.Batch(ctx, batch)
}
