package reserved

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/rating"
	"gpuaas/controlplane/internal/money/reserved/internal/reserveddb"
)

const (
	// batch is how many meters are looked for at once.
	batch = 200
	// longestWindow is the longest time that one entry charges: windows end with their month.
	longestWindow = 31 * 24 * time.Hour
)

// Kept says how many free nodes are kept now for each reservation of a SKU that runs;
// reservation.Service.Kept does.
type Kept func(ctx context.Context, sku string) (map[id.Reservation]int64, error)

// Config is what the package needs.
type Config struct {
	DB    *postgres.DB
	Kept  Kept
	Every time.Duration    // how often what goes on is charged
	Clock func() time.Time // nil: that of the database
}

// Service holds the commands of the package. Any number of replicas may run side by
// side.
type Service struct {
	db    *postgres.DB
	kept  Kept
	every time.Duration
	clock func(context.Context, *reserveddb.Queries) (time.Time, error)
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	s := &Service{db: cfg.DB, kept: cfg.Kept, every: cfg.Every}
	s.clock = func(ctx context.Context, q *reserveddb.Queries) (time.Time, error) {
		if cfg.Clock != nil {
			return cfg.Clock(), nil
		}
		return q.Now(ctx)
	}
	return s
}

// Reservation is a reservation that is to be charged.
type Reservation struct {
	ID               id.Reservation
	Region           string
	Nodes            int32
	StartsAt, EndsAt time.Time
}

// Begin says from when on something can be reserved for a tenant. Until the transaction
// ends, nobody else reserves for it or charges what it has reserved of the SKU, so no
// reservation begins in a time that is charged.
func (s *Service) Begin(ctx context.Context, tx pgx.Tx, org id.Org, sku string) (time.Time, error) {
	q := reserveddb.New(tx)
	if err := q.Alone(ctx, reserveddb.AloneParams{Sku: sku, Org: org.String()}); err != nil {
		return time.Time{}, fmt.Errorf("wait for charges of what is reserved: %w", err)
	}
	at, err := s.clock(ctx, q)
	if err != nil {
		return time.Time{}, fmt.Errorf("read clock: %w", err)
	}
	return at, nil
}

// Affordable refuses a reservation so expensive that a month of it could not be booked.
func Affordable(t account.Terms, nodes int32) error {
	month, err := t.Rating().Until(t.FrozenAt, t.FrozenAt.Add(longestWindow))
	if err == nil && month <= rating.MostAmount/int64(nodes) {
		return nil
	}
	if err != nil && !errors.Is(err, rating.ErrBounds) {
		return err
	}
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
		WithFields(fault.Field{Path: "body.nodes", Message: "must be fewer: a month of so many would cost more than can be booked"})
}

// Freeze agrees on what a reservation costs and opens its meter, in the transaction that
// makes it.
func (s *Service) Freeze(ctx context.Context, tx pgx.Tx, r Reservation, t account.Terms) error {
	q := reserveddb.New(tx)
	if err := q.Freeze(ctx, reserveddb.FreezeParams{
		ReservationID: r.ID, OrgID: t.Org, ProjectID: t.Project, SkuID: t.SKU, RegionCode: r.Region, Nodes: r.Nodes,
		StartsAt: r.StartsAt, EndsAt: r.EndsAt, Currency: t.Currency, PriceID: t.Price, PriceMinor: t.Minor,
		PaidShare: t.Paid, Units: t.Units,
	}); err != nil {
		return fmt.Errorf("freeze terms of reservation: %w", err)
	}
	if err := q.Open(ctx, reserveddb.OpenParams{ReservationID: r.ID, OrgID: t.Org}); err != nil {
		return fmt.Errorf("open meter of reservation: %w", err)
	}
	return nil
}

// Cost is what was agreed for a reservation, and what it has come to.
type Cost struct {
	Currency    string
	Price       id.Price
	Minor       int64 // of a unit of a node that is not used, for an hour
	Paid, Units int32
	Unused      int64 // how many nodes are charged now
	Hour        int64 // what an hour costs now, rounded up
	Until       int64 // what it has cost until now
}

// Costs are what reservations cost; those that are not charged are not among them.
func (s *Service) Costs(ctx context.Context, of []id.Reservation) (map[id.Reservation]Cost, error) {
	out := map[id.Reservation]Cost{}
	if len(of) == 0 {
		return out, nil
	}
	q := reserveddb.New(s.db)
	now, err := s.clock(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read clock: %w", err)
	}
	ids := make([]string, len(of))
	for i, r := range of {
		ids[i] = r.String()
	}
	rows, err := q.Costs(ctx, reserveddb.CostsParams{At: now, Reservations: ids})
	if err != nil {
		return nil, fmt.Errorf("read what reservations cost: %w", err)
	}
	for _, r := range rows {
		out[r.ReservationID] = Cost{
			Currency: r.Currency, Price: r.PriceID, Minor: r.PriceMinor, Paid: r.PaidShare, Units: r.Units,
			Unused: r.Unused, Hour: r.HourMinor, Until: r.CostMinor,
		}
	}
	return out, nil
}

