package statement_test

import (
	"bytes"
	"encoding/csv"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuaas/contract/currency"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/ledger"
	"gpuaas/controlplane/internal/money/statement"
)

var update = flag.Bool("update", false, "write the golden files")

func (w *world) close(tb testing.TB, m time.Month) statement.Document {
	tb.Helper()
	d, err := w.statements.Close(tb.Context(), w.org, month(m))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func (w *world) refused(tb testing.TB, m time.Month, code string) {
	tb.Helper()
	if _, err := w.statements.Close(tb.Context(), w.org, month(m)); fault.CodeOf(err) != code {
		tb.Errorf("closing %s: %v, want %s", m, err, code)
	}
}

// agrees compares the ledger with rated usage.
func (w *world) agrees(tb testing.TB) {
	tb.Helper()
	c, err := w.statements.Check(tb.Context(), id.Org{}, func() {})
	if err != nil || c.Disagreements != 0 {
		tb.Errorf("%+v, %v", c, err)
	}
}

// Months of a tenant are closed in their order, once and charged to their end. What is
// booked later goes to the next statement.
func TestMonthsAreClosedInTheirOrder(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, w.tenant, 8, `{"team": "vision"}`, month(2).Add(24*hour), time.Time{})
	w.now = month(3).Add(-time.Microsecond)
	w.meter(t)
	w.refused(t, 2, "period_not_over")
	w.now = month(3).Add(hour)
	w.refused(t, 2, "period_not_charged")
	w.refused(t, 1, "period_closed")
	w.refused(t, 3, "period_not_over")
	w.meter(t)
	w.now = month(4).Add(hour)
	w.refused(t, 3, "period_not_next")
	first := w.close(t, 2)
	if first.Label != "ACME-0001" || first.Number != 1 || first.UsageMinor != 27*24*2520 ||
		first.ClosingMinor != -27*24*2520 ||
		len(first.Lines) != 1 || !first.Lines[0].To.Equal(month(3)) || first.LateEntries != 0 {
		t.Errorf("%+v", first)
	}
	w.refused(t, 2, "period_closed")
	w.repair(t, a, w.node, month(2).Add(48*hour), month(2).Add(50*hour)) // it is seen after the month was closed
	w.meter(t)
	second := w.close(t, 3)
	if second.Number != 2 || second.OpeningMinor != first.ClosingMinor || second.UsageMinor != 31*24*2520 ||
		second.ReliefMinor != 2*2520 || second.LateEntries != 1 || len(second.Reliefs) != 1 || !second.Reliefs[0].Late {
		t.Errorf("%+v", second)
	}
	w.agrees(t)
	var list struct{ Items []statement.View }
	w.get(t, "auditor", "/api/v1/tenants/"+w.org.String()+"/statements", nil).Into(t, http.StatusOK, &list)
	if len(list.Items) != 2 || list.Items[0].Number != 2 || list.Items[1].ClosingMinor != first.ClosingMinor {
		t.Errorf("%+v", list)
	}
	if got, err := w.statements.Get(t.Context(), w.org, first.StatementID); err != nil || cmp.Diff(got, first) != "" {
		t.Errorf("%v %s", err, cmp.Diff(got, first))
	}
	other := w.settle(t, "rival", "USD")
	if _, err := w.statements.Get(t.Context(), other.org, first.StatementID); fault.CodeOf(err) != "statement_not_found" {
		t.Errorf("%v", err)
	}
}

