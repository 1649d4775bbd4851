package budget_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/budget"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/metering"
)

const h200 = "h200-sxm-baremetal-8g" // seeded: 3.50 USD, eight GPUs: 28.00 an hour

// start is within the month of the machine, because entries are booked by its clock.
var start = func() time.Time {
	year, month, _ := time.Now().UTC().Date()
	return time.Date(year, month, 3, 0, 0, 0, 0, time.UTC)
}()

type world struct {
	db, owner *postgres.DB
	accounts  *account.Service
	ledger    *ledger.Service
	meters    *metering.Service
	budgets   *budget.Service
	api       *httpapi.API
	now       time.Time
	org       id.Org
	project   id.Project
	node      id.Node
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{now: start, org: id.New[id.Org](), project: id.New[id.Project](), node: id.New[id.Node]()}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.accounts, w.ledger = account.New(w.db, false), ledger.New(w.db)
	w.meters = metering.New(metering.Config{DB: w.db, Every: time.Hour, Silence: metering.LongSilence, Clock: w.time})
	w.budgets = budget.New(budget.Config{DB: w.db, First: time.Hour, Clock: w.time})
	w.api = httpapitest.New(w.db)
	w.budgets.Register(w.api)
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', 'n', 'n', $2, 8, 'eu', 'manual')`, w.node, h200)
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`, w.org)
	if _, err := w.accounts.Set(tb.Context(), w.org, account.Wish{Currency: "USD"}); err != nil {
		tb.Fatal(err)
	}
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, w.project, w.org)
	return w
}

func (w *world) time() time.Time { return w.now.Truncate(time.Microsecond) }

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

// ask makes an allocation as the command that rents does: admitted, priced, metered.
func (w *world) ask(ctx context.Context, project id.Project) (id.Allocation, error) {
	of := account.Rented{Allocation: id.New[id.Allocation](), Org: w.org, Project: project, SKU: h200, GPUs: 8}
	err := w.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		offered, err := w.accounts.Offer(ctx, tx, of)
		if err == nil {
			err = w.budgets.Admit(ctx, tx, offered, 1)
		}
		if err != nil {
			return err
		}
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
	})
	return of.Allocation, err
}

// rent makes an allocation that the project can use from now on.
func (w *world) rent(tb testing.TB) id.Allocation {
	tb.Helper()
	a, err := w.ask(tb.Context(), w.project)
	if err != nil {
		tb.Fatal(err)
	}
	w.exec(tb, `UPDATE allocations SET status = 'active', active_at = $2, created_at = $2 WHERE id = $1`, a, w.time())
	return a
}

func (w *world) release(tb testing.TB, a id.Allocation) {
	tb.Helper()
	w.exec(tb, `UPDATE allocations SET status = 'releasing', release_requested_at = $2 WHERE id = $1`, a, w.time())
}

func (w *world) set(tb testing.TB, minor int64, hard bool, alerts ...int32) budget.Budget {
	tb.Helper()
	b, err := w.budgets.Set(tb.Context(), w.project, budget.Wish{
		Minor: minor, Currency: "USD", Period: budget.Month, Alerts: alerts, HardStop: hard,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func (w *world) of(tb testing.TB) budget.Budget {
	tb.Helper()
	b, err := w.budgets.Of(tb.Context(), w.project)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// look lets time pass, and looks at the budgets.
func (w *world) look(tb testing.TB, at time.Duration) budget.Budget {
	tb.Helper()
	w.now = start.Add(at)
	if err := w.budgets.Evaluate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return w.of(tb)
}

// told are the percentages that the project was told, in their order.
func (w *world) told(tb testing.TB) string {
	tb.Helper()
	rows, err := w.owner.Query(tb.Context(), `SELECT envelope->'payload'->>'percent' FROM outbox_events
		WHERE event_type = 'billing.budget_reached' ORDER BY seq`)
	if err != nil {
		tb.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(out, " ")
}

func TestEachPercentageIsToldOnceAPeriod(t *testing.T) {
	w := newWorld(t)
	w.set(t, 2800*10, false, 100, 50, 80)
	w.rent(t)
	if b := w.look(t, 4*time.Hour); b.Spent != 2800*4 || len(b.Told) != 0 || b.Aside != 0 {
		t.Fatalf("%+v", b)
	}
	w.look(t, 5*time.Hour) // to the minor unit
	if got := w.told(t); got != "50" {
		t.Fatalf("told %s", got)
	}
	var wait sync.WaitGroup
	w.now = start.Add(11 * time.Hour)
	for range 6 { // replicas look at the same moment
		wait.Go(func() {
			if err := w.budgets.Evaluate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if err := w.meters.Tend(t.Context()); err != nil { // what is booked meanwhile changes nothing
		t.Fatal(err)
	}
	if b := w.look(t, 12*time.Hour); b.Spent != 2800*12 || b.Percent() != 120 || len(b.Told) != 3 {
		t.Errorf("%+v", b)
	}
	if got := w.told(t); got != "50 80 100" {
		t.Errorf("told %s", got)
	}
	// Set again, or removed and set again, it is not told again; raised, what is not reached any more is.
	w.set(t, 2800*10, false, 50, 80, 100)
	if err := w.budgets.Remove(t.Context(), w.project); err != nil {
		t.Fatal(err)
	}
	w.set(t, 2800*10, false, 50, 80, 100)
	w.look(t, 12*time.Hour)
	if b := w.set(t, 2800*20, false, 50, 80, 100); len(b.Told) != 1 || b.Told[0].Percent != 50 {
		t.Errorf("raised: %+v", b.Told)
	}
	w.look(t, 16*time.Hour)
	if got := w.told(t); got != "50 80 100 80" {
		t.Errorf("told %s", got)
	}
	// The next month begins with nothing spent and nothing told.
	next := time.Date(start.Year(), start.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if b := w.look(t, next.Add(10*time.Hour).Sub(start)); b.Spent != 2800*10 || !b.Now.From.Equal(next) {
		t.Errorf("%+v", b)
	}
	if got := w.told(t); got != "50 80 100 80 50" {
		t.Errorf("told %s", got)
	}
}

// What was spent is the same whenever and however often it was charged, and what is given
// back is not spent.
func TestSpentIsWhatTheRowsSay(t *testing.T) {
	w := newWorld(t)
	w.set(t, 1_000_000_000, false)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(uint64(seed), 93))
	type stay struct {
		id         id.Allocation
		from, till time.Time
	}
	var stays []stay
	for range 40 {
		w.now = w.now.Add(time.Duration(dice.Int64N(int64(3 * time.Hour)))).Truncate(time.Microsecond)
		switch live := slices.IndexFunc(stays, func(s stay) bool { return s.till.IsZero() }); {
		case live < 0 || dice.IntN(3) == 0:
			stays = append(stays, stay{id: w.rent(t), from: w.time()})
		case dice.IntN(3) == 0:
			w.release(t, stays[live].id)
			stays[live].till = w.time()
		case dice.IntN(2) == 0:
			if err := w.meters.Tend(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var want int64
		month := time.Date(w.now.Year(), w.now.Month(), 1, 0, 0, 0, 0, time.UTC)
		for _, s := range stays {
			end := s.till
			if end.IsZero() {
				end = w.time()
			}
			cost := func(until time.Time) int64 { return int64(until.Sub(s.from)/time.Second) * 2800 / 3600 }
			if want += cost(end); s.from.Before(month) {
				want -= min(cost(month), cost(end))
			}
		}
		if b := w.of(t); b.Spent != want {
			t.Fatalf("%s: spent %d, want %d", w.now, b.Spent, want)
		}
	}
	if err := w.meters.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	var entry id.LedgerEntry
	var minor int64
	if err := w.owner.QueryRow(t.Context(), `SELECT e.id, -p.amount_minor FROM ledger_entries e JOIN ledger_postings p
		ON p.entry_id = e.id AND p.account = 'tenant' WHERE e.kind = 'usage' AND e.window_start >= date_trunc('month', $1::timestamptz, 'UTC')
		LIMIT 1`, w.time()).Scan(&entry, &minor); err != nil {
		t.Fatal(err)
	}
	before := w.of(t)
	correction, err := w.ledger.Correct(t.Context(), w.org, entry, "wrong")
	if err != nil {
		t.Fatal(err)
	}
	if b := w.of(t); b.Spent != before.Spent-minor || b.Forecast != before.Forecast-minor {
		t.Errorf("corrected: %d, want %d less than %d", b.Spent, minor, before.Spent)
	}
	if _, err := w.ledger.Correct(t.Context(), w.org, correction.ID, "it was right"); err != nil {
		t.Fatal(err)
	}
	if b := w.of(t); b.Spent != before.Spent {
		t.Errorf("corrected back: %d, want %d", b.Spent, before.Spent)
	}
}

func TestAHardStopRefusesWhatGoesBeyond(t *testing.T) {
	w := newWorld(t)
	w.set(t, 2800*3, true)
	first := w.rent(t)
	if b := w.of(t); b.Spent != 0 || b.Aside != 2800 {
		t.Errorf("%+v", b)
	}
	// Many at once: two more first windows fit.
	var mu sync.Mutex
	var made []id.Allocation
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			a, err := w.ask(t.Context(), w.project)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made = append(made, a)
			} else if fault.CodeOf(err) != "budget_exceeded" {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if len(made) != 2 {
		t.Fatalf("%d were let, 2 fit", len(made))
	}
	for _, a := range made {
		w.release(t, a) // before they could be used: they cost nothing
	}
	w.now = start.Add(2 * time.Hour)
	if b := w.of(t); b.Spent != 5600 || b.Aside != 0 || b.Forecast <= b.Spent {
		t.Errorf("%+v", b)
	}
	w.now = start.Add(2*time.Hour + 3*time.Second)
	_, err := w.ask(t.Context(), w.project)
	why, _ := fault.As(err)
	if why == nil || why.Code != "budget_exceeded" || why.Kind != fault.Forbidden ||
		why.Fields[0].Message != "budget 84.00 USD, spent 56.02 USD, asked 28.00 USD" {
		t.Errorf("%+v", why)
	}
	// It ends nothing that runs, does not stop other projects, and without a stop refuses nothing.
	if b := w.look(t, 5*time.Hour); b.Spent != 2800*5 {
		t.Errorf("%+v", b)
	}
	other := id.New[id.Project]()
	w.exec(t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'other', 'Other')`, other, w.org)
	if _, err := w.ask(t.Context(), other); err != nil {
		t.Error(err)
	}
	w.set(t, 2800*3, false)
	if _, err := w.ask(t.Context(), w.project); err != nil {
		t.Error(err)
	}
	w.set(t, 1, true)
	if _, err := w.accounts.SetFree(t.Context(), w.project, "research"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ask(t.Context(), w.project); err != nil { // what costs nothing goes beyond nothing
		t.Error(err)
	}
	w.release(t, first)
}

func TestBudgetsThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	path := "/api/v1/projects/" + w.project.String() + "/budget"
	call := func(method, at string, body any) httpapitest.Answer {
		t.Helper()
		return httpapitest.Call(t, w.api.Handler(), httpapitest.Request{As: "root", Method: method, Path: at, Body: body})
	}
	type object = map[string]any
	const bad = http.StatusUnprocessableEntity
	call(http.MethodGet, path, nil).Wants(t, http.StatusNotFound, "budget_not_found")
	call(http.MethodDelete, path, nil).Wants(t, http.StatusNotFound, "budget_not_found")
	for i, c := range []struct {
		body   object
		status int
		code   string
	}{
		{object{"amount_minor": 1, "currency": "EUR"}, http.StatusConflict, "currency_mismatch"},
		{object{"amount_minor": 0, "currency": "USD"}, bad, "validation_error"},
		{object{"amount_minor": -5, "currency": "USD"}, bad, "validation_error"},
		{object{"amount_minor": 1_000_000_000_000_001, "currency": "USD"}, bad, "validation_error"},
		{object{"amount_minor": 1, "currency": "USD", "period": "week"}, bad, "validation_error"},
		{object{"amount_minor": 1, "currency": "USD", "alerts": []int{0}}, bad, "validation_error"},
		{object{"amount_minor": 1, "currency": "USD", "alerts": []int{1001}}, bad, "validation_error"},
	} {
		if a := call(http.MethodPut, path, c.body); a.Status != c.status || a.Problem(t).Code != c.code {
			t.Errorf("case %d: %d %s", i, a.Status, a.Body)
		}
	}
	var rows int
	if err := w.owner.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM project_budgets)
		+ (SELECT count(*) FROM audit_logs WHERE action LIKE 'budget.%')`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("what was refused left %d rows, %v", rows, err)
	}
	var v budget.View
	call(http.MethodPut, path, object{"amount_minor": 10_000, "currency": "USD", "hard_stop": true}).
		Into(t, http.StatusOK, &v)
	if v.AmountMinor != 10_000 || !v.HardStop || !slices.Equal(v.Alerts, []int32{50, 80, 100}) || v.Version != 1 {
		t.Errorf("%+v", v)
	}
	call(http.MethodPut, path, object{"amount_minor": 10_000, "currency": "USD", "alerts": []int{}}).
		Into(t, http.StatusOK, &v)
	if len(v.Alerts) != 0 || v.HardStop || v.Version != 2 {
		t.Errorf("%+v", v)
	}
	call(http.MethodGet, path, nil).Into(t, http.StatusOK, &v)
	for i := range 3 {
		project := id.New[id.Project]()
		w.exec(t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, $3, 'p')`, project, w.org,
			fmt.Sprintf("p%d", i))
		w.exec(t, `INSERT INTO project_budgets (project_id, org_id, currency, amount_minor, period, alerts, hard_stop, updated_by)
			VALUES ($1, $2, 'USD', $3, 'month', '{}', false, '')`, project, w.org, i+1)
	}
	seen, cursor := 0, ""
	for {
		var page struct {
			Items      []budget.View `json:"items"`
			NextCursor string        `json:"next_cursor"`
		}
		call(http.MethodGet, "/api/v1/tenants/"+w.org.String()+"/budgets?page_size=3"+cursor, nil).
			Into(t, http.StatusOK, &page)
		if seen += len(page.Items); page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	if seen != 4 {
		t.Errorf("%d budgets are listed", seen)
	}
	call(http.MethodDelete, path, nil).Wants(t, http.StatusNoContent, "")
	w.org = id.New[id.Org]()
	w.exec(t, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'poor', 'Poor')`, w.org)
	w.project = id.New[id.Project]()
	w.exec(t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'p', 'p')`, w.project, w.org)
	call(http.MethodPut, "/api/v1/projects/"+w.project.String()+"/budget", object{"amount_minor": 1, "currency": "USD"}).
		Wants(t, http.StatusNotFound, "billing_account_missing")
}

