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
	"gpuaas/controlplane/internal/money/rating"
)

// batch is how many meters are looked for at once.
const batch = 200

// Config is what the package needs.
type Config struct {
	DB      *postgres.DB
	Every   time.Duration    // how often what goes on is charged
	Silence time.Duration    // silence of an agent that lasts for so long is given back
	Most    time.Duration    // how much of one repair or quarantine is given back; zero: all of it
	Clock   func() time.Time // nil: that of the database
}

// Service holds the commands of the package. Any number of replicas may run side by
// side.
type Service struct {
	db                   *postgres.DB
	every, silence, most time.Duration
	clock                func(context.Context, *meteringdb.Queries) (time.Time, error)
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{db: cfg.DB, every: cfg.Every, silence: cfg.Silence, most: cfg.Most}
	s.clock = func(ctx context.Context, q *meteringdb.Queries) (time.Time, error) {
		if cfg.Clock != nil {
			return cfg.Clock(), nil
		}
		return q.Now(ctx)
	}
	return s
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
	var after meteringdb.DueRow
	for {
		due, err := s.due(ctx, after)
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("look for meters: %w", err))...)
		}
		for _, of := range due {
			if err := s.charge(ctx, of.AllocationID); err != nil {
				failed = append(failed, fmt.Errorf("charge allocation %s: %w", of.AllocationID, err))
			}
			after = of
		}
		if len(due) < batch || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}

// due are the next meters to charge, after one of them.
func (s *Service) due(ctx context.Context, after meteringdb.DueRow) ([]meteringdb.DueRow, error) {
	q := meteringdb.New(s.db)
	now, err := s.clock(ctx, q)
	if err != nil {
		return nil, err
	}
	return q.Due(ctx, meteringdb.DueParams{
		NotSince: now.Add(-s.every), AfterOrg: after.OrgID.String(), AfterAllocation: after.AllocationID.String(),
		Batch: batch,
	})
}

// charge books what an allocation costs until now, or until its end.
func (s *Service) charge(ctx context.Context, of id.Allocation) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := meteringdb.New(tx)
		r, found, err := s.read(ctx, tx, q, of)
		if err != nil || !found {
			return err
		}
		for {
			w, some := r.window(s.every)
			if !some {
				break
			}
			if err := book(ctx, tx, q, r, w); err != nil {
				return err
			}
			r.Until = &w.End
		}
		if err := s.relieve(ctx, tx, q, r); err != nil {
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

// relieve gives the time back in which the tenant could not use the node, each second
// once, as soon as it was charged.
func (s *Service) relieve(ctx context.Context, tx pgx.Tx, q *meteringdb.Queries, r reading) error {
	if r.Active == nil {
		return nil
	}
	back, err := given(ctx, q, r)
	if err != nil {
		return err
	}
	outages, err := s.outages(ctx, q, r)
	if err != nil {
		return err
	}
	for _, o := range outages {
		pieces := r.owed(o, back)
		if len(pieces) == 0 {
			continue
		}
		amount, err := r.relief(back, pieces)
		if err != nil {
			return err
		}
		if amount == 0 {
			continue // it is too little, and counts with what follows
		}
		// What lies between two pieces was given back before, so the window is given back whole.
		whole := rating.Period{From: pieces[0].From, To: pieces[len(pieces)-1].To}
		back = append(back, whole)
		if err := giveBack(ctx, tx, r, whole, amount, o.reference, o.reason); err != nil {
			return err
		}
	}
	p, some := r.beyond()
	if !some {
		return nil
	}
	amount, err := r.excess(p, back)
	if err != nil {
		return err
	}
	return giveBack(ctx, tx, r, p, amount, "after the release", "it was charged beyond its end, because a clock went back")
}

// giveBack books a relief of something.
func giveBack(
	ctx context.Context, tx pgx.Tx, r reading, p rating.Period, amount int64, reference, reason string,
) error {
	if amount <= 0 {
		return nil
	}
	_, err := ledger.Relieve(ctx, tx, r.Org, r.Currency, ledger.Window{
		Allocation: r.Allocation, Meter: Held, Start: p.From, End: p.To,
	}, amount, reference, reason)
	return err
}
