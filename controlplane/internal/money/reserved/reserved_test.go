package reserved_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/reserved"
	"gpuaas/controlplane/internal/money/reserved/reservedtest"
	"gpuaas/testkit"
)

const (
	h200     = reservedtest.SKU
	unitHour = 100 // minor units of a GPU that is reserved and not used
	gpus     = 8
	nodeHour = unitHour * gpus
)

var start = time.Date(2026, 2, 1, 0, 0, 0, 123_456_000, time.UTC)

// world is a tenant with two projects, and a clock of its own.
type world struct {
	db, owner *postgres.DB
	accounts  *account.Service
	reserved  *reserved.Service
	now       time.Time
	org       id.Org
	projects  [2]id.Project
	node      id.Node
	kept      map[id.Reservation]int64 // what is kept free; of others: enough
	blind     error                    // why nobody knows what is kept
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{now: start, node: id.New[id.Node](), kept: map[id.Reservation]int64{}}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.accounts, w.reserved = account.New(w.db, false), w.replica()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', 'n', 'n', $2, 8, 'eu', 'manual')`, w.node, h200)
	reservedtest.Price(tb, w.db, unitHour)
	w.settle(tb, "acme")
	return w
}

// settle goes on with a tenant that has nothing.
func (w *world) settle(tb testing.TB, slug string) {
	tb.Helper()
	w.org, w.projects = id.New[id.Org](), [2]id.Project{id.New[id.Project](), id.New[id.Project]()}
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, $2, 'Acme')`, w.org, slug)
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $3, 'a', 'A'), ($2, $3, 'b', 'B')`,
		w.projects[0], w.projects[1], w.org)
	if _, err := w.accounts.Set(tb.Context(), w.org, account.Wish{Currency: "USD", Paid: new(int32(9_000))}); err != nil {
		tb.Fatal(err)
	}
	w.exec(tb, `UPDATE billing_periods SET open_since = '2026-02-01Z' WHERE org_id = $1`, w.org) // as if it were old
}

func (w *world) time() time.Time { return w.now.Truncate(time.Microsecond) }

// replica is one more service that charges.
func (w *world) replica() *reserved.Service {
	return reserved.New(reserved.Config{
		DB: w.db, Every: time.Hour, Clock: w.time,
		Kept: func(ctx context.Context, sku string) (map[id.Reservation]int64, error) {
			out, err := reservedtest.Enough(w.db)(ctx, sku)
			if w.blind != nil {
				return nil, errors.Join(err, w.blind)
			}
			maps.Copy(out, w.kept)
			return out, err
		},
	})
}

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) number(tb testing.TB, query string, args ...any) (n int64) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// plan is what is reserved.
type plan struct {
	project id.Project
	region  string
	nodes   int32
	from    time.Time
	lasts   time.Duration
	free    bool // nothing is agreed: as a release of before made it
}

