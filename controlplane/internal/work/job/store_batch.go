package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/work/job/internal/jobdb"
)

// Batch is jobs that were asked for together.
type Batch struct {
	ID          string
	Total       int
	MaxParallel *int32 // that hold a place at once; nil: as many as the family says
	MaxFailures *int32 // if more failed, no further one is begun; nil: that does not matter
	Reason      string
	RequestedAt time.Time
	PausedAt    *time.Time
	CancelledAt *time.Time
}

// InsertBatch adds a batch, with the statements that add what the family keeps of
// it.
func (s *Rows[R, W]) InsertBatch(ctx context.Context, tx pgx.Tx, n Batch, own ...Statement) error {
	var b together
	b.add(Prepared(jobdb.InsertBatch, jobdb.InsertBatchParams{
		ID: n.ID, Family: s.noun, Total: int32(n.Total), MaxParallel: n.MaxParallel, MaxFailures: n.MaxFailures, //nolint:gosec // families bound it
		Reason:      n.Reason,
		RequestedBy: auth.From(ctx).ID, CorrelationID: telemetry.Correlation(ctx), RequestedAt: n.RequestedAt,
	}))
	b.add(own...)
	if err := b.sendIn(ctx, tx); err != nil {
		return fmt.Errorf("insert batch: %w", err)
	}
	return nil
}

// NoBatch says that there is no such batch.
func (s *Rows[R, W]) NoBatch() error {
	return fault.New(fault.NotFound, s.noun+"_batch_not_found", "there is no such batch").
		WithRemedy("list them with: gpuaas %s batch list", s.noun)
}

// LockBatch reads a batch and locks it.
func (s *Rows[R, W]) LockBatch(ctx context.Context, tx pgx.Tx, batch string) (Batch, error) {
	r, err := jobdb.New(tx).LockBatch(ctx, jobdb.LockBatchParams{ID: batch, Family: s.noun})
	if errors.Is(err, pgx.ErrNoRows) {
		return Batch{}, s.NoBatch()
	}
	if err != nil {
		return Batch{}, fmt.Errorf("lock batch: %w", err)
	}
	return Batch{
		ID: r.ID, Total: int(r.Total), MaxParallel: r.MaxParallel, MaxFailures: r.MaxFailures, Reason: r.Reason,
		RequestedAt: r.RequestedAt, PausedAt: r.PausedAt, CancelledAt: r.CancelledAt,
	}, nil
}

// SetBatch keeps what may change of a batch.
func (s *Rows[R, W]) SetBatch(ctx context.Context, tx pgx.Tx, b Batch) error {
	err := jobdb.New(tx).SetBatch(ctx, jobdb.SetBatchParams{
		ID: b.ID, PausedAt: b.PausedAt, CancelledAt: b.CancelledAt, MaxFailures: b.MaxFailures,
	})
	if err != nil {
		return fmt.Errorf("change batch: %w", err)
	}
	return nil
}

// Counts says how many jobs of batches stand how.
func (s *Rows[R, W]) Counts(ctx context.Context, db jobdb.DBTX, batches ...string) (map[string]map[Status]int, error) {
	out := make(map[string]map[Status]int, len(batches))
	for _, b := range batches {
		out[b] = map[Status]int{}
	}
	rows, err := jobdb.New(db).BatchCounts(ctx, batches)
	if err != nil {
		return nil, fmt.Errorf("count jobs of batches: %w", err)
	}
	for _, r := range rows {
		out[*r.BatchID][Status(r.Status)] = int(r.Number)
	}
	return out, nil
}

// Places says how many places of a site and of a batch are held.
type Places struct{ SiteLimit, OfSite, OfBatch int32 }

// LockPlaces makes a transaction the only one that hands out places of a site.
func (s *Rows[R, W]) LockPlaces(ctx context.Context, tx pgx.Tx, at id.Site) error {
	if err := jobdb.New(tx).LockPlaces(ctx, at.String()); err != nil {
		return fmt.Errorf("lock places of site: %w", err)
	}
	return nil
}

// Places counts the places of a site that are held, and those of a batch; empty:
// of none.
func (s *Rows[R, W]) Places(ctx context.Context, db jobdb.DBTX, at id.Site, batch string) (Places, error) {
	r, err := jobdb.New(db).Places(ctx, jobdb.PlacesParams{Family: s.noun, SiteID: at, BatchID: optional(batch)})
	if err != nil {
		return Places{}, fmt.Errorf("count places in use: %w", err)
	}
	return Places(r), nil
}

// HeldOfBatch counts the places that jobs of a batch hold.
func (s *Rows[R, W]) HeldOfBatch(ctx context.Context, tx pgx.Tx, batch string) (int32, error) {
	held, err := jobdb.New(tx).HeldOfBatch(ctx, &batch)
	if err != nil {
		return 0, fmt.Errorf("count places in use: %w", err)
	}
	return held, nil
}

// AdmitSingles gives so many places of a site to jobs that were asked for on their
// own, oldest first.
func (s *Rows[R, W]) AdmitSingles(ctx context.Context, tx pgx.Tx, at id.Site, most int32, now time.Time) ([]R, error) {
	jobs, err := jobdb.New(tx).AdmitSingles(ctx, jobdb.AdmitSinglesParams{Now: now, Family: s.noun, SiteID: at, Most: most})
	if err != nil {
		return nil, fmt.Errorf("admit jobs: %w", err)
	}
	return s.Of(ctx, tx, jobs)
}

// AdmitOfBatch gives so many places to jobs of a batch, in their order.
func (s *Rows[R, W]) AdmitOfBatch(ctx context.Context, tx pgx.Tx, batch string, most int32, now time.Time) ([]R, error) {
	jobs, err := jobdb.New(tx).AdmitOfBatch(ctx, jobdb.AdmitOfBatchParams{Now: now, BatchID: &batch, Most: most})
	if err != nil {
		return nil, fmt.Errorf("admit jobs of batch: %w", err)
	}
	return s.Of(ctx, tx, jobs)
}

// CancelWaiting ends the jobs of a batch that have not begun.
func (s *Rows[R, W]) CancelWaiting(ctx context.Context, tx pgx.Tx, batch, reason string, details json.RawMessage, now time.Time) ([]R, error) {
	cancel := s.life.Having(UndoesAndEnds)
	waiting := s.life.In(Waiting)
	if len(cancel) == 0 || len(waiting) == 0 {
		return nil, fault.New(fault.Internal, "nothing_cancels", "no action cancels a %s", s.noun)
	}
	status, err := s.life.Table.Next(waiting[0], cancel[0])
	if err != nil {
		return nil, err
	}
	jobs, err := jobdb.New(tx).CancelWaiting(ctx, jobdb.CancelWaitingParams{
		BatchID: &batch, Status: string(status), Action: string(cancel[0]), Message: reason, Details: details,
		Now: now,
	})
	if err != nil {
		return nil, fmt.Errorf("cancel waiting jobs: %w", err)
	}
	slices.Sort(jobs)
	return s.Of(ctx, tx, jobs)
}