// The schedule closes all months that ended long enough ago; a tenant that cannot be
// closed holds up no other.
func TestMonthsAreClosedBySchedule(t *testing.T) {
	w := newWorld(t)
	stuck := w.settle(t, "stuck", "USD")
	w.rent(t, w.tenant, 8, `{}`, month(2).Add(24*hour), month(4).Add(24*hour))
	w.now = month(5).Add(5 * hour)
	w.meter(t)
	w.rent(t, stuck, 8, `{}`, month(2).Add(24*hour), time.Time{}) // nobody has metered it
	err := w.statements.CloseDue(t.Context(), func() {})
	if err == nil || !strings.Contains(err.Error(), "period_not_charged") ||
		strings.Contains(err.Error(), w.org.String()) {
		t.Errorf("%v", err)
	}
	count := func(of id.Org) int64 {
		return w.number(t, `SELECT count(*) FROM billing_statements WHERE org_id = $1`, of)
	}
	if count(w.org) != 2 || count(stuck.org) != 0 {
		t.Errorf("%d and %d statements", count(w.org), count(stuck.org))
	}
	w.now = w.now.Add(hour)
	w.meter(t)
	var wait sync.WaitGroup
	for range 3 { // replicas
		wait.Go(func() {
			if err := w.statements.CloseDue(t.Context(), func() {}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if count(w.org) != 3 || count(stuck.org) != 3 {
		t.Errorf("%d and %d statements", count(w.org), count(stuck.org))
	}
	if n := w.number(t, `SELECT sum(number) FROM billing_statements WHERE org_id = $1`, w.org); n != 1+2+3 {
		t.Errorf("the numbers sum to %d", n)
	}
	w.agrees(t)
}

func TestAttackAStatementStaysAsItWasIssued(t *testing.T) {
	w := newWorld(t)
	w.rent(t, w.tenant, 8, `{}`, month(2).Add(hour), month(2).Add(2*hour))
	w.now = month(3).Add(hour)
	w.meter(t)
	w.close(t, 2)
	for _, change := range []string{
		`UPDATE billing_statements SET closing_minor = 0`, `DELETE FROM billing_statements`, `TRUNCATE billing_statements CASCADE`,
		`UPDATE ledger_entries SET period = '2026-02-01Z'`,
	} {
		for who, db := range map[string]*postgres.DB{"the product": w.db, "the owner": w.owner} {
			if _, err := db.Exec(t.Context(), change); err == nil {
				t.Errorf("%s may %s", who, change)
			}
		}
	}
	if _, err := w.db.Exec(t.Context(), `UPDATE billing_periods SET open_since = '2026-02-01Z'`); err == nil {
		t.Error("the product may open a month again")
	}
	// Even the owner does not get a statement that leaves a number, a month or an entry out, or invents money.
	again := func(set string) error {
		_, err := w.owner.Exec(t.Context(), `INSERT INTO billing_statements SELECT (jsonb_populate_record(s, to_jsonb(s) ||
			jsonb_build_object('id', gen_random_uuid(), 'label', 'X', 'number', 2, 'previous', 1, 'period_start', s.period_end,
			'period_end', s.period_end + interval '1 month', 'opening_minor', s.closing_minor, 'usage_minor', 0, 'entries', 0)
			|| `+set+`)).* FROM billing_statements s`)
		return err
	}
	for _, set := range []string{
		`'{"number": 3, "previous": 2}'`, `'{"number": 3}'`, `'{"opening_minor": 0, "closing_minor": 0}'`,
		`'{"closing_minor": 1}'`, `'{"money_in_minor": 2520, "closing_minor": 0}'`, `'{"entries": 1}'`,
		`'{"period_start": "2026-04-01T00:00:00Z", "period_end": "2026-05-01T00:00:00Z"}'`,
		`'{"period_end": "2026-05-01T00:00:00Z"}'`,
	} {
		if again(set) == nil {
			t.Errorf("a statement with %s is accepted", set)
		}
	}
	if err := again(`'{}'`); err != nil { // the probe itself is sound
		t.Errorf("the next statement is refused: %v", err)
	}
}

// What disagrees is found: money that was booked without usage, and usage without money.
func TestDisagreementsAreFound(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, w.tenant, 8, `{}`, month(2).Add(hour), month(2).Add(10*hour))
	b := w.rent(t, w.tenant, 8, `{}`, month(2).Add(hour), month(2).Add(10*hour))
	w.meter(t)
	w.agrees(t)
	// Nobody can do that with the rights of the product, nor by accident with those of the owner.
	for _, q := range []string{
		`ALTER TABLE ledger_postings DISABLE TRIGGER USER`, `ALTER TABLE usage_windows DISABLE TRIGGER USER`,
		`UPDATE ledger_postings p SET amount_minor = amount_minor + sign(amount_minor) FROM ledger_entries e
			WHERE e.id = p.entry_id AND e.allocation_id = '` + a.String() + `'`,
		`UPDATE usage_windows SET amount_minor = amount_minor - 1 WHERE allocation_id = '` + b.String() + `'`,
	} {
		w.exec(t, q)
	}
	var v statement.CheckView
	w.get(t, "operator", "/api/v1/tenants/"+w.org.String()+"/ledger-check", nil).Into(t, http.StatusOK, &v)
	if v.Agrees || v.Disagreements != 3 || len(v.Found) != 3 || v.Allocations != 2 {
		t.Fatalf("%+v", v)
	}
	if f := v.Found[0]; *f.AllocationID != a || f.WantMinor != 9*2520 || f.GotMinor != 9*2520+1 {
		t.Errorf("%+v", f)
	}
	if f := v.Found[1]; *f.AllocationID != b || f.GotMinor != 9*2520-1 {
		t.Errorf("%+v", f)
	}
	if f := v.Found[2]; f.AllocationID != nil || f.GotMinor != -18*2520 || f.WantMinor != -18*2520-1 {
		t.Errorf("%+v", f)
	}
	w.get(t, "operator", "/api/v1/admin/ledger-check", nil).Into(t, http.StatusOK, &v)
	if !v.Agrees { // the last hourly comparison was before that
		t.Errorf("%+v", v)
	}
	if _, err := w.statements.Check(t.Context(), id.Org{}, func() {}); err != nil {
		t.Fatal(err)
	}
	w.get(t, "operator", "/api/v1/admin/ledger-check", nil).Into(t, http.StatusOK, &v)
	if v.Agrees || v.Disagreements != 3 {
		t.Errorf("%+v", v)
	}
}

// What is used and has no meter is listed, with the reason, and is no disagreement.
func TestWhatIsNeverChargedIsListed(t *testing.T) {
	w := newWorld(t)
	w.rent(t, w.tenant, 8, `{}`, month(2), time.Time{})
	ended := w.settle(t, "unknown", "")
	w.rent(t, ended, 8, `{}`, month(2), month(2).Add(hour)) // it is over
	free := w.settle(t, "early", "")
	early := w.rent(t, free, 8, `{}`, month(2).Add(hour), time.Time{})
	old := id.New[id.Allocation]()
	w.exec(t, `INSERT INTO allocations SELECT (jsonb_populate_record(a, jsonb_build_object('id', $1::text, 'active_at', $3::timestamptz))).*
		FROM allocations a WHERE a.id = $2`, old, w.rentedBy(t, w.org), month(2).Add(2*hour)) // a release of before made it
	if _, err := w.accounts.Set(t.Context(), free.org, account.Wish{Currency: "USD"}); err != nil { // too late for it
		t.Fatal(err)
	}
	if _, err := w.statements.Check(t.Context(), id.Org{}, func() {}); err != nil {
		t.Fatal(err)
	}
	var v statement.CheckView
	w.get(t, "operator", "/api/v1/admin/ledger-check", nil).Into(t, http.StatusOK, &v)
	if !v.Agrees || v.NeverCharged != 2 || len(v.Unmetered) != 2 {
		t.Fatalf("%+v", v)
	}
	if f := v.Unmetered[0]; f.AllocationID != early || f.OrgID != free.org ||
		!strings.Contains(f.Message, "no billing account") {
		t.Errorf("%+v", f)
	}
	if f := v.Unmetered[1]; f.AllocationID != old || f.SKU != h200 ||
		!strings.Contains(f.Message, "before there was billing") {
		t.Errorf("%+v", f)
	}
	w.get(t, "operator", "/api/v1/tenants/"+w.org.String()+"/ledger-check", nil).Into(t, http.StatusOK, &v)
	if v.NeverCharged != 1 || v.Unmetered[0].AllocationID != old {
		t.Errorf("of one tenant: %+v", v)
	}
}

// rentedBy is an allocation of a tenant.
func (w *world) rentedBy(tb testing.TB, org id.Org) (of id.Allocation) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), `SELECT id FROM allocations WHERE org_id = $1 LIMIT 1`, org).Scan(&of); err != nil {
		tb.Fatal(err)
	}
	return of
}

