package reserved

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/reserved/internal/reserveddb"
)

// watch writes down for which reservations nodes are lacking, as they are now: what is not
// used of them and not kept free either. Nodes that are being prepared for their owner,
// or repaired, are among those.
func (s *Service) watch(ctx context.Context) error {
	q := reserveddb.New(s.db)
	now, err := s.clock(ctx, q)
	if err != nil {
		return fmt.Errorf("read clock: %w", err)
	}
	running, err := q.Running(ctx, now)
	if err != nil {
		return fmt.Errorf("list reservations that run: %w", err)
	}
	var failed []error
	var kept map[id.Reservation]int64
	for i, r := range running {
		if i == 0 || r.SkuID != running[i-1].SkuID {
			if kept, err = s.kept(ctx, r.SkuID); err != nil {
				failed, kept = append(failed, fmt.Errorf("count what is kept of %s: %w", r.SkuID, err)), nil
			}
		}
		if kept == nil { // nobody knows what there is: what was seen last goes on
			continue
		}
		if err := s.note(ctx, r.ReservationID, kept[r.ReservationID]); err != nil {
			failed = append(failed, fmt.Errorf("note what reservation %s lacks: %w", r.ReservationID, err))
		}
	}
	return errors.Join(failed...)
}

// note writes down what a reservation lacks, if that has changed.
func (s *Service) note(ctx context.Context, of id.Reservation, kept int64) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := reserveddb.New(tx)
		if _, err := q.Lock(ctx, of); errors.Is(err, pgx.ErrNoRows) {
			return nil // it is over, or somebody else has it
		} else if err != nil {
			return fmt.Errorf("lock meter: %w", err)
		}
		now, err := s.clock(ctx, q) // after the lock: what was charged before it stays
		if err != nil {
			return fmt.Errorf("read clock: %w", err)
		}
		row, err := q.Unused(ctx, reserveddb.UnusedParams{ReservationID: of, At: now})
		if err != nil {
			return fmt.Errorf("count what is not used: %w", err)
		}
		short := max(row.Unused-kept, 0)
		if short == row.Short {
			return nil
		}
		return change(ctx, q, of, short, now)
	})
}

func change(ctx context.Context, q *reserveddb.Queries, of id.Reservation, short int64, now time.Time) error {
	if err := q.EndShortage(ctx, reserveddb.EndShortageParams{ReservationID: of, At: now}); err != nil {
		return fmt.Errorf("end shortage: %w", err)
	}
	if short == 0 {
		return nil
	}
	if err := q.BeginShortage(ctx, reserveddb.BeginShortageParams{
		ReservationID: of, BeganAt: now, Nodes: int32(short), //nolint:gosec // at most the nodes of a reservation
	}); err != nil {
		return fmt.Errorf("begin shortage: %w", err)
	}
	return nil
}
