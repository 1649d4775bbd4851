package balance_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
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
	"gpuaas/controlplane/internal/money/balance"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/metering"
)

const h200 = "h200-sxm-baremetal-8g" // seeded: 3.50 USD, eight GPUs: 28.00 an hour

var start = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)

type object = map[string]any

type world struct {
	db, owner *postgres.DB
	accounts  *account.Service
	ledger    *ledger.Service
	meters    *metering.Service
	balances  *balance.Service
	api       *httpapi.API
	now       time.Time
	org       id.Org
	project   id.Project
	node      id.Node
	credits   int

	mu       sync.Mutex
	released []id.Allocation
	onEnd    func(of id.Allocation) error // called before an allocation is ended
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{now: start, project: id.New[id.Project](), node: id.New[id.Node]()}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.accounts, w.ledger = account.New(w.db, false), ledger.New(w.db)
	w.meters = metering.New(metering.Config{
		DB: w.db, Every: time.Hour, Silence: metering.LongSilence, Clock: w.time,
	})
	w.balances = balance.New(balance.Config{
		DB: w.db, Releases: w, Charges: w.meters, First: time.Hour, Every: time.Minute, Clock: w.time,
	})
	w.api = httpapitest.New(w.db)
	w.balances.Register(w.api)
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', 'n', 'n', $2, 8, 'eu', 'manual')`, w.node, h200)
	w.org = w.tenant(tb, "acme")
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, w.project, w.org)
	return w
}

func (w *world) time() time.Time { return w.now.Truncate(time.Microsecond) }

func (w *world) tenant(tb testing.TB, slug string) id.Org {
	tb.Helper()
	org := id.New[id.Org]()
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, $2, $2)`, org, slug)
	if _, err := w.accounts.Set(tb.Context(), org, account.Wish{Currency: "USD"}); err != nil {
		tb.Fatal(err)
	}
	return org
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

// ReleaseUnpaid ends an allocation as the ordinary command does.
func (w *world) ReleaseUnpaid(ctx context.Context, tx pgx.Tx, of id.Allocation, _ string) (bool, error) {
	if w.onEnd != nil {
		if err := w.onEnd(of); err != nil {
			return false, err
		}
	}
	tag, err := tx.Exec(ctx, `UPDATE allocations SET status = 'releasing', release_requested_at = $2
		WHERE id = $1 AND release_requested_at IS NULL`, of, w.time())
	if err == nil && tag.RowsAffected() > 0 {
		w.mu.Lock()
		w.released = append(w.released, of)
		w.mu.Unlock()
	}
	return tag.RowsAffected() > 0, err
}

// EndUnpaid ends a reservation as the ordinary command does.
func (w *world) EndUnpaid(ctx context.Context, tx pgx.Tx, of id.Reservation, _ string) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE reservations SET cancelled_at = $2 WHERE id = $1 AND cancelled_at IS NULL`, of, w.time())
	return tag.RowsAffected() > 0, err
}

// limit says how far the tenant may go: prepaid, warned at ten hours and at two.
func (w *world) limit(tb testing.TB, change func(*balance.Settings)) {
	tb.Helper()
	if _, err := w.balances.Set(tb.Context(), w.org, func(s *balance.Settings) error {
		*s = balance.Settings{
			Payment: balance.Prepaid, LowFor: 10 * time.Hour, ReleaseFor: 2 * time.Hour, RearmPercent: 150,
		}
		if change != nil {
			change(s)
		}
		return nil
	}, true); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) credit(tb testing.TB, minor int64) {
	tb.Helper()
	w.credits++
	if _, err := w.ledger.Credit(tb.Context(), w.org, ledger.Grant{
		Minor: minor, Currency: "USD", Reference: strconv.Itoa(w.credits), Reason: "prepaid",
	}); err != nil {
		tb.Fatal(err)
	}
}

