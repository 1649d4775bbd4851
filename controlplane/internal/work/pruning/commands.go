package pruning

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/work/pruning/internal/pruningdb"
)

const (
	// batch is how many rows one statement deletes, so that none holds locks for long.
	batch = 1000
	// budget is how long a request may delete. It is less than what a request may take.
	budget = 10 * time.Second
)

// Run is what was deleted.
type Run struct {
	Kinds    []Pruned
	Complete bool // nothing is left that the policy wants deleted
}

// Request deletes what is old, for a while. If time is up before all of it is
// deleted, the run is not complete and the caller asks again.
func (s *Service) Request(ctx context.Context) (Run, error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := pruningdb.New(tx).NoteRun(ctx, s.now()); err != nil {
			return fmt.Errorf("note that old rows are deleted: %w", err)
		}
		return s.begun(ctx, tx)
	})
	if err != nil {
		return Run{}, err
	}
	return s.run(ctx, s.now().Add(budget))
}

// Tend deletes what is old if that is due. Any number of workers may call it: one of
// them does it. What a crash leaves is deleted the next time.
func (s *Service) Tend(ctx context.Context) error {
	if s.policy.Every <= 0 {
		return nil
	}
	ctx = auth.With(ctx, auth.System("pruning"))
	mine := false
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		now := s.now()
		n, err := pruningdb.New(tx).ClaimRun(ctx, pruningdb.ClaimRunParams{At: now, Due: now.Add(-s.policy.Every)})
		if err != nil {
			return fmt.Errorf("take the run that deletes old rows: %w", err)
		}
		if mine = n > 0; !mine {
			return nil
		}
		return s.begun(ctx, tx)
	})
	if err != nil || !mine {
		return err
	}
	run, err := s.run(ctx, time.Time{})
	if err == nil {
		s.logger.InfoContext(ctx, "old rows deleted", "rows", counts(run.Kinds))
	}
	return err
}

// run deletes until nothing is left or time is up; until may be zero.
func (s *Service) run(ctx context.Context, until time.Time) (Run, error) {
	out, now := Run{Complete: true}, s.now()
	var failed error
	for _, k := range s.policy.Kinds {
		p := k.pruned(now)
		if p.Before != nil && out.Complete && failed == nil {
			out.Complete, failed = s.prune(ctx, k, &p, until)
		}
		out.Kinds = append(out.Kinds, p)
	}
	return out, s.ended(ctx, out, failed)
}

func (s *Service) prune(ctx context.Context, k Kind, p *Pruned, until time.Time) (complete bool, err error) {
	for {
		n, err := k.Rows.Prune(ctx, *p.Before, s.policy.KeepNewest, batch)
		if err != nil {
			return false, err
		}
		deleted.Add(ctx, n, k.Name)
		p.Rows += n
		switch {
		case n < batch:
			return true, nil
		case !until.IsZero() && !s.now().Before(until):
			return false, nil
		}
	}
}

// begun records the intent before anything is deleted: a crash must not leave
// deletions that nobody recorded.
func (s *Service) begun(ctx context.Context, tx pgx.Tx) error {
	before := map[string]any{}
	for _, k := range s.policy.Kinds {
		if p := k.pruned(s.now()); p.Before != nil {
			before[k.Name] = *p.Before
		}
	}
	return audit.Record(ctx, tx, audit.Entry{
		Action: "pruning.begin", TargetKind: "pruning", TargetID: "pruning", Result: audit.Success,
		Metadata: map[string]any{"before": before, "keep_newest": s.policy.KeepNewest},
	})
}

// ended records what was deleted, also if the caller has gone meanwhile.
func (s *Service) ended(ctx context.Context, run Run, failed error) error {
	outcome, result, reason := "complete", audit.Success, ""
	switch {
	case failed != nil:
		outcome, result, reason = "failed", audit.Failure, failed.Error()
	case !run.Complete:
		outcome = "partial"
	}
	runs.Add(ctx, 1, outcome)
	err := s.db.InTx(context.WithoutCancel(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			Action: "pruning.end", TargetKind: "pruning", TargetID: "pruning", Result: result, Reason: reason,
			Metadata: map[string]any{"deleted": counts(run.Kinds), "outcome": outcome},
		})
	})
	if failed != nil {
		return failed
	}
	return err
}

func counts(kinds []Pruned) map[string]int64 {
	out := map[string]int64{}
	for _, k := range kinds {
		out[k.Name] = k.Rows
	}
	return out
}
