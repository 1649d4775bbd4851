package balance_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/money/balance"
)

// What is set aside for a first window is money of that window: it ends nothing.
func TestAHoldEndsNothing(t *testing.T) {
	w := newWorld(t)
	w.credit(t, 2800)
	w.limit(t, nil)
	only := w.rent(t)
	for _, at := range []time.Duration{time.Second, 59 * time.Minute} {
		if s := w.look(t, at); s.Status != balance.Pending || len(w.released) != 0 {
			t.Fatalf("after %s: %s, released %v", at, s.Status, w.released)
		}
	}
	if s := w.look(t, time.Hour); s.Status != balance.Depleted || !slices.Equal(w.released, []id.Allocation{only}) {
		t.Errorf("%s, released %v", s.Status, w.released)
	}
}

// A second start takes the money of both, not the first window of the later one.
func TestTwoShareWhatIsLeft(t *testing.T) {
	w := newWorld(t)
	w.credit(t, 3000)
	w.limit(t, nil)
	w.rent(t)
	w.now = start.Add(time.Second)
	w.credit(t, 2800)
	w.rent(t)
	if s := w.look(t, time.Hour); s.Status == balance.Depleted || len(w.released) != 0 {
		t.Errorf("after an hour: %s, released %v", s.Status, w.released)
	}
	if s := w.look(t, 63*time.Minute); s.Status != balance.Depleted || len(w.released) != 2 {
		t.Errorf("%s, released %v", s.Status, w.released)
	}
}

// Limits that come after a time without any begin anew: with a warning and the grace.
func TestLimitsAfterNoneBeginAnew(t *testing.T) {
	w := newWorld(t)
	w.credit(t, 2800*2)
	grace := func(s *balance.Settings) { s.Grace = 24 * time.Hour }
	w.limit(t, grace)
	w.rent(t)
	if s := w.look(t, 2*time.Hour); s.Status != balance.Depleted {
		t.Fatal(s.Status)
	}
	w.limit(t, func(s *balance.Settings) { s.Payment = balance.Postpaid })
	if s := w.look(t, 3*time.Hour); s.Status != balance.Healthy {
		t.Errorf("without limit: %s", s.Status)
	}
	w.now = start.Add(1000 * time.Hour)
	before := len(w.told(t))
	if _, err := w.balances.Set(t.Context(), w.org, func(s *balance.Settings) error {
		s.Payment, s.Grace = balance.Prepaid, time.Hour
		return nil
	}, true); err != nil {
		t.Fatal(err)
	}
	if s := w.look(t, 1000*time.Hour+time.Minute); s.Status != balance.Depleted || len(w.released) != 0 {
		t.Errorf("%s, released %v within the grace period", s.Status, w.released)
	}
	if told := w.told(t)[before:]; !slices.Equal(told, []string{"billing.balance_depleted"}) {
		t.Errorf("told %v", told)
	}
	if w.look(t, 1001*time.Hour); len(w.released) != 1 {
		t.Error("not released after the grace period")
	}
}

// Nobody ends what a tenant rents by a slip.
func TestLimitsThatReleaseAreRefused(t *testing.T) {
	w := newWorld(t)
	w.rent(t)
	w.now = start.Add(time.Hour) // it owes an hour
	at := "/api/v1/tenants/" + w.org.String() + "/balance/limits"
	put := func(body any) httpapitest.Answer {
		return httpapitest.Call(t, w.api.Handler(), httpapitest.Request{
			As: "root", Method: http.MethodPut, Path: at, Body: body,
		})
	}
	put(object{"payment": "prepaid"}).Wants(t, http.StatusConflict, "limits_would_release")
	if s := w.look(t, 2*time.Hour); s.Version != 0 || len(w.released) != 0 || len(w.told(t)) != 0 {
		t.Errorf("version %d, released %v, told %v", s.Version, w.released, w.told(t))
	}
	var v balance.View
	put(object{"payment": "postpaid", "credit_line_minor": 100_000, "grace_seconds": 7200}).Into(t, http.StatusOK, &v)
	put(object{"low_seconds": 36_000}).Into(t, http.StatusOK, &v)
	if v.CreditLineMinor == nil || *v.CreditLineMinor != 100_000 || v.GraceSeconds != 7200 || v.LowSeconds != 36_000 ||
		v.Payment != balance.Postpaid {
		t.Errorf("a change of one number changed others: %+v", v)
	}
	put(object{"unlimited": true, "credit_line_minor": 1}).
		Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.unlimited")
	// It owes two hours: another hour's line would end everything within the time of the last warning.
	put(object{"credit_line_minor": 2800 * 3}).Wants(t, http.StatusConflict, "limits_would_release")
	put(object{"payment": "prepaid", "release": true}).Into(t, http.StatusOK, &v)
	told := []string{"billing.low_balance_warning", "billing.balance_depleted"} // its line lasts for less than three days
	if v.Status != balance.Depleted || v.ReleasesAt == nil || !slices.Equal(w.told(t), told) {
		t.Errorf("%+v, told %v", v, w.told(t))
	}
	put(object{"unlimited": true}).Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.unlimited")
	put(object{"grace_seconds": 0}).Wants(t, http.StatusConflict, "limits_would_release")
	v = balance.View{}
	put(object{"unlimited": true, "payment": "postpaid"}).Into(t, http.StatusOK, &v)
	if v.Status != balance.Healthy || v.CreditLineMinor != nil {
		t.Errorf("%+v", v)
	}
}

// However short the first window is, a tenant that has nothing is let nothing.
func TestAFirstWindowCostsAtLeastOneMinorUnit(t *testing.T) {
	w := newWorld(t)
	w.balances = balance.New(balance.Config{
		DB: w.db, Releases: w, Charges: w.meters, First: time.Second, Every: time.Second, Clock: w.time,
	})
	w.limit(t, nil)
	if _, err := w.ask(t.Context()); fault.CodeOf(err) != "insufficient_balance" {
		t.Errorf("without money: %v", err)
	}
	w.credit(t, 1)
	if _, err := w.ask(t.Context()); err != nil {
		t.Error(err)
	}
}

// Work that comes and goes is warned of once, until money comes.
func TestWorkThatComesAndGoesIsWarnedOnce(t *testing.T) {
	w := newWorld(t)
	w.credit(t, 2800*9)
	w.limit(t, nil)
	for hour := range 3 {
		a := w.rent(t)
		w.look(t, time.Duration(hour)*time.Hour+time.Minute)
		w.exec(t, `UPDATE allocations SET status = 'releasing', release_requested_at = $2 WHERE id = $1`, a, w.time())
		w.look(t, time.Duration(hour)*time.Hour+2*time.Minute)
		w.now = start.Add(time.Duration(hour+1) * time.Hour)
	}
	if told := w.told(t); !slices.Equal(told, []string{"billing.low_balance_warning"}) {
		t.Errorf("told %v", told)
	}
	w.credit(t, 2800*100)
	if s := w.look(t, 5*time.Hour); s.Status != balance.Healthy {
		t.Errorf("after a credit: %s", s.Status)
	}
}
