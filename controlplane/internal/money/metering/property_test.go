package metering_test

import (
	"context"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/metering"
)

// Any interleaving of looks, repeated looks, looks at the same moment, processes that die
// in the middle of a charge, clocks that jump ahead and back, changes of prices, ends
// that are seen late and releases beside a charge gives, to the minor unit, what the
// formula gives from the times and the price of each allocation.
func TestAnyInterleavingGivesTheClosedForm(t *testing.T) {
	w := newWorld(t)
	cases := 0
	rapid.Check(t, func(r *rapid.T) {
		cases++
		w.now = start
		s := storm{world: w, t: t, r: r, name: fmt.Sprintf("t%d", cases)}
		s.opens(account.Fixed)
		for range rapid.IntRange(5, 16).Draw(r, "steps") {
			s.step(append(steps, "price"))
		}
		s.finish(s.frozen)
	})
}

// storm is a tenant to whom everything happens.
type storm struct {
	*world
	t     *testing.T
	r     *rapid.T
	name  string
	lives []*stay
}

// opens makes the tenant, with its account.
func (s *storm) opens(pricing account.Pricing) {
	s.org, s.project = id.New[id.Org](), id.New[id.Project]()
	s.exec(s.t, `INSERT INTO organizations (id, slug, name) VALUES ($1, $2, $2)`, s.org, s.name)
	s.exec(s.t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'p', 'p')`, s.project, s.org)
	if _, err := s.accounts.Set(s.t.Context(), s.org, account.Wish{
		Currency: "USD", Paid: new(rapid.Int32Range(1, 10_000).Draw(s.r, "paid")), Pricing: &pricing,
	}); err != nil {
		s.t.Fatal(err)
	}
}

type stay struct {
	id       id.Allocation
	from, to time.Time // a zero end: it goes on
	late     bool      // its end has passed, and nobody has seen it
}

var steps = []string{
	"wait", "wait", "jump", "rent", "rent", "leave", "late", "look", "look", "replicas", "die", "race",
}

func (s *storm) step(steps []string) {
	switch rapid.SampledFrom(steps).Draw(s.r, "step") {
	case "wait":
		s.now = s.now.Add(s.span(30 * time.Hour))
	case "jump": // a clock that was wrong, in either direction
		s.now = s.now.Add(s.span(60*time.Hour) - 30*time.Hour)
	case "rent":
		a := &stay{id: s.rent(s.t, rapid.Int32Range(0, 9).Draw(s.r, "gpus")), from: s.moment()}
		s.activate(s.t, a.id, a.from)
		s.lives = append(s.lives, a)
	case "leave":
		s.end(s.any(), s.moment())
	case "late": // it ended a while ago, and is seen only at the next look but one
		if a := s.any(); a != nil {
			a.to, a.late = s.moment(), true
			s.now = s.now.Add(s.span(5 * time.Hour))
		}
	case "look":
		s.tend(s.t)
	case "replicas":
		s.together(s.meters, s.replica(), s.replica())
	case "die":
		s.die()
	case "price":
		if _, err := price.New(s.db, price.Notice).Set(s.t.Context(), price.Offer{
			SKU: h200, Currency: "USD", Minor: rapid.Int64Range(0, 5_000).Draw(s.r, "price"),
		}); err != nil {
			s.t.Fatal(err)
		}
	case "plan":
		s.plan()
	case "withdraw":
		s.withdraw()
	case "race": // somebody lets go while it is charged
		a, at := s.any(), s.moment()
		var wait sync.WaitGroup
		wait.Go(func() { s.end(a, at) })
		s.together(s.meters, s.replica())
		wait.Wait()
	}
}

func (s *storm) span(most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(most/time.Microsecond)).Draw(s.r, "span")) * time.Microsecond
}

func (s *storm) moment() time.Time { return s.now.Truncate(time.Microsecond) }

// any is something that goes on; nil: nothing does.
func (s *storm) any() *stay {
	for _, a := range s.lives {
		if a.to.IsZero() {
			return a
		}
	}
	return nil
}

func (s *storm) end(a *stay, at time.Time) {
	if a == nil {
		return
	}
	a.to = at
	s.release(s.t, a.id, at)
}

// together has several replicas look at the same moment.
func (s *storm) together(replicas ...*metering.Service) {
	var wait sync.WaitGroup
	for _, m := range replicas {
		wait.Go(func() {
			if err := m.Tend(s.t.Context()); err != nil {
				s.t.Error(err)
			}
		})
	}
	wait.Wait()
}

// die is a process that ends while it charges: after so many looks at the clock, the
// first of which lies before the transaction and the others within one.
func (s *storm) die() {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	left := rapid.IntRange(1, 4).Draw(s.r, "clock")
	dying := metering.New(metering.Config{
		DB: s.db, Every: time.Hour, Silence: metering.LongSilence, Clock: func() time.Time {
			if left--; left == 0 {
				cancel()
			}
			return s.moment()
		},
	})
	_ = dying.Tend(ctx)
}

// finish ends everything, charges it, and compares it with what each stay costs by the
// formula, in ten-thousandths of a minor unit times seconds of an hour.
func (s *storm) finish(cost func(*stay) *big.Int) {
	s.now = s.now.Add(200 * time.Hour)
	for _, a := range s.lives {
		if a.to.IsZero() {
			a.to, a.late = s.moment(), true
		}
		if a.late {
			s.release(s.t, a.id, a.to)
		}
	}
	s.tend(s.t)
	s.tend(s.t)
	want := new(big.Int)
	for _, a := range s.lives {
		want.Add(want, new(big.Int).Div(cost(a), big.NewInt(3600*10_000)))
	}
	if got := s.balance(s.t); got != -want.Int64() {
		s.r.Fatalf("the balance is %d, the formula says -%s", got, want)
	}
	if open := s.number(s.t, `SELECT count(*) FROM usage_meters WHERE org_id = $1 AND closed_at IS NULL`, s.org); open != 0 {
		s.r.Fatalf("%d meters are open", open)
	}
	if changed := s.number(s.t, `SELECT count(*) FROM ledger_balances b WHERE b.org_id = $1 AND b.balance_minor <>
		(SELECT sum(p.amount_minor) FROM ledger_postings p WHERE p.org_id = b.org_id AND p.account = b.account)`,
		s.org); changed != 0 {
		s.r.Fatalf("%d balances are not the sum of their postings", changed)
	}
}

// frozen is what a stay costs at the price of when it was rented.
func (s *storm) frozen(a *stay) *big.Int {
	var price, paid, units int64
	if err := s.owner.QueryRow(s.t.Context(), `SELECT price_minor, paid_share, units FROM allocation_terms WHERE allocation_id = $1`,
		a.id).Scan(&price, &paid, &units); err != nil {
		s.t.Fatal(err)
	}
	seconds := max(int64(a.to.Sub(a.from)/time.Second), 0)
	return new(big.Int).Mul(big.NewInt(price*paid*units), big.NewInt(seconds))
}