// sample is a statement with a line of every kind.
func sample() statement.Document {
	n := byte(0)
	next := func() (u [16]byte) {
		n++
		u[0], u[6], u[8], u[15] = 1, 0x70, 0x80, n
		return u
	}
	price, a, b := id.Price(next()), id.Allocation(next()), id.Allocation(next())
	from, to := month(2).Add(90*time.Minute), month(2).Add(100*hour+1500*time.Millisecond)
	before := month(1).Add(hour)
	return statement.Document{
		StatementID: next(), Number: 2, Label: "ACME-0002", Issuer: "Example Cloud", OrgID: next(), Tenant: "acme",
		TenantName: "Acme <&> Sons", Currency: "USD", PeriodStart: month(2), PeriodEnd: month(3),
		IssuedAt: month(3).Add(6 * hour), OpeningMinor: 100_000, UsageMinor: 248_220, ReliefMinor: 5_040,
		MendedMinor:  -1_000 + 2_520,
		MoneyInMinor: 50_000, ClosingMinor: 100_000 - 248_220 + 5_040 + 1_520 + 50_000, Entries: 106, LateEntries: 1,
		Lines: []statement.Line{
			{
				AllocationID: a, Name: "=cmd()", ProjectID: next(), Project: "training", SKU: h200, PriceID: &price, Region: "eu",
				NodeID: next(), Hostname: "c07u31", RequestedBy: "u1", RequestedByName: "Ada",
				Labels: map[string]string{"team": "vision"},
				Units:  8, PriceMinor: 350, PaidShare: 9000, From: from, To: to, Seconds: 354_601, ListMinor: 275_800,
				UsageMinor: 248_220,
			},
			{
				AllocationID: b, ProjectID: next(), Project: "research", SKU: h200, PriceID: &price, Region: "eu", NodeID: next(),
				Hostname: "c07u32", RequestedBy: "u2", FreeBecause: "teaching", Units: 1, PriceMinor: 350, From: from, To: to,
				Seconds: 354_601, ListMinor: 34_475, Late: true,
			},
		},
		Reliefs: []statement.ReliefLine{{
			EntryID: next(), AllocationID: a, From: before, To: before.Add(2 * hour), Reason: "the node was repaired: a fan",
			AmountMinor: 5_040, Late: true,
		}},
		Corrections: []statement.MendLine{
			{
				EntryID: next(), CorrectsID: next(), Of: "credit", Reason: "was for another", BookedAt: month(2).Add(3 * hour),
				AmountMinor: -1_000,
			},
			{
				EntryID: next(), CorrectsID: next(), Of: "usage", AllocationID: &a, From: &from, To: &to, Reason: "a wrong hour",
				BookedAt: month(2).Add(4 * hour), AmountMinor: 2_520,
			},
		},
		MoneyIn: []statement.MoneyLine{{
			EntryID: next(), Kind: "credit", Reference: "invoice 17", Reason: "prepaid", BookedAt: month(2).Add(hour),
			AmountMinor: 50_000,
		}},
		Projects: []statement.ProjectLine{{
			ProjectID: next(), Project: "training", Seconds: 8 * 354_601, UsageMinor: 248_220,
		}},
	}
}

