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

// watch writes down which reservations lack nodes, as they are now: what is not used of them
// and not kept free either. Nodes that are being prepared for their owner, or repaired, are
// among those.
func (s *Service) watch(ctx context.Context) error {
	q := reserveddb.New(s.db)
	now, err := s.clock(ctx, q)
	if err != nil {
		return fmt.Errorf("read clock: %w", err)
	}
	running, err := q.Running(ctx, now)
	if err != nil {
		return fmt.Errorf("list who has reservations that run: %w", err)
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
		if err := s.note(ctx, r.OrgID, r.SkuID, kept); err != nil {
			failed = append(failed, fmt.Errorf("note what tenant %s lacks of %s: %w", r.OrgID, r.SkuID, err))
		}
	}
	return errors.Join(failed...)
}

// note writes down what the reservations of an owner lack, if that has changed. They are
// judged together: what is used counts for one of them as well as for another.
func (s *Service) note(ctx context.Context, org id.Org, sku string, kept map[id.Reservation]int64) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := reserveddb.New(tx)
		locked, err := q.LockOf(ctx, reserveddb.LockOfParams{OrgID: org, SkuID: sku})
		if err != nil {
			return fmt.Errorf("lock meters: %w", err)
		}
		now, err := s.clock(ctx, q) // after the lock: what was charged before it stays
		if err != nil {
			return fmt.Errorf("read clock: %w", err)
		}
		ids := make([]string, len(locked))
		for i, of := range locked {
			ids[i] = of.String()
		}
		rows, err := q.Judge(ctx, reserveddb.JudgeParams{At: now, OrgID: org.String(), SkuID: sku, Reservations: ids})
		if err != nil {
			return fmt.Errorf("count what is not used: %w", err)
		}
		all, had, inUse := holdings(rows, kept)
		for i, short := range lacking(all, inUse) {
			if had[i].Short == short {
				continue
			}
			if err := change(ctx, q, had[i].ReservationID, short, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// holdings are reservations as they were read, one row of each, and how many nodes are in
// use of each kind.
func holdings(rows []reserveddb.JudgeRow, kept map[id.Reservation]int64) (
	all []holding, first []reserveddb.JudgeRow, inUse []int64,
) {
	for i, r := range rows {
		if i == 0 || r.ReservationID != rows[i-1].ReservationID {
			all = append(all, holding{nodes: int64(r.Nodes), unused: r.Unused, kept: kept[r.ReservationID]})
			first = append(first, r)
		}
		if r.Kind == 0 { // nothing is in use
			continue
		}
		of := &all[len(all)-1]
		of.fits = append(of.fits, r.Fits)
		if len(of.fits) > len(inUse) {
			inUse = append(inUse, r.InUse)
		}
	}
	return all, first, inUse
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
