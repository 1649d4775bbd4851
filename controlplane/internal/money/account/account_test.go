package account_test

import (
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/testkit"
)

const h200 = "h200-sxm-baremetal-8g" // seeded: 3.50 USD

type object = map[string]any

// world is a tenant with a project, and a node of which allocations can be made.
type world struct {
	db, owner *postgres.DB
	accounts  *account.Service
	api       *httpapi.API
	org       id.Org
	project   id.Project
	node      id.Node
}

func (w *world) prices() *price.Service { return price.New(w.db, price.Notice) }

func newWorld(tb testing.TB, required bool) *world {
	tb.Helper()
	w := &world{org: id.New[id.Org](), project: id.New[id.Project](), node: id.New[id.Node]()}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.accounts = account.New(w.db, required)
	w.api = httpapitest.New(w.db)
	w.accounts.Register(w.api)
	w.exec(tb, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'acme', 'Acme')`, w.org)
	w.exec(tb, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'training', 'Training')`, w.project, w.org)
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', 'n', 'n', $2, 8, 'eu', 'manual')`, w.node, h200)
	return w
}

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) call(tb testing.TB, as, method, at string, body any) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{As: as, Method: method, Path: at, Body: body})
}

func (w *world) tenant() string { return "/api/v1/tenants/" + w.org.String() + "/billing-account" }

func (w *world) free() string { return "/api/v1/projects/" + w.project.String() + "/free-of-charge" }