func TestStatementsLookLikeTheirGoldenFiles(t *testing.T) {
	d := sample()
	for name, written := range map[string]func(statement.Document) ([]byte, error){
		"statement.csv": statement.Document.CSV, "statement.html": statement.Document.HTML,
		"statement-focus.csv": statement.Document.Focus,
	} {
		got, err := written(d)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || cmp.Diff(string(want), string(got)) != "" {
			t.Errorf("%s: %v %s", name, err, cmp.Diff(string(want), string(got)))
		}
	}
}

// Whoever adds the CSV up by hand gets the closing balance.
func TestTheLinesOfAStatementSumToItsBalance(t *testing.T) {
	w := newWorld(t)
	if _, err := w.ledger.Credit(t.Context(), w.org, ledger.Grant{
		Minor: 100_000, Currency: "USD", Reference: "invoice 1", Reason: "prepaid",
	}); err != nil {
		t.Fatal(err)
	}
	w.exec(t, `ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_append_only`)
	w.exec(t, `UPDATE ledger_entries SET period = '2026-02-01Z'`) // as if it had been booked then
	w.exec(t, `ALTER TABLE ledger_entries ENABLE TRIGGER ledger_entries_append_only`)
	a := w.rent(t, w.tenant, 8, `{}`, month(2).Add(hour), month(2).Add(7*hour+777*time.Second))
	w.rent(t, w.tenant, 0, `{}`, month(2).Add(hour), month(2).Add(7*hour+777*time.Second))
	w.repair(t, a, w.node, month(2).Add(2*hour), month(2).Add(3*hour))
	w.meter(t)
	d := w.close(t, 2)
	path := "/api/v1/tenants/" + w.org.String() + "/statements/" + d.StatementID.String()
	answer := w.get(t, "auditor", path+"/csv", nil)
	rows, err := csv.NewReader(bytes.NewReader(answer.Body)).ReadAll()
	if err != nil || answer.Status != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/csv") {
		t.Fatalf("%d %v %s", answer.Status, err, answer.Body)
	}
	at := map[string]int{}
	for i, h := range rows[0] {
		at[h] = i
	}
	sum := int64(0)
	for _, r := range rows[1:] {
		minor, err := currency.Parse(r[at["amount"]], "USD")
		if err != nil {
			t.Fatal(err)
		}
		if r[at["kind"]] == "closing" {
			sum -= minor
			continue
		}
		sum += minor
	}
	if sum != 0 || d.ClosingMinor != 100_000-d.UsageMinor+2520 || d.UsageMinor != 15_663+1_957 {
		t.Errorf("the lines miss the closing balance by %d: %+v", sum, d)
	}
	page := w.get(t, "auditor", path+"/html", nil)
	if page.Status != http.StatusOK ||
		!strings.Contains(page.Header.Get("Content-Security-Policy"), "style-src 'sha256-") ||
		!bytes.Contains(page.Body, []byte(currency.Format(d.ClosingMinor, "USD"))) {
		t.Errorf("%d %s %s", page.Status, page.Header, page.Body)
	}
	httpapitest.Call(t, w.api.Handler(), httpapitest.Request{
		As: "root", Method: http.MethodPost, Path: "/api/v1/tenants/" + w.org.String() + "/statements",
		Body: map[string]any{"month": "2026-13"},
	}).Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.month")
}

