package statement_test

import (
	"math/big"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/reserved"
	"gpuaas/controlplane/internal/money/reserved/reservedtest"
	"gpuaas/controlplane/internal/money/statement"
)

// unused charges reservations, of which nothing is lacking.
func (w *world) unused(tb testing.TB) *reserved.Service {
	tb.Helper()
	reservedtest.Price(tb, w.db, 111)
	return reserved.New(reserved.Config{
		DB: w.db, Every: time.Hour, Clock: func() time.Time { return w.now }, Kept: reservedtest.Enough(w.db),
	})
}

func (w *world) reserve(
	tb testing.TB, charges *reserved.Service, project id.Project, nodes int32, from, to time.Time,
) id.Reservation {
	tb.Helper()
	of, err := reservedtest.Reserve(tb.Context(), w.db, w.accounts, charges, reservedtest.Plan{
		Org: w.org, Project: project, Nodes: nodes, From: from, To: to,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return of
}

// What is reserved and not used is in usage, statement, CSV, FOCUS and comparison, to the
// minor unit, and a month is closed only when it is charged.
func TestWhatIsReservedIsStated(t *testing.T) {
	w := newWorld(t)
	charges := w.unused(t)
	w.now = month(2)
	whole := w.reserve(t, charges, id.Project{}, 3, start, month(3).Add(10*time.Hour+time.Second/2))
	ours := w.reserve(t, charges, w.project, 1, start.Add(90*time.Minute), month(2).AddDate(0, 0, 20))
	w.rent(t, w.tenant, 8, "{}", start.Add(100*time.Hour), start.Add(200*time.Hour+777*time.Millisecond))
	w.now = month(3).Add(5 * time.Hour)
	if err := w.meters.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.statements.Close(t.Context(), w.org, month(2)); fault.CodeOf(err) != "period_not_charged" {
		t.Fatalf("the month is closed without its reservations: %v", err)
	}
	if err := charges.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	report := func(by ...statement.By) (cost, unused, open int64) {
		r, err := w.statements.Usage(t.Context(), statement.Question{Org: w.org, From: month(2), To: month(4), By: by})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range r.Groups {
			cost, unused, open = cost+g.Cost, unused+g.Unused, open+g.NotCharged
		}
		return cost, unused, open
	}
	cost, unused, open := report()
	for _, by := range [][]statement.By{
		{statement.ByDay}, {statement.ByProject, statement.BySKU}, {statement.ByNode, statement.ByDay},
	} {
		if c, u, o := report(by...); c != cost || u != unused || o != open || open != 0 || unused == 0 {
			t.Errorf("by %v the cost is %d, of it %d are unused and %d not charged; together %d, %d and %d", by, c, u, o, cost, unused, open)
		}
	}
	if left := -w.number(t, `SELECT balance_minor FROM ledger_balances WHERE org_id = $1 AND account = 'tenant'`, w.org); left != cost {
		t.Errorf("booked are %d, used %d", left, cost)
	}
	d, err := w.statements.Close(t.Context(), w.org, month(2))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Reserved) != 2 || d.Reserved[0].ReservationID != whole || d.Reserved[1].ReservationID != ours ||
		d.UnusedMinor != d.Reserved[0].UsageMinor+d.Reserved[1].UsageMinor ||
		d.UsageMinor != d.UnusedMinor+d.Lines[0].UsageMinor {
		t.Errorf("reserved are %+v, of %d %d are unused", d.Reserved, d.UsageMinor, d.UnusedMinor)
	}
	// The node is used of the project's own reservation until that was clean again, which it never was.
	if n := d.Reserved[1].NodeSeconds; n != 98*3600+1800 {
		t.Errorf("of the reservation of the project %d node-seconds were not used", n)
	}
	if p := d.Projects; len(p) != 1 || p[0].UsageMinor != d.Lines[0].UsageMinor+d.Reserved[1].UsageMinor {
		t.Errorf("of the project are %+v", p)
	}
	w.now = month(3).Add(20 * time.Hour)
	if err := charges.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.holdsTogether(t, d)
}

// holdsTogether exports a statement in all forms, and compares ledger and rule.
func (w *world) holdsTogether(t *testing.T, d statement.Document) {
	t.Helper()
	entry := w.number(t, `SELECT count(*) FROM ledger_entries WHERE reservation_id IS NOT NULL`)
	if c, err := w.statements.Check(t.Context(), id.Org{}, func() {}); err != nil || c.Disagreements != 0 || entry == 0 {
		t.Errorf("the comparison finds %+v, %v, among %d entries", c.Found, err, entry)
	}
	export, err := d.Focus()
	if err != nil {
		t.Fatal(err)
	}
	rows, billed := holdToFocus(t, export)
	reservedRows := 0
	for _, r := range rows {
		if (r["CapacityReservationId"] == "") != (r["CapacityReservationStatus"] == "") {
			t.Errorf("a row has the capacity %q in the state %q", r["CapacityReservationId"], r["CapacityReservationStatus"])
		}
		if r["CapacityReservationStatus"] == "Unused" {
			reservedRows++
		}
	}
	if billed.Cmp(big.NewRat(d.ChargesMinor(), 100)) != 0 || reservedRows != 2 {
		t.Errorf("%d rows are of reservations, billed are %s, charged %d", reservedRows, billed.FloatString(2),
			d.ChargesMinor())
	}
	text, err := d.CSV()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "../../../../tools/recompute-statement.py")
	cmd.Stdin = strings.NewReader(string(text))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "0 wrong") {
		t.Errorf("recomputed by hand: %v\n%s", err, out)
	}
	page, err := d.HTML()
	if err != nil || !strings.Contains(string(page), "Reserved and not used") {
		t.Errorf("the page does not show what is reserved: %v", err)
	}
}

