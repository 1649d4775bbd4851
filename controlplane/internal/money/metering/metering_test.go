package metering_test

import (
	"context"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/metering"
	"gpuaas/testkit"
)

const h200 = "h200-sxm-baremetal-8g" // seeded: 3.50 USD

var start = time.Date(2026, 2, 1, 0, 0, 0, 123_456_000, time.UTC)

type world struct {
	db, owner *postgres.DB
	accounts  *account.Service
	meters    *metering.Service
	now       time.Time
	org       id.Org
	project   id.Project
	node      id.Node
	sku       string
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{now: start, sku: h200, org: id.New[id.Org](), project: id.New[id.Project](), node: id.New[id.Node]()}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.accounts, w.meters = account.New(w.db, false), w.replica()
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`, w.org)
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, w.project, w.org)
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', 'n', 'n', $2, 8, 'eu', 'manual')`, w.node, h200)
	if _, err := w.accounts.Set(tb.Context(), w.org, account.Wish{Currency: "USD", Paid: new(int32(9_000))}); err != nil {
		tb.Fatal(err)
	}
	return w
}

// replica is one more service that charges.
func (w *world) replica() *metering.Service {
	return metering.New(metering.Config{
		DB: w.db, Every: time.Hour, Silence: metering.LongSilence,
		Clock: func() time.Time { return w.now.Truncate(time.Microsecond) }, // as the database has it
	})
}

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

