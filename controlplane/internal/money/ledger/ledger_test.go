package ledger_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/testkit"
)

type object = map[string]any

type world struct {
	db, owner *postgres.DB
	ledger    *ledger.Service
	api       *httpapi.API
	org       id.Org
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{}
	w.db, w.owner = postgrestest.NewWithOwner(tb)
	w.ledger, w.api = ledger.New(w.db), httpapitest.New(w.db)
	w.ledger.Register(w.api)
	w.org = w.tenant(tb, "acme", "USD")
	return w
}

// tenant adds a tenant with an account.
func (w *world) tenant(tb testing.TB, slug, currency string) id.Org {
	tb.Helper()
	org := id.New[id.Org]()
	_, err := w.owner.Exec(tb.Context(), `INSERT INTO organizations (id, slug, name) VALUES ($1, $2, $2)`, org, slug)
	if err == nil && currency != "" {
		_, err = account.New(w.db, false).Set(tb.Context(), org, account.Wish{Currency: currency})
	}
	if err != nil {
		tb.Fatal(err)
	}
	return org
}

func (w *world) call(tb testing.TB, as, method, at string, body any) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{
		As: as, Method: method, Path: "/api/v1/tenants/" + w.org.String() + at, Body: body,
	})
}

func (w *world) balance(tb testing.TB, org id.Org) int64 {
	tb.Helper()
	b, err := ledger.BalanceOf(tb.Context(), w.db, org)
	if err != nil {
		tb.Fatal(err)
	}
	return b.Minor
}

// addsUp recomputes every balance from the postings, and the sum of all.
func (w *world) addsUp(tb testing.TB) {
	tb.Helper()
	var wrong, total int64
	if err := w.owner.QueryRow(tb.Context(), `SELECT
		(SELECT count(*) FROM ledger_balances b FULL JOIN
			(SELECT org_id, account, sum(amount_minor) AS total FROM ledger_postings GROUP BY 1, 2) p USING (org_id, account)
			WHERE b.balance_minor IS DISTINCT FROM p.total),
		(SELECT coalesce(sum(amount_minor), 0)::bigint FROM ledger_postings)`).Scan(&wrong, &total); err != nil {
		tb.Fatal(err)
	}
	if wrong != 0 || total != 0 {
		tb.Errorf("%d balances are not the sum of their postings; all postings sum to %d", wrong, total)
	}
}

func credit(minor int64, reference string) object {
	return object{"amount_minor": minor, "currency": "USD", "reference": reference, "reason": "prepaid"}
}

func TestCreditsAndCorrectionsMakeTheBalance(t *testing.T) {
	w := newWorld(t)
	var first, fix ledger.View
	w.call(t, "root", http.MethodPost, "/credits", credit(100_000, "invoice 1")).Into(t, http.StatusCreated, &first)
	if first.AmountMinor != 100_000 || len(first.Postings) != 2 || first.Kind != ledger.Credit ||
		first.MadeBy != "user:root" {
		t.Errorf("%+v", first)
	}
	w.call(t, "root", http.MethodPost, "/credits", credit(5, "invoice 2")).Wants(t, http.StatusCreated, "")
	w.call(t, "root", http.MethodPost, "/credits", credit(7, "invoice 1")).Refused(t, http.StatusConflict,
		"credit_reference_used", first.EntryID.String())
	if got := w.balance(t, w.org); got != 100_005 {
		t.Errorf("the balance is %d", got)
	}
	at := "/ledger/" + first.EntryID.String() + "/corrections"
	w.call(t, "root", http.MethodPost, at, object{"reason": "was for another"}).Into(t, http.StatusCreated, &fix)
	if fix.AmountMinor != -100_000 || fix.CorrectsEntryID == nil || *fix.CorrectsEntryID != first.EntryID {
		t.Errorf("%+v", fix)
	}
	w.call(t, "root", http.MethodPost, at, object{"reason": "again"}).Refused(t, http.StatusConflict,
		"ledger_entry_corrected")
	if got := w.balance(t, w.org); got != 5 {
		t.Errorf("the balance is %d", got)
	}
	// A correction that was wrong is corrected, too.
	w.call(t, "root", http.MethodPost, "/ledger/"+fix.EntryID.String()+"/corrections", object{"reason": "was right"}).
		Wants(t, http.StatusCreated, "")
	if got := w.balance(t, w.org); got != 100_005 {
		t.Errorf("the balance is %d", got)
	}
	var list struct {
		Items      []ledger.View
		NextCursor string `json:"next_cursor"`
	}
	w.call(t, "operator", http.MethodGet, "/ledger?page_size=2", nil).Into(t, http.StatusOK, &list)
	if len(list.Items) != 2 || list.Items[1].EntryID != fix.EntryID || list.Items[1].CorrectedBy == nil ||
		list.NextCursor == "" {
		t.Errorf("%+v", list)
	}
	list.Items = nil
	w.call(t, "operator", http.MethodGet, "/ledger?kind=credit&page_size=9", nil).Into(t, http.StatusOK, &list)
	if len(list.Items) != 2 || list.Items[1].CorrectedBy != nil { // it stands again
		t.Errorf("%+v", list)
	}
	w.addsUp(t)
	var events int
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events
		WHERE event_type = 'payments.balance_credited'`).Scan(&events); err != nil || events != 2 {
		t.Errorf("%d events, %v", events, err)
	}
	var told int64 // who keeps a balance from events has the same
	if err := w.owner.QueryRow(t.Context(), `SELECT coalesce(sum((envelope->'payload'->>'amount_minor')::bigint), 0)::bigint FROM outbox_events
		WHERE event_type IN ('payments.balance_credited', 'billing.entry_corrected')`).Scan(&told); err != nil || told != 100_005 {
		t.Errorf("events tell of %d, %v", told, err)
	}
	var audited int64
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action = 'ledger.correct'
		AND (metadata->>'amount_minor')::bigint <> 0 AND metadata->>'of' <> ''`).Scan(&audited); err != nil || audited != 2 {
		t.Errorf("%d corrections are audited with their amounts, %v", audited, err)
	}
}