// ask makes an allocation as the command that rents does: admitted, priced, held.
func (w *world) ask(ctx context.Context) (id.Allocation, error) {
	of := account.Rented{Allocation: id.New[id.Allocation](), Org: w.org, Project: w.project, SKU: h200, GPUs: 8}
	err := w.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		offered, err := w.accounts.Offer(ctx, tx, of)
		if err == nil {
			err = w.balances.Admit(ctx, tx, offered, 1)
		}
		if err != nil {
			return err
		}
		terms, err := w.accounts.Freeze(ctx, tx, of)
		if err == nil {
			err = w.meters.Open(ctx, tx, terms)
		}
		if err == nil {
			err = w.balances.Hold(ctx, tx, terms)
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

// rent makes an allocation that the tenant can use from now on.
func (w *world) rent(tb testing.TB) id.Allocation {
	tb.Helper()
	a, err := w.ask(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	w.exec(tb, `UPDATE allocations SET status = 'active', active_at = $2, created_at = $2 WHERE id = $1`, a, w.time())
	return a
}

// look lets time pass, and looks at the balances.
func (w *world) look(tb testing.TB, at time.Duration) balance.Standing {
	tb.Helper()
	w.now = start.Add(at)
	if err := w.balances.Evaluate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	s, err := w.balances.Of(tb.Context(), w.org)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// told are the warnings of the tenant, in their order.
func (w *world) told(tb testing.TB) []string {
	tb.Helper()
	rows, err := w.owner.Query(tb.Context(), `SELECT event_type FROM outbox_events WHERE event_type LIKE 'billing.%' ORDER BY seq`)
	if err != nil {
		tb.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestATenantIsWarnedOnceAndReleasedAtTheEnd(t *testing.T) {
	w := newWorld(t)
	w.credit(t, 2800*20)
	w.limit(t, nil)
	older := w.rent(t)
	w.exec(t, `UPDATE allocations SET protected = true WHERE id = $1`, older)
	for i, c := range []struct {
		at     time.Duration
		status balance.Status
	}{
		{time.Hour, balance.Healthy},
		{9 * time.Hour, balance.Healthy},
		{10 * time.Hour, balance.Low},
		{11 * time.Hour, balance.Low},
		{18 * time.Hour, balance.Pending},
		{19 * time.Hour, balance.Pending},
	} {
		if s := w.look(t, c.at); s.Status != c.status {
			t.Fatalf("look %d: %s, want %s", i, s.Status, c.status)
		}
	}
	if s := w.look(t, 19*time.Hour); s.Burn != 2800 || s.Accrued != 2800*19 {
		t.Errorf("%+v", s)
	}
	newer := w.rent(t) // its first hour is all that is left
	if s := w.look(t, 19*time.Hour+30*time.Minute); s.Status != balance.Depleted {
		t.Errorf("%s", s.Status)
	}
	if want := []id.Allocation{newer, older}; !slices.Equal(w.released, want) {
		t.Errorf("released %v, want the newest first and the protected one last: %v", w.released, want)
	}
	w.look(t, 21*time.Hour)
	if want := []string{
		"billing.low_balance_warning", "billing.auto_release_pending", "billing.balance_depleted",
	}; !slices.Equal(w.told(t), want) {
		t.Errorf("told %v", w.told(t))
	}
	if len(w.released) != 2 || w.number(t, `SELECT count(*) FROM balance_releases`) != 2 {
		t.Errorf("released %v", w.released)
	}
	if err := w.meters.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := w.look(t, 22*time.Hour); s.Posted != 0 || s.Held != 0 || s.Accrued != 0 || s.Burn != 0 {
		t.Errorf("in the end: %+v", s)
	}
}

func TestMoneyThatComesInStopsReleases(t *testing.T) {
	w := newWorld(t)
	w.credit(t, 2800*6)
	w.limit(t, nil)
	for range 3 {
		w.rent(t)
	}
	w.onEnd = func(id.Allocation) error {
		w.onEnd = nil
		w.credit(t, 2800*100)
		return nil
	}
	if s := w.look(t, 2*time.Hour); s.Status != balance.Depleted || len(w.released) != 1 {
		t.Fatalf("%s, %d were released", s.Status, len(w.released))
	}
	if s := w.look(t, 3*time.Hour); s.Status != balance.Healthy || len(w.released) != 1 {
		t.Errorf("%s, %d were released", s.Status, len(w.released))
	}
}

func TestAWarningIsArmedAgainAboveAHigherLevel(t *testing.T) {
	w := newWorld(t)
	w.credit(t, 2800*11)
	w.limit(t, nil)
	w.rent(t)
	w.look(t, time.Hour) // ten hours are left
	w.credit(t, 2800*4)  // fourteen: below one and a half times the threshold
	if s := w.look(t, time.Hour); s.Status != balance.Low {
		t.Errorf("%s", s.Status)
	}
	w.credit(t, 2800*2)
	if s := w.look(t, time.Hour); s.Status != balance.Healthy {
		t.Errorf("%s", s.Status)
	}
	if s := w.look(t, 8*time.Hour); s.Status != balance.Low {
		t.Errorf("%s", s.Status)
	}
	if n := len(w.told(t)); n != 2 {
		t.Errorf("told %v", w.told(t))
	}
}

func TestGraceAndCreditLine(t *testing.T) {
	w := newWorld(t)
	w.limit(t, func(s *balance.Settings) {
		s.Payment, s.CreditLine, s.Grace = balance.Postpaid, new(int64(2800*5)), time.Hour
	})
	w.rent(t)
	if s := w.look(t, 5*time.Hour); s.Status != balance.Depleted || len(w.released) != 0 {
		t.Errorf("%s, %d were released", s.Status, len(w.released))
	}
	if _, err := w.ask(t.Context()); fault.CodeOf(err) != "insufficient_balance" {
		t.Errorf("at the end: %v", err)
	}
	w.look(t, 5*time.Hour+59*time.Minute)
	if len(w.released) != 0 {
		t.Error("released within the grace period")
	}
	w.look(t, 6*time.Hour)
	if len(w.released) != 1 {
		t.Error("not released after the grace period")
	}
}

// What fails is tried again, and does not keep the others.
func TestAReleaseThatFailsIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.credit(t, 2800*4)
	w.limit(t, nil)
	first, second := w.rent(t), w.rent(t)
	w.onEnd = func(of id.Allocation) error {
		if of == second {
			return errors.New("no")
		}
		return nil
	}
	w.now = start.Add(2 * time.Hour)
	if err := w.balances.Evaluate(t.Context()); err == nil || !slices.Equal(w.released, []id.Allocation{first}) {
		t.Errorf("%v, released %v", err, w.released)
	}
	w.onEnd = nil
	w.look(t, 2*time.Hour)
	if !slices.Equal(w.released, []id.Allocation{first, second}) {
		t.Errorf("released %v", w.released)
	}
}

// Who asks at the same moment spends no money twice.
func TestTwentyAskForThree(t *testing.T) {
	w := newWorld(t)
	w.credit(t, 3*2800+2799)
	w.limit(t, nil)
	var wait sync.WaitGroup
	var mu sync.Mutex
	got, refused := 0, 0
	for range 20 {
		wait.Go(func() {
			_, err := w.ask(t.Context())
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				got++
			case fault.CodeOf(err) == "insufficient_balance" && fault.KindOf(err) == fault.Forbidden:
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got != 3 || refused != 17 {
		t.Errorf("%d were let, %d refused", got, refused)
	}
	// What never becomes usable gives its hold back.
	w.exec(t, `UPDATE allocations SET status = 'failed', failed_at = now()`)
	if s := w.look(t, 0); s.Held != 0 || s.Posted != 3*2800+2799 {
		t.Errorf("held %d", s.Held)
	}
}

func TestBalancesOverTheAPI(t *testing.T) {
	w := newWorld(t)
	at := "/api/v1/tenants/" + w.org.String() + "/balance"
	call := func(as, method, path string, body any) httpapitest.Answer {
		return httpapitest.Call(t, w.api.Handler(), httpapitest.Request{As: as, Method: method, Path: path, Body: body})
	}
	var v balance.View
	call("auditor", http.MethodGet, at, nil).Into(t, http.StatusOK, &v)
	if v.Payment != balance.Postpaid || v.AvailableMinor != nil || v.Status != balance.Healthy || v.Version != 0 {
		t.Errorf("%+v", v)
	}
	for field, body := range map[string]object{
		"body.payment":           {"payment": "never"},
		"body.credit_line_minor": {"payment": "prepaid", "credit_line_minor": -1},
		"body.release_seconds":   {"payment": "prepaid", "low_seconds": 10, "release_seconds": 11},
		"body.rearm_percent":     {"payment": "prepaid", "rearm_percent": 99},
		"body.grace_seconds":     {"payment": "prepaid", "grace_seconds": 2592001},
	} {
		call("root", http.MethodPut, at+"/limits", body).Wants(t, http.StatusUnprocessableEntity, "validation_error", field)
	}
	call("operator", http.MethodPut, at+"/limits", object{"payment": "prepaid"}).
		Wants(t, http.StatusForbidden, "insufficient_permissions")
	nobody := "/api/v1/tenants/" + id.NewString() + "/balance"
	call("root", http.MethodPut, nobody+"/limits", object{"payment": "prepaid"}).
		Wants(t, http.StatusNotFound, "billing_account_missing")
	w.credit(t, 28_000)
	call("root", http.MethodPut, at+"/limits", object{"payment": "prepaid", "low_seconds": 3600}).
		Into(t, http.StatusOK, &v)
	w.rent(t)
	w.now = start.Add(4 * time.Hour)
	call("operator", http.MethodGet, at, nil).Into(t, http.StatusOK, &v)
	if v.AvailableMinor == nil || *v.AvailableMinor != 2800*6 || v.RunwayHours == nil || *v.RunwayHours != 6 ||
		v.BurnMinorPerHour != 2800 || v.AccruedMinor != 2800*4 || v.ReleaseSeconds != 3600 ||
		!v.DepletesAt.Equal(start.Add(10*time.Hour)) {
		t.Errorf("%+v", v)
	}
}
