package metering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/metering/internal/meteringdb"
)

// batch is how many meters are looked for at once.
const batch = 200

// Service holds the commands of the package. Any number of replicas may run side by
// side.
type Service struct {
	db    *postgres.DB
	every time.Duration
	clock func(context.Context, *meteringdb.Queries) (time.Time, error) // of the database, except in tests
}

// New makes the service. What goes on is charged every so often. It connects to
// nothing.
func New(db *postgres.DB, every time.Duration) *Service {
	return &Service{db: db, every: every, clock: func(ctx context.Context, q *meteringdb.Queries) (time.Time, error) {
		return q.Now(ctx)
	}}
}

// Open opens the meter of an allocation, in the transaction that makes it. What has
// no account is not metered.
func (s *Service) Open(ctx context.Context, tx pgx.Tx, t account.Terms) error {
	if t.Basis == account.NoAccount {
		return nil
	}
	if err := meteringdb.New(tx).Open(ctx, meteringdb.OpenParams{AllocationID: t.Allocation, OrgID: t.Org}); err != nil {
		return fmt.Errorf("open meter: %w", err)
	}
	return nil
}

// Tend charges everything that is due. What fails does not hold up the rest, and is
// tried again with the next call.
func (s *Service) Tend(ctx context.Context) error {
	ctx = auth.With(ctx, auth.System("metering"))
	var failed []error
	tried := []string{}
	for {
		due, err := s.due(ctx, tried)
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("look for meters: %w", err))...)
		}
		for _, of := range due {
			if err := s.charge(ctx, of); err != nil {
				failed = append(failed, fmt.Errorf("charge allocation %s: %w", of, err))
			}
			tried = append(tried, of.String())
		}
		if len(due) < batch || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}

// due are meters to charge, other than those that were tried.
func (s *Service) due(ctx context.Context, tried []string) ([]id.Allocation, error) {
	q := meteringdb.New(s.db)
	now, err := s.clock(ctx, q)
	if err != nil {
		return nil, err
	}
	return q.Due(ctx, meteringdb.DueParams{NotSince: now.Add(-s.every), Tried: tried, Batch: batch})
}

// charge books what an allocation costs until now, or until its end.
func (s *Service) charge(ctx context.Context, of id.Allocation) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := meteringdb.New(tx)
		r, found, err := s.read(ctx, q, of)
		if err != nil || !found {
			return err
		}
		if w, some := r.window(s.every); some {
			if err := book(ctx, tx, q, r, w); err != nil {
				return err
			}
		}
		if err := relieve(ctx, tx, q, r); err != nil {
			return err
		}
		if !r.over() {
			return nil
		}
		if err := q.Close(ctx, of); err != nil {
			return fmt.Errorf("close meter: %w", err)
		}
		return nil
	})
}

// book charges a window.
func book(ctx context.Context, tx pgx.Tx, q *meteringdb.Queries, r reading, w ledger.Window) error {
	amount, err := r.Terms.Between(*r.Active, w.Start, w.End)
	if err != nil {
		return err
	}
	row := meteringdb.AddWindowParams{
		AllocationID: r.Allocation, Meter: w.Meter, StartsAt: w.Start, EndsAt: w.End, Follows: r.Until, AmountMinor: amount,
	}
	if amount > 0 {
		entry, err := ledger.Charge(ctx, tx, r.Org, r.Currency, w, amount)
		if err != nil {
			return err
		}
		row.EntryID = entry.ID
	}
	if err := q.AddWindow(ctx, row); err != nil {
		return fmt.Errorf("add window: %w", err)
	}
	if err := q.Charged(ctx, meteringdb.ChargedParams{AllocationID: r.Allocation, ChargedUntil: &w.End}); err != nil {
		return fmt.Errorf("note window: %w", err)
	}
	return nil
}

// relieve gives the time of repairs back that are over, each once.
func relieve(ctx context.Context, tx pgx.Tx, q *meteringdb.Queries, r reading) error {
	repairs, err := q.Repairs(ctx, r.Allocation)
	if err != nil {
		return fmt.Errorf("read repairs: %w", err)
	}
	for _, repair := range repairs {
		if r.Active == nil || repair.EndedAt == nil && !r.over() {
			continue
		}
		p := r.repaired(repair.BeganAt, repair.EndedAt)
		amount, err := r.Terms.Of(*r.Active, p)
		if err != nil {
			return err
		}
		if amount == 0 {
			continue
		}
		w := ledger.Window{Allocation: r.Allocation, Meter: Held, Start: p.From, End: p.To}
		if _, err := ledger.Relieve(ctx, tx, r.Org, r.Currency, w, amount, "repair "+repair.ID.String(),
			"the node was repaired: "+repair.Reason); err != nil {
			return err
		}
	}
	return nil
}
