package allocation_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/rent/allocation"
)

// Who names what a node may cost for an hour rents none that costs more: not at once, and
// not after it waited.
func TestNothingIsRentedAboveTheLimitThatWasNamed(t *testing.T) {
	w := newWorld(t)
	price := &tariff{hour: 2800}
	w.service = allocation.New(allocation.Config{
		DB: w.db, Tasks: w.agents, Cleanups: w.cleanups, Terminals: w.terminals, Pricing: price,
	})
	w.nodes(t, 2)
	limit := func(most int64, in string) allocation.Ask {
		return allocation.Ask{Project: w.project, SKU: h200, HourMost: &most, HourIn: in}
	}
	for _, c := range []struct {
		ask  allocation.Ask
		code string
	}{
		{limit(2799, "USD"), "price_above_limit"},
		{limit(0, "USD"), "price_above_limit"},
		{limit(999_999, "EUR"), "currency_mismatch"},
	} {
		if _, err := w.try(c.ask); fault.CodeOf(err) != c.code {
			t.Errorf("%d %s: %v", *c.ask.HourMost, c.ask.HourIn, err)
		}
		seen, err := w.service.Explain(w.ctx, c.ask)
		if err != nil || seen.Cost == nil || seen.Cost.Refused == nil || seen.Cost.Refused.Code != c.code {
			t.Errorf("explained: %+v, %v", seen.Cost, err)
		}
	}
	// What is missing says what there is: whoever only looks is not told.
	looks := auth.With(w.ctx, &auth.Principal{
		ID: "vera", Projects: map[id.Project]auth.ProjectRole{w.project: {Org: w.org, Role: auth.ProjectViewer}},
	})
	seen, err := w.service.Explain(looks, limit(0, "USD"))
	if err != nil || seen.Cost == nil || seen.Cost.Refused == nil ||
		seen.Cost.Refused.Message != "it could not be paid for now" {
		t.Errorf("a viewer reads %+v, %v", seen.Cost, err)
	}
	if n := w.count(t, `SELECT count(*) FROM allocations`); n != 0 {
		t.Fatalf("%d were rented", n)
	}
	first := w.create(t, limit(2800, "USD"))
	w.create(t, allocation.Ask{})

	dear := limit(2799, "USD")
	dear.WaitUpTo = time.Hour
	if _, err := w.service.Request(w.ctx, dear); fault.CodeOf(err) != "price_above_limit" {
		t.Errorf("it waits for what it will not pay: %v", err)
	}
	willing, settled := w.queued(t, limit(3000, "USD")), w.queued(t, allocation.Ask{})
	price.hour = 3000
	w.free(t, first[0])
	w.serve(t)
	if now := w.request(t, willing.ID); now.Status != allocation.Placed {
		t.Errorf("within its limit: %+v", now)
	}
	second := w.request(t, willing.ID).Allocations[0]
	w.free(t, allocation.Allocation{ID: second})
	w.serve(t)
	if now := w.request(t, settled.ID); now.Failure.Code != "price_changed" {
		t.Errorf("without a limit: %+v", now)
	}
}