// A charge of a reservation is corrected as any other, and that is no money that came in.
func TestAChargeOfAReservationIsCorrected(t *testing.T) {
	w := newWorld(t)
	charges := w.unused(t)
	w.now = month(2)
	r := w.reserve(t, charges, w.project, 1, start, start.Add(2*time.Hour))
	w.now = month(2).AddDate(0, 0, 2)
	if err := charges.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	var entry id.LedgerEntry
	if err := w.owner.QueryRow(t.Context(), `SELECT id FROM ledger_entries WHERE reservation_id = $1`, r).Scan(&entry); err != nil {
		t.Fatal(err)
	}
	charged := w.number(t, `SELECT sum(amount_minor) FROM reservation_windows`)
	if _, err := w.ledger.Correct(t.Context(), w.org, entry, "we lacked nodes"); err != nil {
		t.Fatal(err)
	}
	// As if the months between were closed: it is corrected now.
	w.exec(t, `UPDATE billing_periods SET open_since = (SELECT max(period) FROM ledger_entries) WHERE org_id = $1`, w.org)
	d, err := w.statements.Open(t.Context(), w.org)
	if err != nil {
		t.Fatal(err)
	}
	if d.ChargesMinor() != -charged || charged == 0 || len(d.Corrections) != 1 ||
		d.Corrections[0].ReservationID == nil || *d.Corrections[0].ReservationID != r {
		t.Errorf("the month costs %d, corrected are %+v", d.ChargesMinor(), d.Corrections)
	}
	export, err := d.Focus()
	if err != nil {
		t.Fatal(err)
	}
	if _, billed := holdToFocus(t, export); billed.Cmp(big.NewRat(-charged, 100)) != 0 {
		t.Errorf("billed are %s", billed.FloatString(2))
	}
	u, err := w.statements.Usage(t.Context(), statement.Question{Project: w.project, From: month(2), To: month(3)})
	if err != nil || len(u.Groups) != 1 || u.Groups[0].Net() != 0 || u.Groups[0].Unused == 0 {
		t.Errorf("the usage is %+v, %v", u.Groups, err)
	}
	w.exec(t, `UPDATE billing_periods SET open_since = $2 WHERE org_id = $1`, w.org, month(2))
	if c, err := w.statements.Check(t.Context(), w.org, func() {}); err != nil || c.Disagreements != 0 {
		t.Errorf("the comparison finds %+v, %v", c.Found, err)
	}
}
