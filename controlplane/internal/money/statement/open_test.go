package statement_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/money/statement"
)

// What an open month has is what its statement has once it is closed, and it is marked as
// a draft in every form.
func TestAnOpenMonthIsWhatItsStatementWillBe(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, w.tenant, 8, `{"team": "vision"}`, month(2).Add(24*hour), month(2).Add(30*hour))
	w.now = month(2).Add(31 * hour)
	open := func() statement.Document {
		t.Helper()
		d, err := w.statements.Open(t.Context(), w.org)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := open(); len(d.Lines) != 0 || d.ClosingMinor != 0 || !d.Draft {
		t.Errorf("nothing is booked: %+v", d)
	}
	w.repair(t, a, w.node, month(2).Add(25*hour), month(2).Add(26*hour))
	w.meter(t)
	before := open()
	if before.UsageMinor != 6*2520 || before.ReliefMinor != 2520 || before.ClosingMinor != -5*2520 ||
		before.Label != "ACME-DRAFT" || before.Number != 0 || !before.StatementID.IsZero() {
		t.Errorf("%+v", before)
	}
	w.now = month(3).Add(hour)
	closed := w.close(t, 2)
	if diff := cmp.Diff(before, closed, cmpopts.IgnoreFields(statement.Document{}, "StatementID", "Number", "Label",
		"Draft", "IssuedAt")); diff != "" {
		t.Errorf("the statement is not what was shown before: %s", diff)
	}
	if next := open(); next.OpeningMinor != closed.ClosingMinor || next.ClosingMinor != closed.ClosingMinor ||
		!next.PeriodStart.Equal(month(3)) || len(next.Lines) != 0 {
		t.Errorf("the next month: %+v", next)
	}
	for form, marks := range map[string]string{
		"csv": "ACME-DRAFT,closing", "html": "The month is open", "focus": "BilledCost",
	} {
		got := w.get(t, "auditor", "/api/v1/tenants/"+w.org.String()+"/open-statement/"+form, nil)
		if got.Status != http.StatusOK || !strings.Contains(string(got.Body), marks) {
			t.Errorf("%s: %d %s", form, got.Status, got.Body)
		}
	}
	poor := w.settle(t, "poor", "")
	if _, err := w.statements.Open(t.Context(), poor.org); fault.CodeOf(err) != "billing_account_missing" {
		t.Errorf("without an account: %v", err)
	}
}