func TestBadMoneyIsRefusedAndNothingIsWritten(t *testing.T) {
	w := newWorld(t)
	bad := func(field string, value any) object {
		b := credit(1, "r")
		b[field] = value
		return b
	}
	for name, c := range map[string]struct {
		body   object
		status int
		code   string
	}{
		"nothing":          {bad("amount_minor", 0), http.StatusUnprocessableEntity, "validation_error"},
		"negative":         {bad("amount_minor", -5), http.StatusUnprocessableEntity, "validation_error"},
		"too much":         {bad("amount_minor", int64(1e15)+1), http.StatusUnprocessableEntity, "validation_error"},
		"more than 64 bit": {bad("amount_minor", 1e30), http.StatusUnprocessableEntity, "validation_error"},
		"a fraction":       {bad("amount_minor", 1.5), http.StatusUnprocessableEntity, "validation_error"},
		"foreign currency": {bad("currency", "EUR"), http.StatusConflict, "currency_mismatch"},
		"no reference":     {bad("reference", ""), http.StatusUnprocessableEntity, "validation_error"},
		"no reason":        {bad("reason", ""), http.StatusUnprocessableEntity, "validation_error"},
	} {
		t.Run(name, func(t *testing.T) { w.call(t, "root", http.MethodPost, "/credits", c.body).Wants(t, c.status, c.code) })
	}
	w.call(t, "operator", http.MethodPost, "/credits", credit(1, "r")).Wants(t, http.StatusForbidden,
		"insufficient_permissions")
	w.call(t, "root", http.MethodPost, "/ledger/"+id.NewString()+"/corrections", object{"reason": "r"}).
		Wants(t, http.StatusNotFound, "ledger_entry_not_found")
	none := w.tenant(t, "poor", "")
	grant := ledger.Grant{Minor: 1, Currency: "USD", Reference: "r", Reason: "r"}
	if _, err := w.ledger.Credit(t.Context(), none, grant); fault.CodeOf(err) != "billing_account_missing" {
		t.Errorf("a tenant without an account: %v", err)
	}
	var entries int
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM ledger_entries`).Scan(&entries); err != nil || entries != 0 {
		t.Errorf("%d entries, %v", entries, err)
	}
}

func TestABalanceHasBounds(t *testing.T) {
	w := newWorld(t)
	for n := range 101 {
		_, err := w.ledger.Credit(t.Context(), w.org, ledger.Grant{
			Minor: 1_000_000_000_000_000, Currency: "USD", Reference: strconv.Itoa(n), Reason: "a lot",
		})
		if n < 100 && err != nil || n == 100 && fault.CodeOf(err) != "balance_out_of_bounds" {
			t.Fatalf("credit %d: %v", n, err)
		}
	}
	w.addsUp(t)
}

func to(p ledger.Purse, minor int64) ledger.Posting { return ledger.Posting{Purse: p, Minor: minor} }

// What does not add up, changes what was booked, or is in another currency is refused
// by the database itself, whoever asks.
func TestAttackTheLedgerHoldsAgainstItsOwner(t *testing.T) {
	w := newWorld(t)
	entry, err := w.ledger.Credit(t.Context(), w.org, ledger.Grant{
		Minor: 500, Currency: "USD", Reference: "r", Reason: "prepaid",
	})
	if err != nil {
		t.Fatal(err)
	}
	other := w.tenant(t, "other", "EUR")
	book := func(org id.Org, currency string, postings ...ledger.Posting) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := ledger.Book(ctx, tx, ledger.Entry{
				Org: org, Currency: currency, Kind: ledger.Credit, Reference: id.NewString(), Reason: "attack", Postings: postings,
			})
			return err
		}
	}
	for name, attempt := range map[string]func(context.Context, pgx.Tx) error{
		"no postings":         book(w.org, "USD"),
		"one posting":         book(w.org, "USD", to(ledger.Tenant, 5)),
		"a sum that is not 0": book(w.org, "USD", to(ledger.Tenant, 5), to(ledger.Credits, -4)),
		"amounts of nothing":  book(w.org, "USD", to(ledger.Tenant, 0), to(ledger.Credits, 0)),
		"a second currency":   book(w.org, "EUR", to(ledger.Tenant, 5), to(ledger.Credits, -5)),
		"another one's":       book(other, "USD", to(ledger.Tenant, 5), to(ledger.Credits, -5)),
		"the same purse":      book(w.org, "USD", to(ledger.Tenant, 5), to(ledger.Tenant, -5)),
		"one more posting": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO ledger_postings VALUES ($1, 'revenue', $2, 'USD', 1)`, entry.ID, w.org)
			return err
		},
		"an entry that grows and still sums to zero": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO ledger_postings VALUES ($1, 'payments', $2, 'USD', 1), ($1, 'adjustments', $2, 'USD', -1)`,
				entry.ID, w.org)
			return err
		},
	} {
		if err := w.owner.InTx(t.Context(), attempt); err == nil {
			t.Errorf("it takes %s", name)
		}
	}
	for _, query := range []string{
		`UPDATE ledger_entries SET reason = 'other'`, `DELETE FROM ledger_entries`, `TRUNCATE ledger_entries CASCADE`,
		`UPDATE ledger_postings SET amount_minor = 1`, `DELETE FROM ledger_postings`, `TRUNCATE ledger_postings`,
	} {
		for who, db := range map[string]*postgres.DB{"the product": w.db, "the owner": w.owner} {
			if _, err := db.Exec(t.Context(), query); err == nil {
				t.Errorf("%s may: %s", who, query)
			}
		}
	}
	if _, err := w.db.Exec(t.Context(), `UPDATE ledger_balances SET balance_minor = 0`); err == nil {
		t.Error("the product may write balances")
	}
	if got := w.balance(t, w.org); got != 500 {
		t.Errorf("the balance is %d", got)
	}
	w.addsUp(t)
}

// Two credits with one reference meet: the second has looked before the first commits,
// waits for it, and is refused by the database.
func TestAReferenceIsUsedOnceAtTheSameMoment(t *testing.T) {
	w := newWorld(t)
	second := make(chan error, 1)
	if err := w.owner.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := ledger.Book(ctx, tx, ledger.Entry{
			Org: w.org, Currency: "USD", Kind: ledger.Credit, Reference: "invoice 1", Reason: "first",
			Postings: []ledger.Posting{to(ledger.Credits, -5), to(ledger.Tenant, 5)},
		}); err != nil {
			return err
		}
		go func() {
			_, err := w.ledger.Credit(t.Context(), w.org, ledger.Grant{
				Minor: 7, Currency: "USD", Reference: "invoice 1", Reason: "second",
			})
			second <- err
		}()
		testkit.Eventually(t, "the second to wait for the first", func() bool {
			var waiting int
			err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE a.datname = current_database() AND NOT l.granted`).Scan(&waiting)
			return err == nil && waiting > 0
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "the second", second); fault.CodeOf(err) != "credit_reference_used" {
		t.Errorf("the second: %v", err)
	}
	if got := w.balance(t, w.org); got != 5 {
		t.Errorf("the balance is %d", got)
	}
	w.addsUp(t)
}

