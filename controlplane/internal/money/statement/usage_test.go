package statement_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/money/statement"
)

const hour = time.Hour

func TestUsageIsSummedUpByWhatIsAsked(t *testing.T) {
	w := newWorld(t)
	w.rent(t, w.tenant, 8, `{"team": "vision"}`, start, start.Add(30*hour))
	w.rent(t, w.tenant, 0, `{}`, start.Add(26*hour), start.Add(28*hour))
	going := w.rent(t, w.tenant, 8, `{"team": "speech"}`, start.Add(100*hour), time.Time{})
	w.rent(t, w.settle(t, "poor", ""), 8, `{}`, start, start.Add(hour)) // free, and counted
	w.now = start.Add(102 * hour)
	all := statement.Question{Org: w.org, From: start.Add(-hour), To: start.Add(200 * hour)}
	got := w.usage(t, all)
	// 32 hours of eight GPUs and two of a machine without, at 3.50 less a tenth; nobody has metered yet.
	if len(got) != 1 || got[0].Cost != 32*2520+2*315 || got[0].NotCharged != got[0].Cost || got[0].Seconds != 34*3600 ||
		got[0].UnitSeconds != (32*8+2)*3600 || got[0].Allocations != 3 || got[0].Currency != "USD" {
		t.Errorf("%+v", got)
	}
	all.By, all.Label = []statement.By{statement.ByLabel, statement.ByDay}, "team"
	want := map[string]int64{
		" 2026-02-02": 2 * 315, "vision 2026-02-01": 60479, "vision 2026-02-02": 30*2520 - 60479,
		"speech 2026-02-05": 2 * 2520,
	}
	for _, g := range w.usage(t, all) {
		of := g.Label + " " + g.Day.Format(time.DateOnly)
		if cost, there := want[of]; !there || cost != g.Cost {
			t.Errorf("%s: %d, want %d", of, g.Cost, cost)
		}
		delete(want, of)
	}
	if len(want) != 0 {
		t.Errorf("no lines for %v", want)
	}
	w.exec(t, `UPDATE allocations SET status = 'releasing', release_requested_at = $2 WHERE id = $1`, going,
		start.Add(102*hour))
	w.meter(t)
	all.By, all.Label, all.Org = []statement.By{statement.ByTenant, statement.ByNode, statement.ByUser, statement.BySKU},
		"", id.Org{}
	got = w.usage(t, all)
	if len(got) != 2 || got[0].Tenant != "acme" || got[0].Hostname != "node-of-acme" || got[0].UserName != "Ada" ||
		got[0].SKU != h200 || got[0].NotCharged != 0 || got[1].Tenant != "poor" || got[1].Cost != 0 ||
		got[1].Seconds != 3600 || got[1].Currency != "" {
		t.Errorf("%+v", got)
	}
	charged := w.number(t, `SELECT sum(amount_minor) FROM usage_windows`)
	if got[0].Cost != charged {
		t.Errorf("usage costs %d, charged are %d", got[0].Cost, charged)
	}
}

// However a time is cut, and by whatever it is summed up, the sums are those of the
// ledger.
func TestPartsOfUsageSumToTheLedger(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewPCG(21, 7))
	at := func(most time.Duration) time.Duration {
		return time.Duration(random.Int64N(int64(most))).Truncate(time.Microsecond)
	}
	for range 20 {
		began := start.Add(at(20 * 24 * hour))
		ended := began.Add(at(9 * 24 * hour))
		a := w.rent(t, w.tenant, random.Int32N(9), `{}`, began, ended)
		w.repair(t, a, w.node, began.Add(at(3*24*hour)), began.Add(3*24*hour+at(3*24*hour)))
	}
	w.rent(t, w.tenant, 3, `{}`, start.Add(at(20*24*hour)), start.Add(29*24*hour)) // nothing of it is given back
	w.meter(t)
	var wrong id.LedgerEntry
	for _, kind := range []string{"usage", "relief"} {
		if err := w.owner.QueryRow(t.Context(), `SELECT id FROM ledger_entries e WHERE kind = $1 AND (kind = 'relief' OR NOT EXISTS
			(SELECT FROM ledger_entries r WHERE r.allocation_id = e.allocation_id AND r.kind = 'relief')) LIMIT 1`, kind).
			Scan(&wrong); err != nil {
			t.Fatal(err)
		}
		fix, err := w.ledger.Correct(t.Context(), w.org, wrong, "was wrong")
		if err != nil {
			t.Fatal(err)
		}
		if kind == "relief" {
			if _, err := w.ledger.Correct(t.Context(), w.org, fix.ID, "was right"); err != nil {
				t.Fatal(err)
			}
		}
	}
	booked := -w.number(t, `SELECT sum(amount_minor) FROM ledger_postings WHERE account = 'tenant'`)
	end := start.Add(31 * 24 * hour)
	for range 5 {
		var cost, net int64
		for from := start; from.Before(end); {
			to := from.Add(1 + at(8*24*hour))
			if to.After(end) {
				to = end
			}
			q := statement.Question{Org: w.org, From: from, To: to, By: []statement.By{statement.ByNode}}
			if random.IntN(2) == 0 {
				q.By = append(q.By, statement.ByDay)
			}
			for _, g := range w.usage(t, q) {
				cost, net = cost+g.Cost, net+g.Net()
			}
			from = to
		}
		if charged := w.number(t, `SELECT sum(amount_minor) FROM usage_windows`); cost != charged || net != booked {
			t.Fatalf("usage costs %d and %d net, charged are %d and %d", cost, net, charged, booked)
		}
	}
}

