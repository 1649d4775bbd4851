package reconciliation_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"gpuaas/controlplane/internal/work/reconciliation"
	"gpuaas/sim/maas/region"
)

// Whatever somebody does in MAAS, or to a machine, shows in what a cycle asks
// for anyway, unless MAAS itself does not notice it.
func TestWhatHappensInMAASShows(t *testing.T) {
	t.Parallel()
	op := func(do func(s *simulation, m string) (*region.MachineDoc, error)) func(t *testing.T, s *simulation, m string) {
		return func(t *testing.T, s *simulation, m string) {
			t.Helper()
			if _, err := do(s, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	happens := func(what ...string) func(t *testing.T, s *simulation, m string) {
		return func(t *testing.T, s *simulation, m string) {
			t.Helper()
			for _, w := range what {
				s.happen(t, m, w)
			}
		}
	}
	for name, tt := range map[string]struct {
		do             func(t *testing.T, s *simulation, m string)
		event, listed  bool
		state          reconciliation.State // afterwards; empty: MAAS does not have it
		sameInstalling bool
	}{
		"released":       {happens("release"), true, true, reconciliation.Free, true},
		"redeployed":     {happens("redeploy"), true, false, reconciliation.Installed, false},
		"failed":         {happens("fail"), true, true, reconciliation.Failed, true},
		"failed, healed": {happens("fail", "heal"), true, false, reconciliation.Installed, true},
		"broken":         {happens("break"), true, true, reconciliation.Failed, true},
		"broken, healed": {happens("break", "heal"), true, true, reconciliation.Hollow, false}, // it is off
		"switched off":   {happens("power_off"), false, true, reconciliation.Installed, true},
		"off and on":     {happens("power_off", "power_on"), false, false, reconciliation.Installed, true},
		"readdressed":    {happens("change_ip"), false, false, reconciliation.Installed, true},
		"disowned":       {happens("disown"), false, false, reconciliation.Installed, true},
		"deleted":        {happens("delete"), false, false, "", false},
		"recreated":      {happens("recreate"), false, false, "", false},
		"released by the API": {op(func(s *simulation, m string) (*region.MachineDoc, error) {
			return s.Release(t.Context(), administrator, m, url.Values{})
		}), true, true, reconciliation.Free, true},
		"switched off by the API": {op(func(s *simulation, m string) (*region.MachineDoc, error) {
			return s.PowerOff(t.Context(), administrator, m, url.Values{})
		}), false, true, reconciliation.Installed, true},
		"tested by the API": {op(func(s *simulation, m string) (*region.MachineDoc, error) {
			return s.Test(t.Context(), administrator, m, url.Values{})
		}), true, false, reconciliation.Installed, true},
		"rescued by the API": {op(func(s *simulation, m string) (*region.MachineDoc, error) {
			return s.Rescue(t.Context(), administrator, m, true)
		}), true, true, reconciliation.Maintenance, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulate(t, 3, "deployed")
			m := s.SystemIDs()[1]
			r := s.view(t)
			cursor := changedSince(t, r, changedSince(t, r, 0).Cursor).Cursor // earlier events are not news
			before, _, err := r.Direct(t.Context(), m)
			if err != nil || before.Installation == 0 {
				t.Fatalf("before: %+v %v", before, err)
			}
			tt.do(t, s, m)
			var after reconciliation.Machine
			exists := true
			for settled := false; !settled; { // machines take a moment
				if after, exists, err = r.Direct(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				settled = after.State == tt.state || tt.state == "" && !exists
			}
			if c := changedSince(t, r, cursor); slices.Contains(c.Machines, m) != tt.event || c.Lost ||
				slices.Contains(c.Machines, s.SystemIDs()[0]) {
				t.Errorf("changed: %+v", c)
			}
			if _, listed := exceptionsOf(t, r)[m]; listed != tt.listed {
				t.Errorf("exceptions have it: %v", listed)
			}
			if exists && (after.Installation == before.Installation) != tt.sameInstalling {
				t.Errorf("installation %d was %d", after.Installation, before.Installation)
			}
		})
	}
}

func TestTheCursor(t *testing.T) {
	s := simulate(t, 5, "deployed")
	ids := s.SystemIDs()
	r := s.view(t)
	first := changedSince(t, r, 0)
	if !first.Lost || first.Cursor == 0 || len(first.Machines) != 0 {
		t.Fatalf("at first %+v", first)
	}
	s.happen(t, ids[3], "fail")
	c := changedSince(t, r, first.Cursor)
	if c.Lost || !slices.Contains(c.Machines, ids[3]) || c.Cursor <= first.Cursor || c.Events == 0 {
		t.Errorf("then %+v", c)
	}
	// If the cursor was not kept, everything is reported again.
	if again := changedSince(t, r, first.Cursor); !slices.Contains(again.Machines, ids[3]) || again.Cursor != c.Cursor {
		t.Errorf("again %+v", again)
	}
	// If it was kept, this process reports nothing, and another one the
	// overlap.
	if quiet := changedSince(t, s.view(t), c.Cursor); len(quiet.Machines) != 0 || quiet.Cursor != c.Cursor || quiet.Lost {
		t.Errorf("quiet %+v", quiet)
	}
	other := &reconciliation.RegionsOf{Sites: s.door, Clients: s.door}
	if overlapping := changedSince(t, view(t, other), c.Cursor); !slices.Contains(overlapping.Machines, ids[3]) ||
		overlapping.Cursor != c.Cursor {
		t.Errorf("another process %+v", overlapping)
	}
	// MAAS counts from a lower number.
	ahead := changedSince(t, r, c.Cursor+1_000_000)
	if !ahead.Lost || ahead.Cursor > c.Cursor+1000 || ahead.Cursor < c.Cursor {
		t.Errorf("ahead %+v", ahead)
	}
	if within := changedSince(t, r, c.Cursor+50); within.Lost || within.Cursor != c.Cursor+50 {
		t.Errorf("within the overlap %+v", within)
	}
	s.happen(t, ids[3], "delete") // and its events with it
	if gone := changedSince(t, r, c.Cursor); gone.Lost || gone.Cursor < c.Cursor ||
		slices.Contains(gone.Machines, ids[3]) {
		t.Errorf("after a deletion %+v", gone)
	}
}

// eventful is a region with so many events, of as many machines.
func eventful(t *testing.T, newest int) *reconciliation.RegionsOf {
	t.Helper()
	return answers(t, func(w http.ResponseWriter, q *http.Request) {
		after, err := strconv.Atoi(q.URL.Query().Get("after"))
		if err != nil {
			after = newest - 1
		}
		limit, err := strconv.Atoi(q.URL.Query().Get("limit"))
		if err != nil {
			t.Error(err)
		}
		events := []map[string]any{}
		for e := after + 1; e <= newest && len(events) < limit; e++ {
			events = append(events, map[string]any{
				"id": e, "node": fmt.Sprintf("m%05d", e), "level": "INFO",
				"type": "Deployed",
			})
		}
		slices.Reverse(events)
		if err := json.NewEncoder(w).Encode(map[string]any{"count": len(events), "events": events}); err != nil {
			t.Error(err)
		}
	})
}

func TestMoreEventsThanCanBeRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		newest           int
		lost             bool
		requests, events int
	}{
		{1000, false, 1, 100},
		{1899, false, 1, 999},
		{2500, false, 2, 1600},
		{3899, false, 3, 2999},
		{3900, true, 4, 3000},
		{900_000, true, 4, 3000},
	} {
		r := view(t, eventful(t, tt.newest))
		c := changedSince(t, r, 1000)
		if c.Lost != tt.lost || c.Cursor != int64(tt.newest) || r.Cost().Requests != tt.requests || c.Events != tt.events ||
			len(c.Machines) != tt.events {
			t.Errorf("%d events: lost %v, cursor %d, %d read, %d machines, %d requests", tt.newest, c.Lost, c.Cursor, c.Events,
				len(c.Machines), r.Cost().Requests)
		}
	}
	none := changedSince(t, view(t, eventful(t, 0)), 0)
	if !none.Lost || none.Cursor <= 0 {
		t.Errorf("of a MAAS where nothing ever happened: %+v", none)
	}
	if next := changedSince(t, view(t, eventful(t, 0)), none.Cursor); next.Lost || next.Cursor != none.Cursor {
		t.Errorf("and afterwards: %+v", next)
	}
}
