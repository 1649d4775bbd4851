// Package lifecycle holds what every state machine of the product shares: one
// typed table per noun. The guard, the database check, the enum of the API, the
// documentation page and the test that walks every state and event all come
// from that table; none of them is written by hand.
package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// State is one state of a noun.
type State[S ~string] struct {
	Name     S
	Meaning  string
	Terminal bool
	// StuckAfter is after how long in the state somebody should look. Zero means
	// never. People are shown it, and nothing more: alerts are written by hand.
	StuckAfter time.Duration
	// Tone says how the state looks to people; the console draws it so.
	Tone Tone
	// Traits are what code goes by, instead of a list of states: with a new
	// state, only its line in the table says what it means.
	Traits []Trait
}

// Tone is what a state means to somebody who looks at many.
type Tone string

// The tones.
const (
	OK   Tone = "ok"   // as it should be
	Info Tone = "info" // something is under way that ends by itself
	Warn Tone = "warn" // somebody should look
	Bad  Tone = "bad"  // something is broken
	Idle Tone = "idle" // nothing is expected of it
)

// Trait is something that several states of a noun have in common.
type Trait string

// Edge is one allowed change. An event leaves a state by at most one edge.
type Edge[S, E ~string] struct {
	From  S
	Event E
	To    S
	Owner string // the only code that may take it
}

// Table is the whole lifecycle of a noun.
type Table[S, E ~string] struct {
	Noun    string
	Title   string
	Initial []S
	States  []State[S]
	Edges   []Edge[S, E]
}

// Next returns the state that an event leads to, or a conflict that lists the
// allowed events.
func (t Table[S, E]) Next(from S, event E) (S, error) {
	for _, e := range t.Edges {
		if e.From == from && e.Event == event {
			return e.To, nil
		}
	}
	var zero S
	allowed := t.Events(from)
	if len(allowed) == 0 {
		return zero, fault.New(fault.Conflict, t.Noun+"_state_conflict",
			"%s is %s, which is final: %s is not possible", t.Noun, from, event)
	}
	return zero, fault.New(fault.Conflict, t.Noun+"_state_conflict",
		"%s is %s: %s is not possible there", t.Noun, from, event).
		WithRemedy("possible now: %s", strings.Join(allowed, ", "))
}

// Events lists what may happen in a state, sorted.
func (t Table[S, E]) Events(from S) []string {
	var out []string
	for _, e := range t.Edges {
		if e.From == from {
			out = append(out, string(e.Event))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// AllEvents lists every event of the table, sorted.
func (t Table[S, E]) AllEvents() []E {
	var out []E
	for _, e := range t.Edges {
		out = append(out, e.Event)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Values lists the names of the states in the order of the table.
func (t Table[S, E]) Values() []string {
	out := make([]string, len(t.States))
	for i, s := range t.States {
		out[i] = string(s.Name)
	}
	return out
}

// State finds a state by name.
func (t Table[S, E]) State(name S) (State[S], bool) {
	i := slices.IndexFunc(t.States, func(s State[S]) bool { return s.Name == name })
	if i < 0 {
		return State[S]{}, false
	}
	return t.States[i], true
}

// Is reports whether a state has a trait.
func (t Table[S, E]) Is(name S, trait Trait) bool {
	s, _ := t.State(name)
	return slices.Contains(s.Traits, trait)
}

// Having lists the states that have a trait, in the order of the table.
func (t Table[S, E]) Having(trait Trait) []S {
	var out []S
	for _, s := range t.States {
		if slices.Contains(s.Traits, trait) {
			out = append(out, s.Name)
		}
	}
	return out
}

// Lasting lists the states that are not terminal, in the order of the table.
func (t Table[S, E]) Lasting() []S {
	var out []S
	for _, s := range t.States {
		if !s.Terminal {
			out = append(out, s.Name)
		}
	}
	return out
}

// Validate reports every way in which a table contradicts itself.
func (t Table[S, E]) Validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(t.Noun+": "+format, args...)) }
	seen := map[S]bool{}
	for _, s := range t.States {
		if seen[s.Name] {
			bad("state %s is listed twice", s.Name)
		}
		if s.Meaning == "" {
			bad("state %s has no meaning", s.Name)
		}
		seen[s.Name] = true
	}
	type leaving struct {
		from  S
		event E
	}
	taken := map[leaving]bool{}
	for _, e := range t.Edges {
		from, fromOK := t.State(e.From)
		_, toOK := t.State(e.To)
		switch {
		case !fromOK || !toOK:
			bad("edge %s -> %s names an unknown state", e.From, e.To)
		case from.Terminal:
			bad("edge %s -> %s leaves a terminal state", e.From, e.To)
		case e.Owner == "":
			bad("edge %s -> %s has no owner", e.From, e.To)
		case taken[leaving{e.From, e.Event}]:
			bad("event %s leaves %s twice", e.Event, e.From)
		}
		taken[leaving{e.From, e.Event}] = true
	}
	for _, unreachable := range t.unreachable() {
		bad("state %s cannot be reached", unreachable)
	}
	for _, s := range t.States {
		if !s.Terminal && len(t.Events(s.Name)) == 0 {
			bad("state %s has no way out and is not terminal", s.Name)
		}
	}
	return errs
}

func (t Table[S, E]) unreachable() []S {
	reached := map[S]bool{}
	for _, s := range t.Initial {
		reached[s] = true
	}
	for grew := true; grew; {
		grew = false
		for _, e := range t.Edges {
			if reached[e.From] && !reached[e.To] {
				reached[e.To], grew = true, true
			}
		}
	}
	var out []S
	for _, s := range t.States {
		if !reached[s.Name] {
			out = append(out, s.Name)
		}
	}
	return out
}
