package faults

import (
	"slices"
	"strings"
)

// Kind is a way in which a stage goes wrong.
type Kind string

// The kinds.
const (
	Before    Kind = "fails_before_effect"
	After     Kind = "fails_after_effect"
	Ambiguous Kind = "ambiguous_timeout"
	ErrorKind Kind = "provider_error_state"
	Lies      Kind = "provider_lies"
	Killed    Kind = "worker_killed"
	Twice     Kind = "duplicate_delivery"
	OutOfBand Kind = "out_of_band_change"
	// Takeover is no failure: an operator takes the job away from a stage that
	// goes on all the same.
	Takeover Kind = "operator_takes_over"
)

// Kinds lists them in the order of the report.
var Kinds = []Kind{Before, After, Ambiguous, ErrorKind, Lies, Killed, Twice, OutOfBand, Takeover}

// Case is one stage of a job going wrong in one way.
type Case struct {
	Section
	Kind Kind
	// What happens, and what an operator fixes before acting; both for people.
	What, Mend string
	// NotApplicable says why the combination cannot exist. It is empty if it
	// can.
	NotApplicable string

	wish  func(*wish)
	set   func(*run)
	proof func(*run) error // proves that the end is right; nil: the general checks are enough
	// ends is the state that an allocation must end in, and left that of the node that
	// it was on first; empty: active or released, by the mode, and active.
	ends, left string
	slow       bool // it waits for a time limit
	path       *path
}

// Name is the name of the case: stage/kind for an onboarding, mode/stage/kind for a
// decommission, and path/name for a path.
func (c Case) Name() string {
	if c.path != nil {
		return string(Paths) + "/" + c.path.name
	}
	return c.Title() + "/" + string(c.Kind)
}

// Catalogue returns every stage in every way, also combinations that cannot
// exist, and all paths.
func Catalogue() []Case {
	var out []Case
	for _, s := range Sections {
		for _, kind := range Kinds {
			c := s.own(kind)
			if c.set == nil && c.NotApplicable == "" {
				c = usual(kind)
			}
			c.Section, c.Kind = s, kind
			out = append(out, c)
		}
	}
	return append(out, paths...)
}

// Choice filters the catalogue. A zero field filters nothing.
type Choice struct{ Family, Stage, Kind, Case string }

// Choose picks cases.
func Choose(all []Case, by Choice) []Case {
	return slices.DeleteFunc(slices.Clone(all), func(c Case) bool {
		return by.Family != "" && string(c.Group()) != by.Family || by.Stage != "" && c.Stage != by.Stage ||
			by.Kind != "" && string(c.Kind) != by.Kind || by.Case != "" && !strings.Contains(c.Name(), by.Case)
	})
}

// Sample picks one case of each stage of each family, of kinds that the family does
// not have yet as long as there are any, and some paths; none waits for a time limit.
func Sample(all []Case, seed uint64) []Case {
	var out []Case
	known := map[Section]bool{}
	used := map[Family]map[Kind]bool{}
	for _, s := range Sections {
		once := Section{Family: s.Family, Stage: s.Stage}
		if known[once] {
			continue
		}
		if used[s.Family] == nil {
			used[s.Family] = map[Kind]bool{}
		}
		var fits []Case
		for turn := range Kinds {
			kind := Kinds[(len(known)+turn)%len(Kinds)]
			at := slices.IndexFunc(all, func(c Case) bool {
				return c.Section == s && c.Kind == kind && c.NotApplicable == "" && !c.slow
			})
			if at >= 0 {
				fits = append(fits, all[at])
			}
		}
		known[once] = true
		if len(fits) == 0 {
			continue
		}
		fresh := max(slices.IndexFunc(fits, func(c Case) bool { return !used[s.Family][c.Kind] }), 0)
		used[s.Family][fits[fresh].Kind] = true
		out = append(out, fits[fresh])
	}
	return append(out, samplePaths(all, seed)...)
}

// usual returns what goes wrong with every stage in the same way, whatever it
// does.
func usual(kind Kind) Case {
	var c Case
	switch kind {
	case Before:
		c.What, c.Mend = "what the stage needs is away; it has done nothing", "bring it back"
		c.set = func(r *run) { r.until(mishapUnavailable) }
	case After:
		c.What = "the stage had its effect; the answer was lost on the way"
		c.set = func(r *run) { r.after = once(mishapUnavailable) }
	case Ambiguous:
		c.What = "the time is up, and nobody knows whether it happened"
		c.set = func(r *run) {
			if r.coin() {
				r.before = once(mishapAmbiguous)
			} else {
				r.after = once(mishapAmbiguous)
			}
		}
	case Killed:
		c.What = "the worker dies after the effect, before anything is recorded"
		c.set = func(r *run) { r.after = once(mishapKilled) }
	case Twice:
		c.What = "the stage is delivered twice; the second time knows nothing of the first"
		c.set = func(r *run) { r.before = once(mishapTwice) }
	case Takeover:
		c.What = "an operator stops the job while the stage is about to act; the stage goes on"
		c.set = func(r *run) { r.takeOver() }
	case ErrorKind, Lies, OutOfBand:
		c.NotApplicable = "not described"
	}
	return c
}
