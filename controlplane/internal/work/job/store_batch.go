package job

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/work/job/internal/jobdb"
)

// InsertBatch adds a batch, with the statements that add the family's own columns
// of it. It returns the batch as it will be read.
func (s *Rows[R, W]) InsertBatch(ctx context.Context, tx pgx.Tx, n Batch, own ...Statement) (Batch, error) {
	n.RequestedAt, n.RequestedBy, n.life = n.RequestedAt.Truncate(time.Microsecond), auth.From(ctx).ID, s.life
	n.Counts = map[Status]int{s.life.Table.Initial[0]: n.Total}
	p := jobdb.InsertBatchParams{
		ID: n.ID.String(), Family: s.noun, Total: few(n.Total), MaxFailures: small(n.MaxFailures), Reason: n.Reason,
		RequestedBy: n.RequestedBy, CorrelationID: telemetry.Correlation(ctx), RequestedAt: n.RequestedAt,
	}
	if n.MaxParallel > 0 {
		p.MaxParallel = small(&n.MaxParallel)
	}
	var b together
	b.add(Prepared(jobdb.InsertBatch, p))
	b.add(own...)
	if err := b.sendIn(ctx, tx); err != nil {
		return n, fmt.Errorf("insert batch: %w", err)
	}
	return n, nil
}

// Batches reads batches with the counts of their jobs, newest first.
func (s *Rows[R, W]) Batches(ctx context.Context, page postgres.Slice[id.JobBatch]) ([]Batch, error) {
	return s.batches(ctx, s.db, jobdb.BatchesParams{
		Family: s.noun, Ids: []string{}, After: page.After.String(), PageSize: page.Limit,
	})
}

// Batch reads a batch with the counts of its jobs.
func (s *Rows[R, W]) Batch(ctx context.Context, db jobdb.DBTX, batch id.JobBatch) (Batch, error) {
	list, err := s.batches(ctx, db, jobdb.BatchesParams{
		Family: s.noun, Ids: []string{batch.String()}, After: id.JobBatch{}.String(), PageSize: 1,
	})
	if err != nil || len(list) == 1 {
		return first(list), err
	}
	return Batch{}, fault.New(fault.NotFound, s.noun+"_batch_not_found", "there is no such batch").
		WithRemedy("list them with: gpuaas %s batch list", s.noun)
}

func first(list []Batch) (b Batch) {
	if len(list) > 0 {
		b = list[0]
	}
	return b
}

func (s *Rows[R, W]) batches(ctx context.Context, db jobdb.DBTX, p jobdb.BatchesParams) ([]Batch, error) {
	rows, err := jobdb.New(db).Batches(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read batches: %w", err)
	}
	out, ids, at := make([]Batch, len(rows)), make([]string, len(rows)), map[string]int{}
	for i, r := range rows {
		b := r.JobBatch
		of, err := id.Parse[id.JobBatch](b.ID)
		if err != nil {
			return nil, err
		}
		out[i] = Batch{
			ID: of, Total: int(b.Total), MaxParallel: int(r.Places), Reason: b.Reason, RequestedBy: b.RequestedBy,
			RequestedAt: b.RequestedAt, PausedAt: b.PausedAt, PausedBy: b.PausedBy, PausedByName: b.PausedByName,
			PauseReason: b.PauseReason, Halted: b.Halted, CancelledAt: b.CancelledAt, Counts: map[Status]int{}, life: s.life,
		}
		if b.MaxFailures != nil {
			most := int(*b.MaxFailures)
			out[i].MaxFailures = &most
		}
		ids[i], at[b.ID] = b.ID, i
	}
	counts, err := jobdb.New(db).BatchCounts(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("count jobs of batches: %w", err)
	}
	for _, r := range counts {
		out[at[*r.BatchID]].Counts[Status(r.Status)] = int(r.Number)
	}
	return out, nil
}

// setBatch keeps what may change of a batch. The places are locked.
func (s *Rows[R, W]) setBatch(ctx context.Context, tx pgx.Tx, b Batch) error {
	err := jobdb.New(tx).SetBatch(ctx, jobdb.SetBatchParams{
		ID: b.ID.String(), PausedAt: b.PausedAt, PausedBy: b.PausedBy, PausedByName: b.PausedByName,
		PauseReason: b.PauseReason, Halted: b.Halted, CancelledAt: b.CancelledAt, MaxFailures: small(b.MaxFailures),
	})
	if err != nil {
		return fmt.Errorf("change batch: %w", err)
	}
	return nil
}

// small is a limit as rows have it; nil stays nil.
func small(n *int) *int32 {
	if n == nil {
		return nil
	}
	out := few(*n)
	return &out
}

// cancelWaiting ends the jobs of a batch that have not begun.
func (s *Rows[R, W]) cancelWaiting(ctx context.Context, tx pgx.Tx, batch, reason string, now time.Time) ([]R, error) {
	cancel, waiting := s.life.Having(UndoesAndEnds), s.life.In(Waiting)
	if len(cancel) == 0 || len(waiting) == 0 {
		return nil, fault.New(fault.Internal, "nothing_cancels", "no action cancels a %s", s.noun)
	}
	status, err := s.life.Table.Next(waiting[0], cancel[0])
	if err != nil {
		return nil, err
	}
	details, err := EncodeDetails(map[string]any{"action": cancel[0], "batch_id": batch, "actor": auth.From(ctx).ID})
	if err != nil {
		return nil, err
	}
	jobs, err := jobdb.New(tx).CancelWaiting(ctx, jobdb.CancelWaitingParams{
		BatchID: &batch, Status: string(status), Action: string(cancel[0]), Message: reason,
		Details: details, Now: now,
	})
	if err != nil {
		return nil, fmt.Errorf("cancel waiting jobs: %w", err)
	}
	slices.Sort(jobs)
	return s.Of(ctx, tx, jobs)
}

// Slots says how many places of a site are held by jobs of each family, and how
// many there are.
func (s *Rows[R, W]) Slots(ctx context.Context, of id.Site) (held map[string]int, limit int, err error) {
	q := jobdb.New(s.db)
	most, err := q.SiteLimit(ctx, of.String())
	if err != nil {
		return nil, 0, fmt.Errorf("read limit of site: %w", err)
	}
	rows, err := q.HoldersAtSite(ctx, of.String())
	if err != nil {
		return nil, 0, fmt.Errorf("count places in use: %w", err)
	}
	held = map[string]int{}
	for _, r := range rows {
		held[r.Family] = int(r.Held)
	}
	return held, int(most), nil
}

// Queue implements Store.
func (s *Rows[R, W]) Queue(ctx context.Context, j Job) (q Queue, err error) {
	r, err := jobdb.New(s.db).Queue(ctx, j.ID)
	if err != nil {
		return q, fmt.Errorf("read what job waits in: %w", err)
	}
	q = Queue{site: r.Site, batchHeld: int(r.OfBatch)}
	if r.BatchLimit != nil {
		q.batchLimit = int(*r.BatchLimit)
	}
	if r.Site != "" {
		if q.siteHeld, q.siteLimit, err = s.Slots(ctx, j.Site); err != nil {
			return q, err
		}
	}
	if j.Batch != "" {
		of, err := id.Parse[id.JobBatch](j.Batch)
		if err != nil {
			return q, err
		}
		b, err := s.Batch(ctx, s.db, of)
		if err != nil {
			return q, err
		}
		q.batch = &b
	}
	return q, nil
}