func (w *world) get(tb testing.TB, as, path string, query url.Values) httpapitest.Answer {
	tb.Helper()
	return httpapitest.Call(tb, w.api.Handler(), httpapitest.Request{
		As: as, Method: http.MethodGet, Path: path + "?" + query.Encode(),
	})
}

func TestQuestionsThatMakeNoSenseAreRefused(t *testing.T) {
	w := newWorld(t)
	path := "/api/v1/tenants/" + w.org.String() + "/usage"
	for _, c := range []struct {
		query url.Values
		field string
	}{
		{url.Values{"from": {"2026-03-01T00:00:00Z"}, "to": {"2026-03-01T00:00:00Z"}}, "query.to"},
		{url.Values{"from": {"2024-03-01T00:00:00Z"}, "to": {"2026-03-01T00:00:00Z"}}, "query.to"},
		{url.Values{"from": {"2030-03-01T00:00:00Z"}}, "query.from"},
		{url.Values{"by": {"label"}}, "query.label"},
		{url.Values{"by": {"day"}, "label": {"team"}}, "query.label"},
		{url.Values{"by": {"day,day"}}, "query.by"},
		{url.Values{"by": {"rack"}}, "query.by[0]"},
	} {
		w.get(t, "root", path, c.query).Wants(t, http.StatusUnprocessableEntity, "validation_error", c.field)
	}
	w.get(t, "root", "/api/v1/tenants/"+id.New[id.Org]().String()+"/usage", nil).Wants(t, http.StatusNotFound, "not_found")
	var empty statement.UsageView
	w.get(t, "operator", path, nil).Into(t, http.StatusOK, &empty)
	if len(empty.Lines) != 0 || !empty.From.Equal(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", empty)
	}
}

// A report has lines for ten thousand things at most: nobody fills the memory of the
// control plane by asking.
func TestAReportIsBounded(t *testing.T) {
	w := newWorld(t)
	for range 30 {
		w.rent(t, w.tenant, 8, `{"n": "`+id.NewString()+`"}`, start.Add(-400*24*hour), time.Time{})
	}
	q := statement.Question{
		From: start.Add(-366 * 24 * hour), To: start, By: []statement.By{statement.ByLabel, statement.ByDay}, Label: "n",
	}
	_, err := w.statements.Usage(t.Context(), q)
	if err == nil || !strings.Contains(err.Error(), "usage_too_large") {
		t.Errorf("%v", err)
	}
}

func TestAttackATenantReadsOfItsOwnUsageOnly(t *testing.T) {
	w := newWorld(t)
	other := w.settle(t, "rival", "USD")
	w.rent(t, w.tenant, 8, `{}`, start, start.Add(hour))
	w.rent(t, other, 8, `{"team": "secret"}`, start, start.Add(hour))
	everything := url.Values{
		"from": {"2026-01-01T00:00:00Z"}, "by": {"tenant,project,sku,node,user,label,day"}, "label": {"team"},
	}
	for _, path := range []string{"tenants/" + w.org.String(), "projects/" + w.project.String()} {
		a := w.get(t, "root", "/api/v1/"+path+"/usage", everything)
		var v statement.UsageView
		a.Into(t, http.StatusOK, &v)
		if len(v.Lines) != 1 || v.Lines[0].Hostname != "node-of-acme" || bytes.Contains(a.Body, []byte("rival")) ||
			bytes.Contains(a.Body, []byte("secret")) || bytes.Contains(a.Body, []byte(other.node.String())) {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
	w.get(t, "member", "/api/v1/admin/usage", everything).Wants(t, http.StatusForbidden, "insufficient_permissions")
	w.get(t, "member", "/api/v1/tenants/"+w.org.String()+"/usage", everything).Wants(t, http.StatusNotFound, "not_found")
}
