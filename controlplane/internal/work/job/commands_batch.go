package job

import (
	"context"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/work/job/internal/jobdb"
)

// Batches decides about the batches of a family. It is safe for concurrent use.
type Batches[R Row, W Extended] struct {
	*Rows[R, W]
	runner *Runner[R, W]
}

// NewBatches makes what decides about the batches of a family.
func NewBatches[R Row, W Extended](rows *Rows[R, W], runner *Runner[R, W]) *Batches[R, W] {
	return &Batches[R, W]{rows, runner}
}

// Pause begins no further job of a batch; those that run go on.
func (s *Batches[R, W]) Pause(ctx context.Context, batch id.JobBatch, reason string) error {
	return s.change(ctx, batch, "pause", reason, func(b Batch) Batch {
		if b.PausedAt == nil {
			now, who := s.runner.now(), auth.From(ctx)
			b.PausedAt, b.PausedBy, b.PausedByName, b.PauseReason = &now, who.ID, who.Name, reason
		}
		return b
	})
}

// Resume goes on with a batch that is paused, in spite of what failed so far. If
// more than that fails, the batch is halted again.
func (s *Batches[R, W]) Resume(ctx context.Context, batch id.JobBatch, reason string) error {
	return s.change(ctx, batch, "resume", reason, func(b Batch) Batch {
		b.PausedAt, b.PausedBy, b.PausedByName, b.PauseReason, b.Halted = nil, "", "", "", false
		if b.MaxFailures != nil {
			most := max(*b.MaxFailures, b.Failures())
			b.MaxFailures = &most
		}
		return b
	})
}

// change pauses or resumes a batch. If the batch is so already, nothing happens.
func (s *Batches[R, W]) change(ctx context.Context, batch id.JobBatch, verb, reason string,
	change func(Batch) Batch,
) error {
	reason, err := stated(reason)
	if err != nil {
		return err
	}
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockPlaces(ctx, tx); err != nil {
			return err
		}
		before, err := s.Batch(ctx, tx, batch)
		if err != nil {
			return err
		}
		if before.CancelledAt != nil {
			return fault.New(fault.Conflict, "batch_cancelled", "the batch was cancelled: %s is not possible any more", verb).
				WithRemedy("act on its jobs one by one, or ask for another batch")
		}
		after := change(before)
		if (after.PausedAt == nil) == (before.PausedAt == nil) {
			return nil
		}
		if err := s.setBatch(ctx, tx, after); err != nil {
			return err
		}
		if err := s.Audit(ctx, tx, verb, after, reason, nil); err != nil || after.PausedAt != nil {
			return err
		}
		return s.Admit(ctx, tx, batch.String(), s.runner.now())
	})
}

// Cancel ends a batch. In one transaction it ends the jobs that have not begun;
// then it cancels the others one by one, where that is possible. Repeating it
// cancels those that are left after a crash.
func (s *Batches[R, W]) Cancel(ctx context.Context, batch id.JobBatch, reason string) error {
	reason, err := stated(reason)
	if err != nil {
		return err
	}
	if err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return s.cancelIn(ctx, tx, batch, reason)
	}); err != nil {
		return err
	}
	of := batch.String()
	live, err := jobdb.New(s.db).LiveOfBatch(ctx, &of)
	if err != nil {
		return fmt.Errorf("list live jobs of batch: %w", err)
	}
	for _, job := range live {
		_, err := s.runner.Act(ctx, job, s.life.Having(UndoesAndEnds)[0], reason)
		if err != nil && fault.KindOf(err) != fault.Conflict { // it ended meanwhile, or cannot be cancelled any more
			return err
		}
	}
	return nil
}

func (s *Batches[R, W]) cancelIn(ctx context.Context, tx pgx.Tx, batch id.JobBatch, reason string) error {
	if _, err := s.Batch(ctx, tx, batch); err != nil {
		return err
	}
	now := s.runner.now()
	ended, err := s.cancelWaiting(ctx, tx, batch.String(), reason, now)
	if err != nil {
		return err
	}
	for _, row := range ended {
		told := Event{Stage: row.Common().Stage, Status: OperatorAction, Message: reason}
		if err := s.runner.hooks.Announce(ctx, tx, row, Announcement{Kind: AnnounceCancelled, Event: told}); err != nil {
			return err
		}
		countMove(ctx, s.noun, Job{}, row.Common())
	}
	if err := lockPlaces(ctx, tx); err != nil {
		return err
	}
	b, err := s.Batch(ctx, tx, batch)
	if err != nil || b.CancelledAt != nil {
		return err
	}
	b.CancelledAt, b.PausedAt, b.Halted = &now, nil, false
	if err := s.setBatch(ctx, tx, b); err != nil {
		return err
	}
	if err := s.Audit(ctx, tx, "cancel", b, reason, nil); err != nil {
		return err
	}
	sites := map[string]bool{}
	for _, row := range ended {
		j := row.Common()
		if sites[j.Site.String()] {
			continue
		}
		sites[j.Site.String()] = true
		if err := s.HandOn(ctx, tx, j, now); err != nil {
			return err
		}
	}
	return nil
}

// Audit writes who did what to a batch.
func (s *Batches[R, W]) Audit(ctx context.Context, tx pgx.Tx, verb string, b Batch, reason string,
	metadata map[string]any,
) error {
	noted := map[string]any{"total": b.Total}
	if b.MaxParallel > 0 {
		noted["max_parallel"] = b.MaxParallel
	}
	if b.MaxFailures != nil {
		noted["max_failures"] = *b.MaxFailures
	}
	maps.Copy(noted, metadata)
	return audit.Record(ctx, tx, audit.Entry{
		Action: s.noun + "_batch." + verb, TargetKind: s.noun + "_batch", TargetID: b.ID.String(), Result: audit.Success,
		Reason: reason, Metadata: noted,
	})
}