func (w *world) reserve(tb testing.TB, p plan) id.Reservation {
	tb.Helper()
	of, err := reservedtest.Reserve(tb.Context(), w.db, w.accounts, w.reserved, reservedtest.Plan{
		Org: w.org, Project: p.project, Region: p.region, Nodes: p.nodes, From: p.from, To: p.from.Add(p.lasts), Free: p.free,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return of
}

// rent makes an allocation that is used from now on.
func (w *world) rent(tb testing.TB, project id.Project, region string) id.Allocation {
	tb.Helper()
	a := id.New[id.Allocation]()
	w.exec(tb, `INSERT INTO allocations (id, org_id, project_id, capacity_shape, sku_id, sku_terms, price_minor,
		price_currency, gpus, region_code, node_id, hostname, access, event_id, requested_by, status, active_at)
		VALUES ($1, $2, $3, 'baremetal', $4, '{}', 0, 'USD', 8, $5, $6, 'n', 'user', gen_random_uuid(), '', 'active', $7)`,
		a, w.org, project, h200, region, w.node, w.time())
	return a
}

// release asks for the end of an allocation, and clean ends it.
func (w *world) release(tb testing.TB, a id.Allocation) {
	tb.Helper()
	w.exec(tb, `UPDATE allocations SET status = 'releasing', release_requested_at = $2 WHERE id = $1`, a, w.time())
}

func (w *world) clean(tb testing.TB, a id.Allocation) {
	tb.Helper()
	w.exec(tb, `UPDATE allocations SET status = 'released', released_at = $2 WHERE id = $1`, a, w.time())
}

func (w *world) cancel(tb testing.TB, r id.Reservation) {
	tb.Helper()
	w.exec(tb, `UPDATE reservations SET cancelled_at = $2 WHERE id = $1`, r, w.time())
}

func (w *world) tend(tb testing.TB) {
	tb.Helper()
	if err := w.reserved.Tend(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// booked is what a reservation was charged.
func (w *world) booked(tb testing.TB, r id.Reservation) int64 {
	tb.Helper()
	return w.number(tb, `SELECT coalesce(-sum(p.amount_minor), 0) FROM ledger_entries e
		JOIN ledger_postings p ON p.entry_id = e.id AND p.account = 'tenant' WHERE e.reservation_id = $1`, r)
}

func (w *world) balance(tb testing.TB) int64 {
	tb.Helper()
	b, err := ledger.BalanceOf(tb.Context(), w.db, w.org)
	if err != nil {
		tb.Fatal(err)
	}
	return b.Minor
}

// paid is what so many node-hours cost, with the discount of the tenant.
func paid(nodeHours int64) int64 { return nodeHours * nodeHour * 9 / 10 }

// What is used of a reservation is not charged, from when it can be used until it is clean
// again; what is not used is, from its beginning until its end, however rarely anybody looks.
func TestUnusedNodesAreCharged(t *testing.T) {
	w := newWorld(t)
	r := w.reserve(t, plan{nodes: 3, from: start, lasts: 50 * 24 * time.Hour})
	w.now = start.Add(30 * time.Minute)
	w.tend(t) // an hour is not over
	if got := w.booked(t, r); got != 0 {
		t.Fatalf("half an hour was charged with %d", got)
	}
	w.now = start.Add(time.Hour)
	w.tend(t)
	w.tend(t)
	if got := w.booked(t, r); got != paid(3) {
		t.Fatalf("an hour of three nodes was charged with %d, want %d", got, paid(3))
	}
	a := w.rent(t, w.projects[0], "eu")
	w.rent(t, w.projects[1], "us")
	w.now = start.Add(3 * time.Hour)
	w.release(t, a)
	w.now = start.Add(4 * time.Hour)
	w.clean(t, a) // our own cleaning is not sold
	w.now = start.Add(31 * 24 * time.Hour)
	w.tend(t) // nobody looked for a month
	want := paid(3 + 3*1 + (31*24-4)*2)
	if got := w.booked(t, r); got != want {
		t.Errorf("until then it was charged with %d, want %d", got, want)
	}
	if n := w.number(t, `SELECT count(*) FROM reservation_windows WHERE starts_at < '2026-03-01Z' AND ends_at > '2026-03-01Z'`); n != 0 {
		t.Error("a window belongs to two months")
	}
	w.cancel(t, r)
	w.now = start.Add(40 * 24 * time.Hour)
	w.tend(t)
	if got := w.booked(t, r); got != want || w.balance(t) != -want {
		t.Errorf("after the cancellation it was charged with %d, want %d", got-want, 0)
	}
	if n := w.number(t, `SELECT count(*) FROM reservation_meters WHERE closed_at IS NULL`); n != 0 {
		t.Error("the meter of a reservation that is over is open")
	}
}

// What is used counts for the reservation of its project first, then for one of its region,
// and then for the one that began first.
func TestUsedNodesAreDealtInOneOrder(t *testing.T) {
	w := newWorld(t)
	whole := w.reserve(t, plan{nodes: 1, from: start, lasts: 10 * time.Hour})
	region := w.reserve(t, plan{nodes: 1, region: "us", from: start, lasts: 10 * time.Hour})
	later := w.reserve(t, plan{nodes: 1, region: "us", from: start.Add(time.Hour), lasts: 9 * time.Hour})
	project := w.reserve(t, plan{nodes: 1, project: w.projects[0], from: start.Add(time.Hour), lasts: 9 * time.Hour})
	w.now = start.Add(2 * time.Hour)
	w.rent(t, w.projects[0], "us")
	w.now = start.Add(4 * time.Hour)
	w.rent(t, w.projects[1], "us")
	w.now = start.Add(6 * time.Hour)
	w.rent(t, w.projects[1], "eu")
	w.now = start.Add(20 * time.Hour)
	w.tend(t)
	for name, of := range map[string]struct {
		id    id.Reservation
		hours int64
	}{
		"of the project": {project, 1}, "of the region": {region, 4}, "of the region, later": {later, 9},
		"of all": {whole, 6},
	} {
		if got := w.booked(t, of.id); got != paid(of.hours) {
			t.Errorf("the reservation %s was charged with %d, want %d", name, got, paid(of.hours))
		}
	}
}

// A reservation of before, or of a release of before, has no terms: it costs nothing for
// ever, and what is used of it changes nothing for those that are charged.
func TestAReservationWithoutTermsCostsNothing(t *testing.T) {
	w := newWorld(t)
	free := w.reserve(t, plan{nodes: 5, from: start, lasts: 24 * time.Hour, free: true})
	r := w.reserve(t, plan{nodes: 1, from: start.Add(time.Hour), lasts: 23 * time.Hour})
	w.rent(t, w.projects[0], "eu")
	w.now = start.Add(100 * time.Hour)
	w.tend(t)
	if got := w.booked(t, free); got != 0 {
		t.Errorf("it was charged with %d", got)
	}
	if got := w.booked(t, r); got != 0 {
		t.Errorf("a node that is used was charged with %d as unused", got)
	}
	if n := w.number(t, `SELECT count(*) FROM ledger_entries`); n != 0 {
		t.Errorf("%d entries were booked", n)
	}
	costs, err := w.reserved.Costs(t.Context(), []id.Reservation{free, r})
	if _, known := costs[free]; err != nil || known || len(costs) != 1 {
		t.Errorf("the costs are %+v, %v", costs, err)
	}
}

// What we lacked for a reservation is not charged, from when it was seen on.
func TestWhatIsLackingIsNotCharged(t *testing.T) {
	w := newWorld(t)
	r := w.reserve(t, plan{nodes: 4, from: start, lasts: 10 * time.Hour})
	w.kept[r] = 1
	w.tend(t)
	w.now = start.Add(2 * time.Hour)
	w.rent(t, w.projects[0], "eu") // one is used, and none is lacking that was not before
	w.tend(t)
	w.now = start.Add(4 * time.Hour)
	w.kept[r], w.blind = 3, errors.New("nobody can say")
	if err := w.reserved.Tend(t.Context()); !errors.Is(err, w.blind) {
		t.Fatalf("the look fails with %v", err)
	}
	w.now = start.Add(5 * time.Hour)
	w.blind = nil
	w.tend(t)
	w.now = start.Add(20 * time.Hour)
	w.tend(t)
	// One node for two hours, one for three (two are lacking beside the one that is used), and then all three.
	if got, want := w.booked(t, r), paid(1*2+1*3+3*5); got != want {
		t.Errorf("it was charged with %d, want %d", got, want)
	}
}

// Whoever is about to use a node while it is charged is waited for.
func TestAChargeWaitsForThoseWhoBeginToUse(t *testing.T) {
	w := newWorld(t)
	r := w.reserve(t, plan{nodes: 1, from: start, lasts: 10 * time.Hour})
	a := w.rent(t, w.projects[0], "eu")
	w.exec(t, `UPDATE allocations SET status = 'provisioning', active_at = NULL WHERE id = $1`, a)
	w.now = start.Add(2 * time.Hour)
	done := make(chan error, 1)
	if err := w.owner.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM allocations WHERE id = $1 FOR NO KEY UPDATE`, a); err != nil {
			return err
		}
		go func() { done <- w.reserved.Tend(t.Context()) }()
		testkit.Eventually(t, "the charge to wait for the row", func() bool {
			return w.number(t, `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE a.datname = current_database() AND NOT l.granted`) > 0
		})
		_, err := tx.Exec(ctx, `UPDATE allocations SET status = 'active', active_at = $2 WHERE id = $1`, a, start.Add(time.Hour))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the charge", done); err != nil {
		t.Fatal(err)
	}
	if got := w.booked(t, r); got != paid(1) {
		t.Errorf("it was charged with %d, want one hour: %d", got, paid(1))
	}
}

// The database holds what charges are made of against whoever writes.
func TestAttackTheDatabaseHoldsWhatReservationsCost(t *testing.T) {
	w := newWorld(t)
	r := w.reserve(t, plan{nodes: 2, from: start, lasts: 10 * time.Hour})
	w.now = start.Add(2 * time.Hour)
	w.tend(t)
	for name, write := range map[string]struct{ query, constraint string }{
		"more nodes":             {`UPDATE reservations SET nodes = 3`, "reservations_charged_stay"},
		"a later beginning":      {`UPDATE reservations SET starts_at = starts_at + interval '1 hour'`, "reservations_charged_stay"},
		"an end that never is":   {`UPDATE reservations SET cancelled_at = 'infinity'`, "reservations_charged_stay"},
		"a meter that goes back": {`UPDATE reservation_meters SET charged_until = charged_until - interval '1 hour'`, "reservation_meters_go_on"},
		"a meter that stops":     {`UPDATE reservation_meters SET closed_at = now()`, "reservation_meters_go_on"},
		"another amount": {`INSERT INTO reservation_windows SELECT reservation_id, ends_at, ends_at + interval '1 hour', ends_at, until_micros,
			until_micros + 1, 7, gen_random_uuid() FROM reservation_windows`, "reservation_windows_fit"},
		"a fork": {`INSERT INTO reservation_windows SELECT reservation_id, starts_at, ends_at + interval '1 second', follows, since_micros,
			since_micros, 0, NULL FROM reservation_windows`, "reservation_windows_pkey"},
	} {
		_, err := w.owner.Exec(t.Context(), write.query)
		if !postgres.Violates(err, write.constraint) {
			t.Errorf("%s: %v, want a violation of %s", name, err, write.constraint)
		}
	}
	w.cancel(t, r)
	if _, err := w.owner.Exec(t.Context(), `UPDATE reservations SET cancelled_at = NULL`); !postgres.Violates(err, "reservations_charged_stay") {
		t.Errorf("a cancellation is taken back: %v", err)
	}
	late := w.reserve(t, plan{nodes: 1, from: w.now, lasts: time.Hour, free: true})
	if _, err := w.owner.Exec(t.Context(), `INSERT INTO reservation_terms SELECT $1, org_id, project_id, sku_id, region_code, nodes, $2, ends_at,
		currency, price_id, price_minor, paid_share, units FROM reservation_terms`, late, w.now); !postgres.Violates(err, "reservation_terms_agree") {
		t.Errorf("something is agreed afterwards: %v", err)
	}
}

// What cannot be charged is refused, with a code that says why.
func TestWhatCannotBeChargedIsRefused(t *testing.T) {
	w := newWorld(t)
	if _, err := w.accounts.SetFree(t.Context(), w.projects[1], "teaching"); err != nil {
		t.Fatal(err)
	}
	offer := func(org id.Org, project id.Project, sku string) (account.Terms, error) {
		var terms account.Terms
		err := w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) (err error) {
			terms, err = w.accounts.OfferReserved(ctx, tx, account.Rented{Org: org, Project: project, SKU: sku, GPUs: gpus})
			return err
		})
		return terms, err
	}
	if _, err := offer(id.New[id.Org](), id.Project{}, h200); fault.CodeOf(err) != "billing_account_missing" {
		t.Errorf("no account: %v", err)
	}
	if _, err := offer(w.org, w.projects[1], h200); fault.CodeOf(err) != "project_free" {
		t.Errorf("a free project: %v", err)
	}
	if _, err := offer(w.org, id.Project{}, "b200-sxm-baremetal-8g"); fault.CodeOf(err) != "sku_not_priced" {
		t.Errorf("no price for what is reserved: %v", err)
	}
	terms, err := offer(w.org, w.projects[0], h200)
	if err != nil || terms.Minor != unitHour || terms.Units != gpus {
		t.Fatalf("offered are %+v, %v", terms, err)
	}
	if err := reserved.Affordable(terms, 10_000); err != nil {
		t.Errorf("an ordinary price: %v", err)
	}
	terms.Minor = price.Most
	if err := reserved.Affordable(terms, 10_000); fault.CodeOf(err) != "validation_error" {
		t.Errorf("more than can be booked: %v", err)
	}
}
