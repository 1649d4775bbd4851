package allocation_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/rentalsettings"
)

const day = 24 * time.Hour

// settle sets how the project of the world rents.
func (w *world) settle(tb testing.TB, v rentalsettings.Values) {
	tb.Helper()
	all := rentalsettings.New(w.db)
	now, _, err := all.OfProject(w.ctx, w.project)
	if err != nil {
		tb.Fatal(err)
	}
	if _, _, err := all.Set(w.ctx, rentalsettings.Owner{Org: w.org, Project: w.project}, now.Version, v); err != nil {
		tb.Fatal(err)
	}
}

func lasts(tb testing.TB, a allocation.Allocation) time.Duration {
	tb.Helper()
	if a.ExpiresAt == nil {
		return 0
	}
	return time.Until(*a.ExpiresAt).Round(time.Minute)
}

func TestARequestWithoutAnEndGetsThatOfItsProject(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 3)
	if a := w.create(t, allocation.Ask{})[0]; lasts(t, a) != 0 {
		t.Errorf("nobody has settled an end: %v", a.ExpiresAt)
	}
	w.settle(t, rentalsettings.Values{DefaultExpiry: new(2 * day)})
	if a := w.create(t, allocation.Ask{})[0]; lasts(t, a) != 2*day {
		t.Errorf("%v", a.ExpiresAt)
	}
	if a := w.create(t, allocation.Ask{Never: true})[0]; lasts(t, a) != 0 {
		t.Errorf("it was to last for ever: %v", a.ExpiresAt)
	}
}

// The longest life counts for requests and for extensions, from the moment of each.
// What was rented before it stays as it is, and can always be shortened.
func TestNothingLastsLongerThanItsProjectAllows(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 3)
	before := w.create(t, allocation.Ask{Never: true})[0]
	long := w.create(t, allocation.Ask{ExpiresIn: 20 * day})[0]
	w.settle(t, rentalsettings.Values{MaxExpiry: new(10 * day)})
	for name, ask := range map[string]allocation.Ask{
		"for ever": {Never: true}, "11 days": {ExpiresIn: 11 * day},
		"11 days, waiting": {ExpiresIn: 11 * day, WaitUpTo: time.Hour},
	} {
		ask.SKU, ask.Project = h200, w.project
		if _, err := w.service.Request(w.ctx, ask); fault.CodeOf(err) != "expiry_above_maximum" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.service.Explain(w.ctx, ask); fault.CodeOf(err) != "expiry_above_maximum" {
			t.Errorf("%s, explained: %v", name, err)
		}
	}
	change := func(of allocation.Allocation, t allocation.Terms) (allocation.Allocation, error) {
		return w.service.Change(w.ctx, of.ID, t)
	}
	in := func(d time.Duration) allocation.Terms { return allocation.Terms{ExpiresAt: new(time.Now().Add(d))} }
	if now, err := change(before, allocation.Terms{Name: new("kept")}); err != nil || now.ExpiresAt != nil {
		t.Errorf("what was rented before: %+v, %v", now, err)
	}
	if now, err := change(before, in(30*day)); err != nil || lasts(t, now) != 30*day {
		t.Errorf("shortened: %v, %v", now.ExpiresAt, err)
	}
	if _, err := change(long, in(21*day)); fault.CodeOf(err) != "expiry_above_maximum" {
		t.Errorf("extended: %v", err)
	}
	if _, err := change(long, allocation.Terms{Never: true}); fault.CodeOf(err) != "expiry_above_maximum" {
		t.Errorf("for ever: %v", err)
	}
	a := w.create(t, allocation.Ask{})[0]
	if lasts(t, a) != 10*day {
		t.Errorf("the default is the maximum: %v", a.ExpiresAt)
	}
	w.exec(t, `UPDATE allocations SET created_at = created_at - interval '9 days', expires_at = clock_timestamp() + interval '1 day'
		WHERE id = $1`, a.ID)
	if now, err := change(a, in(10*day)); err != nil || lasts(t, now) != 10*day {
		t.Errorf("the maximum counts from the extension: %v, %v", now.ExpiresAt, err)
	}
}

func TestRootNeedsTheSKUAndTheProject(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	root := allocation.Ask{Access: allocation.RootAccess}
	w.exec(t, `UPDATE skus SET user_access_only = true WHERE id = $1`, h200)
	if _, err := w.try(root); fault.CodeOf(err) != allocation.CodeUnavailable {
		t.Errorf("the SKU has none: %v", err)
	}
	w.exec(t, `UPDATE skus SET user_access_only = false WHERE id = $1`, h200)
	w.settle(t, rentalsettings.Values{RootAccess: new(false)})
	if _, err := w.try(root); fault.CodeOf(err) != "root_access_forbidden" {
		t.Errorf("the project has none: %v", err)
	}
	if a := w.create(t, allocation.Ask{})[0]; a.Node != n {
		t.Errorf("%+v", a)
	}
}

// A request that waits is held to the settings of the moment of its placement.
func TestARequestDoesNotOutliveTheSettingsOfItsProject(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 2)
	held := w.create(t, allocation.Ask{Count: 2})
	long := w.queued(t, allocation.Ask{ExpiresIn: 20 * day})
	open := w.queued(t, allocation.Ask{})
	w.settle(t, rentalsettings.Values{MaxExpiry: new(10 * day)})
	w.free(t, held[0])
	w.free(t, held[1])
	if n := w.serve(t); n != 1 {
		t.Errorf("%d were placed", n)
	}
	if now := w.request(t, long.ID); now.Status != allocation.Refused || now.Failure.Code != "expiry_above_maximum" ||
		now.Failure.Remedy == "" {
		t.Errorf("%+v", now)
	}
	if now := w.request(t, open.ID); now.Status != allocation.Placed || lasts(t, w.get(t, now.Allocations[0])) != 10*day {
		t.Errorf("%+v", now)
	}
}