// BenchmarkEvaluate looks at the budgets of a thousand projects with a hundred live
// allocations each.
func BenchmarkEvaluate(b *testing.B) {
	w := newWorld(b)
	for i := range 1000 {
		w.exec(b, `INSERT INTO projects (id, org_id, slug, name) VALUES (gen_random_uuid(), $1, $2, 'p')`, w.org,
			"p"+strconv.Itoa(i))
	}
	w.exec(b, `INSERT INTO project_budgets (project_id, org_id, currency, amount_minor, period, alerts, hard_stop, updated_by)
		SELECT id, org_id, 'USD', 1000000000000, 'month', '{50}', true, '' FROM projects`)
	w.exec(b, `INSERT INTO allocations (id, org_id, project_id, capacity_shape, sku_id, sku_terms, price_minor, price_currency, gpus,
		region_code, node_id, hostname, access, event_id, requested_by, status, active_at)
		SELECT gen_random_uuid(), p.org_id, p.id, 'baremetal', $1, '{}', 350, 'USD', 8, 'eu', $2, 'n', 'user', gen_random_uuid(), '',
			'active', $3::timestamptz + n * interval '1 second' FROM projects p, generate_series(1, 100) n`, h200, w.node, start)
	w.exec(b, `INSERT INTO allocation_terms (allocation_id, org_id, project_id, sku_id, basis, currency, price_id, price_minor, paid_share, units)
		SELECT a.id, a.org_id, a.project_id, a.sku_id, 'priced', 'USD', (SELECT id FROM sku_prices WHERE sku_id = $1 LIMIT 1), 350, 9000, 8
		FROM allocations a`, h200)
	w.exec(b, `INSERT INTO usage_meters (allocation_id, org_id, charged_until) SELECT id, org_id, active_at + interval '1 hour' FROM allocations`)
	w.exec(b, `ANALYZE usage_meters, allocations, allocation_terms, project_budgets`)
	w.now = start.Add(90 * time.Minute)
	for b.Loop() {
		if err := w.budgets.Evaluate(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// A budget that cannot be computed is told as a failure, and keeps no other project from
// being told what it has spent.
func TestABudgetThatCannotBeComputedHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	w.set(t, 2800*10, false, 50)
	w.rent(t)
	sick := id.New[id.Project]()
	w.exec(t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'sick', 'Sick')`, sick, w.org)
	if _, err := w.budgets.Set(t.Context(), sick, budget.Wish{
		Minor: 1, Currency: "USD", Period: budget.Month,
	}); err != nil {
		t.Fatal(err)
	}
	// Ten thousand hours at the highest price and number of units are more than an amount holds.
	a := id.New[id.Allocation]()
	if err := w.owner.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		for _, query := range []string{
			`INSERT INTO allocations (id, org_id, project_id, capacity_shape, sku_id, sku_terms, price_minor, price_currency, gpus,
				region_code, node_id, hostname, access, event_id, requested_by, status, active_at)
				SELECT $1, p.org_id, p.id, 'baremetal', s.id, '{}', 0, 'USD', 8, 'eu', n.id, 'n', 'user', gen_random_uuid(), '', 'active',
					$2::timestamptz - interval '2 years' FROM projects p, skus s, nodes n WHERE p.slug = 'sick' AND s.id = n.sku_id`,
			`INSERT INTO allocation_terms (allocation_id, org_id, project_id, sku_id, basis, currency, price_minor, paid_share, units)
				SELECT id, org_id, project_id, sku_id, 'priced', 'USD', 1000000000000, 10000, 1024 FROM allocations WHERE id = $1 AND $2 <> 'x'`,
			`INSERT INTO usage_meters (allocation_id, org_id) SELECT id, org_id FROM allocations WHERE id = $1 AND $2 <> 'x'`,
		} {
			if _, err := tx.Exec(ctx, query, a, w.now.Format(time.RFC3339)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.now = start.Add(5 * time.Hour)
	for range 2 {
		if err := w.budgets.Evaluate(t.Context()); err == nil || !strings.Contains(err.Error(), sick.String()) {
			t.Errorf("the failure names no project: %v", err)
		}
	}
	if got := w.told(t); got != "50" {
		t.Errorf("told %q", got)
	}
}
