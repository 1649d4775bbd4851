package lifecycle_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/lifecycle"
)

type (
	state string
	event string
)

func door() lifecycle.Table[state, event] {
	return lifecycle.Table[state, event]{
		Noun: "door", Title: "Door", Initial: []state{"open"},
		States: []lifecycle.State[state]{
			{Name: "open", Meaning: "one can pass"},
			{Name: "closed", Meaning: "one cannot pass"},
			{Name: "bricked", Meaning: "never again", Terminal: true},
		},
		Edges: []lifecycle.Edge[state, event]{
			{From: "open", Event: "close", To: "closed", Owner: "visitor"},
			{From: "closed", Event: "open", To: "open", Owner: "visitor"},
			{From: "closed", Event: "brick", To: "bricked", Owner: "mason"},
		},
	}
}

func TestEveryStateAndEvent(t *testing.T) {
	table := door()
	want := map[state]map[event]state{"open": {"close": "closed"}, "closed": {"open": "open", "brick": "bricked"}}
	for _, s := range table.States {
		for _, e := range table.AllEvents() {
			to, ok := want[s.Name][e]
			got, err := table.Next(s.Name, e)
			if ok && (err != nil || got != to) {
				t.Errorf("%s in %s: got %s, %v; want %s", e, s.Name, got, err, to)
			}
			if !ok && fault.KindOf(err) != fault.Conflict {
				t.Errorf("%s in %s: got %s, %v; want a conflict", e, s.Name, got, err)
			}
		}
	}
}

func TestRefusalNamesWhatIsPossible(t *testing.T) {
	_, err := door().Next("closed", "close")
	f, _ := fault.As(err)
	if f == nil || f.Remedy != "possible now: brick, open" {
		t.Errorf("got %+v", f)
	}
}

func TestValidateFindsContradictions(t *testing.T) {
	if errs := door().Validate(); len(errs) != 0 {
		t.Errorf("sound table: %v", errs)
	}
	breakages := map[string]func(*lifecycle.Table[state, event]){
		"listed twice":          func(d *lifecycle.Table[state, event]) { d.States = append(d.States, d.States[0]) },
		"no meaning":            func(d *lifecycle.Table[state, event]) { d.States[0].Meaning = "" },
		"unknown state":         func(d *lifecycle.Table[state, event]) { d.Edges[0].To = "gone" },
		"leaves a terminal":     func(d *lifecycle.Table[state, event]) { d.Edges[0].From = "bricked" },
		"has no owner":          func(d *lifecycle.Table[state, event]) { d.Edges[0].Owner = "" },
		"leaves closed twice":   func(d *lifecycle.Table[state, event]) { d.Edges[2].Event = "open" },
		"cannot be reached":     func(d *lifecycle.Table[state, event]) { d.Edges = d.Edges[:2] },
		"no way out and is not": func(d *lifecycle.Table[state, event]) { d.States[2].Terminal = false },
	}
	for want, breakIt := range breakages {
		table := door()
		breakIt(&table)
		var all []string
		for _, err := range table.Validate() {
			all = append(all, err.Error())
		}
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("want an error with %q, got %q", want, all)
		}
	}
}