// A tenant with ten thousand allocations, each charged five times: closing its month, and
// what is made of the statement.
func BenchmarkStatementOfTenThousandAllocations(b *testing.B) {
	w := newWorld(b)
	w.now = month(2).Add(20 * hour)
	for n := range 10_000 {
		began := month(2).Add(time.Duration(n) * time.Second)
		w.rent(b, w.tenant, 8, `{"team": "vision"}`, began, began.Add(9*hour))
	}
	for h := range 5 {
		w.now = month(2).Add(time.Duration(4+2*h) * hour)
		w.meter(b)
	}
	w.now = month(3).Add(hour)
	w.meter(b)
	b.ResetTimer()
	for b.Loop() {
		b.StopTimer()
		w.exec(b, `ALTER TABLE billing_statements DISABLE TRIGGER USER`)
		w.exec(b, `DELETE FROM billing_statements`)
		w.exec(b, `ALTER TABLE billing_statements ENABLE TRIGGER USER`)
		w.exec(b, `UPDATE billing_periods SET open_since = $1`, month(2))
		b.StartTimer()
		d := w.close(b, 2)
		if len(d.Lines) != 10_000 {
			b.Fatalf("%d lines", len(d.Lines))
		}
		for _, written := range []func(statement.Document) ([]byte, error){
			statement.Document.CSV, statement.Document.HTML, statement.Document.Focus,
		} {
			if _, err := written(d); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// What is closed too early stays closed, so a clock that is ahead closes nothing.
func TestAClockThatIsAheadClosesNoMonth(t *testing.T) {
	w := newWorld(t)
	w.now = month(4).Add(7 * hour)
	ahead := statement.New(statement.Config{
		DB: w.db, Issuer: "Example Cloud", CloseAfter: 6 * hour, Clock: func() time.Time { return w.now },
		Here: func() time.Time { return w.now.Add(-14 * 24 * hour) },
	})
	if err := ahead.CloseDue(t.Context(), func() {}); fault.CodeOf(err) != "clocks_differ" {
		t.Errorf("by schedule: %v", err)
	}
	if _, err := ahead.Close(t.Context(), w.org, month(2)); fault.CodeOf(err) != "clocks_differ" {
		t.Errorf("by hand: %v", err)
	}
	if n := w.number(t, `SELECT count(*) FROM billing_statements`); n != 0 {
		t.Errorf("%d statements", n)
	}
}
