package job

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/job/internal/jobdb"
)

// Unfinished implements Store.
func (s *Rows[R, W]) Unfinished(ctx context.Context, job string, epoch int64, stage string) (bool, error) {
	return jobdb.New(s.db).Unfinished(ctx, jobdb.UnfinishedParams{JobID: job, Epoch: epoch, Stage: stage})
}

// Events reads the ledger of a job in its order, after an entry (0: from the
// first).
func (s *Rows[R, W]) Events(ctx context.Context, job string, after int64, limit int32) ([]Event, error) {
	rows, err := jobdb.New(s.db).Events(ctx, jobdb.EventsParams{JobID: job, Seq: after, Limit: limit})
	return s.ledger(rows, err)
}

// Latest implements Store.
func (s *Rows[R, W]) Latest(ctx context.Context, job string, limit int32) ([]Event, error) {
	rows, err := jobdb.New(s.db).LatestEvents(ctx, jobdb.LatestEventsParams{JobID: job, Limit: limit})
	return s.ledger(rows, err)
}

func (s *Rows[R, W]) ledger(rows []jobdb.JobEvent, err error) ([]Event, error) {
	if err != nil {
		return nil, fmt.Errorf("read ledger of %s: %w", s.noun, err)
	}
	out := make([]Event, len(rows))
	for i, r := range rows {
		out[i] = Event{
			Seq: r.Seq, Epoch: r.Epoch, Stage: r.Stage, Attempt: int(r.Attempt), Status: EventStatus(r.Status),
			Message: r.Message, Details: r.Details, OccurredAt: r.OccurredAt,
		}
	}
	return out, nil
}

// Noticed implements Store.
func (s *Rows[R, W]) Noticed(ctx context.Context, tx pgx.Tx, job, seen string) (bool, error) {
	noticed, err := jobdb.New(tx).Noticed(ctx, jobdb.NoticedParams{JobID: job, Message: seen})
	if err != nil {
		return false, fmt.Errorf("read what was observed about %s: %w", s.noun, err)
	}
	return noticed, nil
}

// Note implements Store.
func (s *Rows[R, W]) Note(ctx context.Context, tx pgx.Tx, job string, e Event) error {
	err := jobdb.New(tx).InsertEvent(ctx, jobdb.InsertEventParams{
		JobID: job, Epoch: e.Epoch, Stage: e.Stage, Attempt: few(e.Attempt), Status: string(e.Status),
		Message: e.Message, Details: object(e.Details), OccurredAt: e.OccurredAt,
	})
	if err != nil {
		return fmt.Errorf("write into ledger of %s: %w", s.noun, err)
	}
	return nil
}

// TypicalSeconds says how long stages take at a site, or at all (the zero one), by
// kinds of jobs and names of stages.
func (s *Rows[R, W]) TypicalSeconds(
	ctx context.Context, at id.Site, kinds ...string,
) (map[string]map[string]float64, error) {
	rows, err := jobdb.New(s.db).TypicalSeconds(ctx, jobdb.TypicalSecondsParams{
		Family: s.noun, Kinds: kinds, SiteID: optional(textOf(at)), Jobs: TypicalOver,
	})
	if err != nil {
		return nil, fmt.Errorf("read how long stages take: %w", err)
	}
	out := make(map[string]map[string]float64, len(kinds))
	for _, kind := range kinds {
		out[kind] = map[string]float64{}
	}
	for _, r := range rows {
		out[r.Kind][r.Stage] = r.Seconds
	}
	return out, nil
}