// Tend writes down what is lacking now, and charges everything that is due. What fails
// does not hold up the rest, and is tried again with the next call.
func (s *Service) Tend(ctx context.Context) error {
	ctx = auth.With(ctx, auth.System("metering"))
	return errors.Join(s.watch(ctx), s.chargeDue(ctx))
}

func (s *Service) chargeDue(ctx context.Context) error {
	q := reserveddb.New(s.db)
	var failed []error
	var after reserveddb.DueRow
	for {
		now, err := s.clock(ctx, q)
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("read clock: %w", err))...)
		}
		due, err := q.Due(ctx, reserveddb.DueParams{
			Now: now, NotSince: now.Add(-s.every), AfterOrg: after.OrgID.String(),
			AfterReservation: after.ReservationID.String(), Batch: batch,
		})
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("look for reservations: %w", err))...)
		}
		for _, of := range due {
			if err := s.charge(ctx, of.ReservationID); err != nil {
				failed = append(failed, fmt.Errorf("charge reservation %s: %w", of.ReservationID, err))
			}
			after = of
		}
		if len(due) < batch || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}

// charge books what a reservation costs until now, or until its end.
func (s *Service) charge(ctx context.Context, of id.Reservation) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := reserveddb.New(tx)
		owner, err := q.Lock(ctx, of)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it is closed, or somebody else has it
		}
		if err != nil {
			return fmt.Errorf("lock meter: %w", err)
		}
		now, err := s.Begin(ctx, tx, owner.OrgID, owner.SkuID)
		if err != nil {
			return err
		}
		// After the clock: whoever is about to use a node or to leave it has an earlier time and
		// is waited for, or gets a later one.
		if err := q.LockUses(ctx, reserveddb.LockUsesParams(owner)); err != nil {
			return fmt.Errorf("wait for those who rent: %w", err)
		}
		row, err := q.Read(ctx, of)
		if err != nil {
			return fmt.Errorf("read meter: %w", err)
		}
		m := meter{Starts: row.StartsAt, Ends: row.EndsAt, Until: row.ChargedUntil, Now: now}
		for {
			start, end, some := m.window(s.every)
			if !some {
				break
			}
			if row.Micros, err = book(ctx, tx, q, of, row, m.Until, start, end); err != nil {
				return err
			}
			m.Until = &end
		}
		if !m.over() {
			return nil
		}
		if err := q.Close(ctx, of); err != nil {
			return fmt.Errorf("close meter: %w", err)
		}
		return nil
	})
}

// book charges a window, and says how many node-microseconds are charged then.
func book(
	ctx context.Context, tx pgx.Tx, q *reserveddb.Queries, of id.Reservation, row reserveddb.ReadRow, follows *time.Time,
	start, end time.Time,
) (int64, error) {
	rated, err := q.Rate(ctx, reserveddb.RateParams{
		ReservationID: of, SinceMicros: row.Micros, StartsAt: start, EndsAt: end,
	})
	if err != nil {
		return 0, fmt.Errorf("rate window: %w", err)
	}
	add := reserveddb.AddWindowParams{
		ReservationID: of, StartsAt: start, EndsAt: end, Follows: follows, SinceMicros: row.Micros,
		UntilMicros: rated.UntilMicros, AmountMinor: rated.AmountMinor,
	}
	if rated.AmountMinor > 0 {
		entry, err := ledger.ChargeReserved(ctx, tx, row.OrgID, row.Currency, ledger.Window{
			Reservation: of, Start: start, End: end,
		}, rated.AmountMinor)
		if err != nil {
			return 0, err
		}
		add.EntryID = entry.ID
	}
	if err := q.AddWindow(ctx, add); err != nil {
		return 0, fmt.Errorf("add window: %w", err)
	}
	if err := q.Charged(ctx, reserveddb.ChargedParams{ReservationID: of, ChargedUntil: &end}); err != nil {
		return 0, fmt.Errorf("note window: %w", err)
	}
	return rated.UntilMicros, nil
}

// meter is what is known of a meter at a moment.
type meter struct {
	Starts, Ends time.Time
	Until        *time.Time // end of the last window
	Now          time.Time
}

// over says whether all of it is charged.
func (m meter) over() bool {
	return !m.Ends.After(m.Now) && (m.Until != nil && !m.Until.Before(m.Ends) || !m.Ends.After(m.Starts))
}

// window is what is to be charged now; false: nothing. Of what goes on, less than an
// interval is not charged: whoever had the meter before has just charged it. A window ends
// with its month, so that it belongs to one statement.
func (m meter) window(every time.Duration) (start, end time.Time, some bool) {
	start, end = m.Starts, m.Now
	if m.Until != nil {
		start = *m.Until
	}
	ended := !m.Ends.After(end)
	if ended {
		end = m.Ends
	}
	year, month, _ := start.UTC().Date()
	if next := time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC); next.Before(end) {
		return start, next, true
	}
	return start, end, end.After(start) && (ended || end.Sub(start) >= every)
}