// rent makes an allocation with its terms and meter; nobody can use it yet.
func (w *world) rent(tb testing.TB, gpus int32) id.Allocation {
	tb.Helper()
	of := account.Rented{
		Allocation: id.New[id.Allocation](), Org: w.org, Project: w.project, SKU: w.sku, GPUs: gpus,
	}
	if err := w.db.InTx(tb.Context(), func(ctx context.Context, tx pgx.Tx) error {
		terms, err := w.accounts.Freeze(ctx, tx, of)
		if err == nil {
			err = w.meters.Open(ctx, tx, terms)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO allocations (id, org_id, project_id, capacity_shape, sku_id, sku_terms, price_minor,
				price_currency, gpus, region_code, node_id, hostname, access, event_id, requested_by)
				VALUES ($1, $2, $3, 'baremetal', $4, '{}', 0, 'USD', $5, 'eu', $6, 'n', 'user', gen_random_uuid(), '')`,
				of.Allocation, of.Org, of.Project, of.SKU, of.GPUs, w.node)
		}
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	return of.Allocation
}

func (w *world) activate(tb testing.TB, a id.Allocation, at time.Time) {
	tb.Helper()
	w.exec(tb, `UPDATE allocations SET status = 'active', active_at = $2 WHERE id = $1`, a, at)
}

func (w *world) release(tb testing.TB, a id.Allocation, at time.Time) {
	tb.Helper()
	w.exec(tb, `UPDATE allocations SET status = 'releasing', release_requested_at = $2 WHERE id = $1`, a, at)
}

func (w *world) tend(tb testing.TB) {
	tb.Helper()
	if err := w.meters.Tend(tb.Context()); err != nil {
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

func (w *world) balance(tb testing.TB) int64 {
	tb.Helper()
	b, err := ledger.BalanceOf(tb.Context(), w.db, w.org)
	if err != nil {
		tb.Fatal(err)
	}
	return b.Minor
}

func (w *world) open(tb testing.TB) int64 {
	tb.Helper()
	return w.number(tb, `SELECT count(*) FROM usage_meters WHERE closed_at IS NULL`)
}

func TestTimeIsChargedByTheHourAndToTheEnd(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, 8)
	w.now = start.Add(5 * time.Hour)
	w.tend(t) // nobody can use it
	w.activate(t, a, start.Add(5*time.Hour))
	w.now = start.Add(5*time.Hour + 59*time.Minute)
	w.tend(t) // the hour is not over
	if got := w.balance(t); got != 0 {
		t.Fatalf("the balance is %d", got)
	}
	w.now = start.Add(6 * time.Hour)
	w.tend(t)
	w.tend(t)
	if got := w.balance(t); got != -2520 { // eight GPUs at 3.50 less a tenth
		t.Fatalf("the balance is %d", got)
	}
	w.now = start.Add(2 * time.Hour) // the clock jumps back
	w.tend(t)
	w.now = start.Add(3 * 24 * time.Hour) // an outage of days
	w.tend(t)
	if got := w.balance(t); got != -2520*67 {
		t.Fatalf("the balance is %d", got)
	}
	w.release(t, a, start.Add(3*24*time.Hour+30*time.Minute))
	w.now = start.Add(30 * 24 * time.Hour)
	w.tend(t)
	w.exec(t, `UPDATE allocations SET status = 'release_failed', release_failed_at = now() WHERE id = $1`, a)
	w.tend(t)
	if got := w.balance(t); got != -2520*67-1260 || w.open(t) != 0 {
		t.Errorf("the balance is %d, %d meters are open", got, w.open(t))
	}
	if n := w.number(t, `SELECT count(*) FROM usage_windows`); n != 3 {
		t.Errorf("%d windows", n)
	}
}

func TestWhatWasNeverUsableCostsNothing(t *testing.T) {
	w := newWorld(t)
	failed, cancelled := w.rent(t, 8), w.rent(t, 8)
	w.exec(t, `UPDATE allocations SET status = 'failed', failed_at = now() WHERE id = $1`, failed)
	w.exec(t, `UPDATE allocations SET release_requested_at = now(), status = 'released', released_at = now() WHERE id = $1`,
		cancelled)
	w.now = start.Add(48 * time.Hour)
	w.tend(t)
	if w.balance(t) != 0 || w.open(t) != 0 || w.number(t, `SELECT count(*) FROM usage_windows`) != 0 {
		t.Errorf("the balance is %d, %d meters are open", w.balance(t), w.open(t))
	}
}

// The time of a repair is given back once, and only what of it was billable.
func TestRepairsAreGivenBack(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, 8)
	w.activate(t, a, start)
	repair := func(began time.Time, ended *time.Time) {
		w.exec(t, `INSERT INTO allocation_repairs (id, allocation_id, node_id, reason, began_at, began_by, ended_at)
			VALUES (gen_random_uuid(), $1, $2, 'a fan', $3, '', $4)`, a, w.node, began, ended)
	}
	repair(start.Add(time.Hour), new(start.Add(3*time.Hour)))
	repair(start.Add(9*time.Hour), nil) // it goes on when the tenant leaves
	w.now = start.Add(10 * time.Hour)
	w.tend(t)
	w.tend(t)
	if got := w.balance(t); got != -2520*7 { // what of the second is charged is given back already
		t.Errorf("the balance is %d", got)
	}
	w.release(t, a, start.Add(12*time.Hour))
	w.now = start.Add(20 * time.Hour)
	w.tend(t)
	w.tend(t)
	if got := w.balance(t); got != -2520*7 {
		t.Errorf("the balance is %d", got)
	}
	if charged := w.number(t, `SELECT sum(amount_minor) FROM usage_windows`); charged != 2520*12 {
		t.Errorf("charged are %d", charged)
	}
}

// The time of a quarantine and of a long silence is given back, each second once, and
// nothing before the allocation or after its end.
func TestQuarantineAndSilenceAreGivenBack(t *testing.T) {
	w := newWorld(t)
	at := func(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }
	state := func(to string, hours float64) {
		w.exec(t, `INSERT INTO node_events (node_id, occurred_at, kind, event, to_status, cause, actor_kind, actor_id, correlation_id,
			snapshot) VALUES ($1, $2, 'state_changed', 'e', $3, '', 'system', '', '', '{}')`, w.node, at(hours), to)
	}
	state("offline", -1) // the node is silent when the tenant gets it, for half an hour
	a := w.rent(t, 8)
	w.activate(t, a, start)
	state("active", 0.5)
	state("offline", 1)
	state("active", 1.2) // twelve minutes are not long
	state("quarantined", 2)
	state("active", 5)
	w.exec(t, `INSERT INTO allocation_repairs (id, allocation_id, node_id, reason, began_at, began_by, ended_at)
		VALUES (gen_random_uuid(), $1, $2, 'a fan', $3, '', $4)`, a, w.node, at(1.5), at(3)) // half of an hour of it is new
	state("offline", 9)
	w.now = at(10)
	w.tend(t)
	w.tend(t)
	if got, want := w.balance(t), -int64(2520*10-1260-2520*3-1260-2520); got != want {
		t.Errorf("the balance is %d, want %d", got, want)
	}
	w.release(t, a, at(11)) // it is silent still
	w.now = at(20)
	w.tend(t)
	if got, want := w.balance(t), -int64(2520*11-1260-2520*3-1260-2520*2); got != want || w.open(t) != 0 {
		t.Errorf("the balance is %d, want %d", got, want)
	}
	if charged := w.number(t, `SELECT sum(amount_minor) FROM usage_windows`); charged != 2520*11 {
		t.Errorf("charged are %d", charged)
	}
}

// Repairs that are looked at in the middle give back, to the minor unit, what one whole
// relief would; and a tenant with root gets nothing for the silence of its agent.
func TestAnOutageInPiecesGivesBackTheSame(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, 1)
	w.activate(t, a, start)
	w.exec(t, `UPDATE allocations SET access = 'root' WHERE id = $1`, a)
	w.exec(t, `INSERT INTO node_events (node_id, occurred_at, kind, event, to_status, cause, actor_kind, actor_id, correlation_id,
		snapshot) VALUES ($1, $2, 'state_changed', 'e', 'offline', '', 'system', '', '', '{}')`, w.node, start)
	w.exec(t, `INSERT INTO allocation_repairs (id, allocation_id, node_id, reason, began_at, began_by)
		VALUES (gen_random_uuid(), $1, $2, 'a fan', $3, '')`, a, w.node, start.Add(17*time.Minute+7*time.Second))
	for range 40 {
		w.now = w.now.Add(61*time.Minute + 13*time.Second)
		w.tend(t)
	}
	w.release(t, a, w.now.Add(-time.Second)) // dated back: the last second is given back, too
	w.tend(t)
	if got, want := w.balance(t), -int64(350*9_000*(17*60+7)/(3600*10_000)); got < want-1 || got > want {
		t.Errorf("the balance is %d, want %d", got, want)
	}
}

// Nobody pays for our being late: what was agreed to end at a time costs nothing after it.
func TestNothingIsChargedAfterTheAgreedEnd(t *testing.T) {
	w := newWorld(t)
	late, extended := w.rent(t, 8), w.rent(t, 8)
	for _, a := range []id.Allocation{late, extended} {
		w.activate(t, a, start)
		w.exec(t, `UPDATE allocations SET expires_at = $2 WHERE id = $1`, a, start.Add(3*time.Hour))
	}
	w.now = start.Add(5 * time.Hour)
	w.tend(t)
	w.tend(t)
	if got := w.balance(t); got != -2*3*2520 {
		t.Errorf("the balance is %d", got)
	}
	w.exec(t, `UPDATE allocations SET expires_at = $2 WHERE id = $1`, extended, start.Add(9*time.Hour))
	w.release(t, late, start.Add(50*time.Hour))
	w.release(t, extended, start.Add(7*time.Hour))
	w.now = start.Add(60 * time.Hour)
	w.tend(t)
	if got := w.balance(t); got != -2520*(3+7) || w.open(t) != 0 {
		t.Errorf("the balance is %d", got)
	}
}

// A clock of the database that went back may date the end before the last charge: what
// was charged beyond is given back.
func TestNothingIsChargedBeyondTheEnd(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, 8)
	w.activate(t, a, start)
	w.now = start.Add(5 * time.Hour)
	w.tend(t)
	w.release(t, a, start.Add(4*time.Hour))
	w.tend(t)
	w.tend(t)
	if got := w.balance(t); got != -2520*4 || w.open(t) != 0 {
		t.Errorf("the balance is %d", got)
	}
}

// More meters than are read at once are all charged by one look.
func TestEveryMeterIsFound(t *testing.T) {
	w := newWorld(t)
	for range 2*metering.Batch + 1 {
		w.activate(t, w.rent(t, 1), start)
	}
	w.now = start.Add(time.Hour)
	w.tend(t)
	if got := w.balance(t); got != -315*(2*metering.Batch+1) {
		t.Errorf("the balance is %d", got)
	}
}

// A release that is being asked for while a charge begins is waited for, and one that
// comes while a charge is under way gets a later time: no charge passes beyond it.
func TestAChargeWaitsForARelease(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, 8)
	w.activate(t, a, start)
	w.now = start.Add(5 * time.Hour)
	done := make(chan error, 1)
	if err := w.owner.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		// As the commands of allocations do: the row first, then the time.
		if _, err := tx.Exec(ctx, `SELECT FROM allocations WHERE id = $1 FOR NO KEY UPDATE`, a); err != nil {
			return err
		}
		go func() { done <- w.meters.Tend(t.Context()) }()
		testkit.Eventually(t, "the charge to wait for the row", func() bool {
			return w.number(t, `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE a.datname = current_database() AND NOT l.granted`) > 0
		})
		_, err := tx.Exec(ctx, `UPDATE allocations SET status = 'releasing', release_requested_at = $2 WHERE id = $1`, a,
			start.Add(2*time.Hour))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the charge", done); err != nil {
		t.Fatal(err)
	}
	w.tend(t)
	if got := w.balance(t); got != -2520*2 || w.number(t, `SELECT count(*) FROM ledger_entries WHERE kind = 'relief'`) != 0 {
		t.Errorf("the balance is %d", got)
	}
}

// A month of fifty allocations: looks at random times, by three replicas at once,
// repeated, with ends that are seen late, give to the minor unit what an independent
// calculation gives.
func TestAMonthOfFiftyAllocations(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewPCG(21, 50))
	type life struct {
		id         id.Allocation
		began, end time.Time
		gpus       int32
		on, off    bool
	}
	lives := make([]*life, 50)
	for i := range lives {
		began := start.Add(time.Duration(random.Int64N(int64(20 * 24 * time.Hour))).Truncate(time.Microsecond))
		lives[i] = &life{
			began: began, gpus: random.Int32N(9),
			end: began.Add(time.Duration(random.Int64N(int64(10 * 24 * time.Hour))).Truncate(time.Microsecond)),
		}
		lives[i].id = w.rent(t, lives[i].gpus)
	}
	replicas := []*metering.Service{w.meters, w.replica(), w.replica()}
	for w.now = start; w.now.Before(start.Add(31 * 24 * time.Hour)); w.now = w.now.Add(time.Duration(
		random.Int64N(int64(40 * time.Hour)))) {
		for _, l := range lives {
			if !l.on && !l.began.After(w.now) {
				l.on = true
				w.activate(t, l.id, l.began)
			}
			if l.on && !l.off && !l.end.After(w.now) {
				l.off = true
				w.release(t, l.id, l.end)
			}
		}
		var wait sync.WaitGroup
		for _, r := range replicas {
			wait.Go(func() {
				if err := r.Tend(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
	}
	for _, l := range lives {
		if !l.on {
			w.activate(t, l.id, l.began)
		}
		if !l.off {
			w.release(t, l.id, l.end)
		}
	}
	w.tend(t)
	w.tend(t)
	var want int64
	for _, l := range lives {
		lasted := int64(l.end.Sub(l.began) / time.Second)
		cost := new(big.Int).Mul(big.NewInt(350*9_000*int64(max(l.gpus, 1))), big.NewInt(lasted))
		want += cost.Div(cost, big.NewInt(3600*10_000)).Int64()
	}
	if got := w.balance(t); got != -want || want == 0 || w.open(t) != 0 {
		t.Errorf("the balance is %d, want %d; %d meters are open", got, -want, w.open(t))
	}
	if charged := w.number(t, `SELECT sum(amount_minor) FROM usage_windows`); charged != want {
		t.Errorf("the windows charge %d, want %d", charged, want)
	}
}

// A gap, an overlap, a fork or another beginning is refused by the database, and so
// is a change of what was charged.
func TestAttackWindowsAreAChain(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, 8)
	w.activate(t, a, start)
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	add := func(from, to int, follows *time.Time) error {
		_, err := w.owner.Exec(t.Context(), `INSERT INTO usage_windows (allocation_id, meter, starts_at, ends_at, follows, amount_minor)
			VALUES ($1, 'held', $2, $3, $4, 0)`, a, at(from), at(to), follows)
		return err
	}
	if err := add(1, 2, nil); err == nil {
		t.Error("a chain begins after the allocation")
	}
	if err := add(0, 2, nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		from, to int
		follows  *time.Time
	}{
		"a second beginning": {0, 3, nil}, "a gap": {3, 4, new(at(3))}, "a gap that is denied": {3, 4, new(at(2))},
		"an overlap": {1, 4, new(at(1))}, "nothing": {2, 2, new(at(2))}, "backwards": {2, 1, new(at(2))},
	} {
		if err := add(c.from, c.to, c.follows); err == nil {
			t.Errorf("the chain takes %s", name)
		}
	}
	if err := add(2, 3, new(at(2))); err != nil {
		t.Fatal(err)
	}
	if err := add(2, 4, new(at(2))); err == nil {
		t.Error("the chain takes a fork")
	}
	for _, query := range []string{
		`UPDATE usage_windows SET amount_minor = 0`, `DELETE FROM usage_windows`, `TRUNCATE usage_windows`,
	} {
		if _, err := w.owner.Exec(t.Context(), query); err == nil {
			t.Errorf("the owner may: %s", query)
		}
	}
}