// Credits and corrections of two tenants at once, all with the same references: each
// reference is booked once, and everything adds up.
func TestManyBookAtOnce(t *testing.T) {
	w := newWorld(t)
	orgs := []id.Org{w.org, w.tenant(t, "second", "USD")}
	var lock sync.Mutex
	want := map[id.Org]int64{}
	var wait sync.WaitGroup
	refused := 0
	for n := range 6 {
		random := rand.New(rand.NewPCG(21, uint64(n)))
		wait.Go(func() {
			for i := range 15 { // all go through the same references, so each is asked for by six
				org, minor := orgs[i%2], 1+random.Int64N(1000)
				made, err := w.ledger.Credit(t.Context(), org, ledger.Grant{
					Minor: minor, Currency: "USD", Reference: strconv.Itoa(i), Reason: "many",
				})
				if fault.CodeOf(err) == "credit_reference_used" {
					lock.Lock()
					refused++
					lock.Unlock()
					continue
				}
				if err == nil && random.IntN(3) == 0 {
					_, err = w.ledger.Correct(t.Context(), org, made.ID, "wrong")
					minor = 0
				}
				if err != nil {
					t.Error(err)
					return
				}
				lock.Lock()
				want[org] += minor
				lock.Unlock()
			}
		})
	}
	wait.Wait()
	if refused != 5*15 {
		t.Errorf("%d were refused", refused)
	}
	for _, org := range orgs {
		if got := w.balance(t, org); got != want[org] || got == 0 {
			t.Errorf("the balance is %d, want %d", got, want[org])
		}
	}
	w.addsUp(t)
}