// rent makes an allocation with its terms.
func (w *world) rent(tb testing.TB, gpus int32) (account.Terms, error) {
	tb.Helper()
	of := account.Rented{
		Allocation: id.New[id.Allocation](), Org: w.org, Project: w.project, SKU: h200, GPUs: gpus,
	}
	var terms account.Terms
	err := w.db.InTx(tb.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := w.accounts.Offer(ctx, tx, of); err != nil {
			return err
		}
		var err error
		if terms, err = w.accounts.Freeze(ctx, tx, of); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO allocations (id, org_id, project_id, capacity_shape, sku_id, sku_terms, price_minor,
			price_currency, gpus, region_code, node_id, hostname, access, event_id, requested_by)
			VALUES ($1, $2, $3, 'baremetal', $4, '{}', 0, 'USD', $5, 'eu', $6, 'n', 'user', gen_random_uuid(), '')`,
			of.Allocation, of.Org, of.Project, of.SKU, of.GPUs, w.node)
		return err
	})
	return terms, err
}

func (w *world) rented(tb testing.TB, gpus int32) account.Terms {
	tb.Helper()
	terms, err := w.rent(tb, gpus)
	if err != nil {
		tb.Fatal(err)
	}
	return terms
}

func TestTermsAreThoseOfTheMoment(t *testing.T) {
	w := newWorld(t, false)
	if got := w.rented(t, 8); got.Basis != account.NoAccount || got.Currency != "" || got.Paid != 0 || got.Because == "" {
		t.Errorf("without an account: %+v", got)
	}
	w.call(t, "root", http.MethodPut, w.tenant(), object{"currency": "USD", "paid_share": 8500}).
		Wants(t, http.StatusOK, "")
	first := w.rented(t, 8)
	if first.Basis != account.Priced || first.Currency != "USD" || first.Minor != 350 || first.Paid != 8500 ||
		first.Units != 8 || first.Because != "" || first.Price.IsZero() {
		t.Errorf("with an account: %+v", first)
	}
	if got := w.rented(t, 0); got.Units != 1 {
		t.Errorf("a machine without GPUs is %d units", got.Units)
	}
	w.call(t, "root", http.MethodPut, w.free(), object{"reason": "research"}).Wants(t, http.StatusOK, "")
	if got := w.rented(t, 8); got.Basis != account.Free || got.Paid != 0 || got.Because != "research" {
		t.Errorf("in a free project: %+v", got)
	}
	w.call(t, "root", http.MethodDelete, w.free(), nil).Wants(t, http.StatusNoContent, "")
	w.call(t, "root", http.MethodDelete, w.free(), nil).Wants(t, http.StatusNotFound, "project_not_free")
	w.call(t, "root", http.MethodPut, w.tenant(), object{"currency": "USD", "paid_share": 10_000}).
		Wants(t, http.StatusOK, "")
	if _, err := w.prices().Set(t.Context(), price.Offer{SKU: h200, Currency: "USD", Minor: 400}); err != nil {
		t.Fatal(err)
	}
	if got := w.rented(t, 8); got.Basis != account.Priced || got.Minor != 400 || got.Paid != 10_000 {
		t.Errorf("after all of that: %+v", got)
	}
	// What was agreed first is as it was.
	kept, err := w.accounts.TermsOf(t.Context(), w.project, first.Allocation)
	if err != nil || !reflect.DeepEqual(kept, first) {
		t.Errorf("%+v, %v", kept, err)
	}
	if _, err := w.accounts.TermsOf(t.Context(), id.New[id.Project](), first.Allocation); fault.CodeOf(err) !=
		"allocation_terms_not_found" {
		t.Errorf("of another project: %v", err)
	}
}

func TestWhatCannotBeChargedIsNotLet(t *testing.T) {
	w := newWorld(t, true)
	if _, err := w.rent(t, 8); fault.CodeOf(err) != "billing_account_missing" || fault.KindOf(err) != fault.Forbidden {
		t.Errorf("without an account: %v", err)
	}
	w.call(t, "root", http.MethodPut, w.tenant(), object{"currency": "EUR"}).Wants(t, http.StatusOK, "")
	if _, err := w.rent(t, 8); fault.CodeOf(err) != "sku_not_priced" {
		t.Errorf("without a price in EUR: %v", err)
	}
	if _, err := w.prices().Set(t.Context(), price.Offer{SKU: h200, Currency: "EUR", Minor: 0}); err != nil {
		t.Fatal(err)
	}
	if got := w.rented(t, 8); got.Currency != "EUR" || got.Minor != 0 || got.Basis != account.Priced {
		t.Errorf("at a price of nothing: %+v", got)
	}
}

func TestAccountsOverTheAPI(t *testing.T) {
	w := newWorld(t, false)
	w.call(t, "root", http.MethodGet, w.tenant(), nil).Wants(t, http.StatusNotFound, "billing_account_missing")
	w.call(t, "root", http.MethodPut, w.free(), object{"reason": "r"}).Wants(t, http.StatusNotFound,
		"billing_account_missing")
	for field, body := range map[string]object{
		"body.currency": {"currency": "XXX"}, "body.paid_share": {"currency": "USD", "paid_share": 10_001},
	} {
		w.call(t, "root", http.MethodPut, w.tenant(), body).
			Wants(t, http.StatusUnprocessableEntity, "validation_error", field)
	}
	nobody := "/api/v1/tenants/" + id.NewString() + "/billing-account"
	w.call(t, "root", http.MethodPut, nobody, object{"currency": "USD"}).Wants(t, http.StatusNotFound, "not_found")
	w.call(t, "root", http.MethodPut, w.tenant(), object{"currency": "USD"}).Wants(t, http.StatusOK, "")
	w.call(t, "root", http.MethodPut, w.tenant(), object{"currency": "EUR"}).
		Refused(t, http.StatusConflict, "currency_fixed")
	for _, who := range []string{"operator", "auditor"} {
		w.call(t, who, http.MethodPut, w.tenant(), object{"currency": "USD"}).Wants(t, http.StatusForbidden,
			"insufficient_permissions")
		w.call(t, who, http.MethodGet, w.tenant(), nil).Wants(t, http.StatusOK, "")
	}
	var v account.View
	w.call(t, "root", http.MethodGet, w.tenant(), nil).Into(t, http.StatusOK, &v)
	if v.Currency != "USD" || v.PaidShare != 10_000 || v.Version != 1 {
		t.Errorf("%+v", v)
	}
	w.call(t, "root", http.MethodPut, w.free(), object{"reason": ""}).Wants(t, http.StatusUnprocessableEntity,
		"validation_error")
	w.call(t, "root", http.MethodPut, w.free(), object{"reason": "a gift"}).Wants(t, http.StatusOK, "")
	var list struct{ Items []account.FreeView }
	w.call(t, "auditor", http.MethodGet, w.tenant()+"/free-projects", nil).Into(t, http.StatusOK, &list)
	if len(list.Items) != 1 || list.Items[0].ProjectID != w.project || list.Items[0].Reason != "a gift" {
		t.Errorf("%+v", list)
	}
}

// Nobody gets a second currency into a tenant, or changes what was agreed: not the
// product, and not the owner of the tables.
func TestAttackATenantHasOneCurrencyAndItsTermsStay(t *testing.T) {
	w := newWorld(t, false)
	w.call(t, "root", http.MethodPut, w.tenant(), object{"currency": "USD"}).Wants(t, http.StatusOK, "")
	terms := w.rented(t, 8)
	for _, query := range []string{
		`UPDATE billing_accounts SET currency = 'EUR'`, `DELETE FROM billing_accounts`,
		`INSERT INTO billing_accounts (org_id, currency, updated_by) SELECT org_id, 'EUR', '' FROM billing_accounts`,
		`INSERT INTO allocation_terms (allocation_id, org_id, project_id, sku_id, basis, currency, price_minor, paid_share, units)
			SELECT gen_random_uuid(), org_id, project_id, sku_id, 'priced', 'EUR', 1, 10000, 1 FROM allocation_terms`,
		`INSERT INTO allocation_terms (allocation_id, org_id, project_id, sku_id, basis, currency, price_minor, paid_share, units)
			SELECT gen_random_uuid(), org_id, project_id, sku_id, 'free_project', 'USD', 1, 0, 1 FROM allocation_terms`,
		`UPDATE allocation_terms SET paid_share = 0`, `DELETE FROM allocation_terms`, `TRUNCATE allocation_terms`,
	} {
		for who, db := range map[string]*postgres.DB{"the product": w.db, "the owner": w.owner} {
			if _, err := db.Exec(t.Context(), query); err == nil {
				t.Errorf("%s may: %s", who, query)
			}
		}
	}
	kept, err := w.accounts.TermsOf(t.Context(), w.project, terms.Allocation)
	if err != nil || !reflect.DeepEqual(kept, terms) {
		t.Errorf("%+v, %v", kept, err)
	}
}

// What an operator places for a project that did not ask for it is free, and says so.
func TestWhatAnOperatorPlacesIsNotCharged(t *testing.T) {
	w := newWorld(t, true)
	w.call(t, "root", http.MethodPut, w.tenant(), object{"currency": "USD"}).Wants(t, http.StatusOK, "")
	if err := w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		got, err := w.accounts.Offer(ctx, tx, account.Rented{
			Org: w.org, Project: w.project, SKU: h200, GPUs: 8, Placed: true,
		})
		if got.Basis != account.Placed || got.Paid != 0 || got.Because == "" || got.Minor != 350 {
			t.Errorf("%+v", got)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// Whoever agrees on a price holds it until the transaction ends: a new one begins after
// that, so that nothing is agreed at a price that another had replaced, and a group has
// one price.
func TestAPriceBeginsAfterThoseWhoRentAtTheOneBefore(t *testing.T) {
	w := newWorld(t, false)
	w.call(t, "root", http.MethodPut, w.tenant(), object{"currency": "USD"}).Wants(t, http.StatusOK, "")
	type result struct {
		set price.Price
		err error
	}
	done := make(chan result, 1)
	var agreed time.Time
	if err := w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		of := account.Rented{Org: w.org, Project: w.project, SKU: h200, GPUs: 8}
		first, err := w.accounts.Offer(ctx, tx, of)
		if err != nil {
			return err
		}
		go func() {
			set, err := w.prices().Set(t.Context(), price.Offer{SKU: h200, Currency: "USD", Minor: 400})
			done <- result{set, err}
		}()
		testkit.Eventually(t, "the price to wait for who rents", func() bool {
			var waiting int
			err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE a.datname = current_database() AND NOT l.granted`).Scan(&waiting)
			return err == nil && waiting > 0
		})
		second, err := w.accounts.Offer(ctx, tx, of)
		if err == nil && (second.Price != first.Price || second.Minor != 350) {
			t.Errorf("two prices in one request: %+v, %+v", first, second)
		}
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&agreed)
	}); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, "the price", done); got.err != nil || !got.set.From.After(agreed) {
		t.Errorf("it holds from %s, agreed was until %s: %v", got.set.From, agreed, got.err)
	}
}

// A change that names the version that it is based on is made only if the account still
// has it.
func TestAChangeIsBasedOnWhatWasSeen(t *testing.T) {
	w := newWorld(t, false)
	set := func(body object) httpapitest.Answer {
		body["currency"] = "USD"
		return w.call(t, "root", http.MethodPut, w.tenant(), body)
	}
	set(object{"version": 1}).Refused(t, http.StatusConflict, "billing_account_changed")
	set(object{}).Wants(t, http.StatusOK, "")
	set(object{"version": 1, "paid_share": 9_000}).Wants(t, http.StatusOK, "")
	set(object{"version": 1, "paid_share": 0}).Refused(t, http.StatusConflict, "billing_account_changed")
	now, err := account.Get(t.Context(), w.db, w.org)
	if err != nil || now.Paid != 9_000 || now.Version != 2 {
		t.Errorf("%+v, %v", now, err)
	}
	set(object{"paid_share": 8_000}).Wants(t, http.StatusOK, "")
}
