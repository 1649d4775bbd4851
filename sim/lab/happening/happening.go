// Package happening lists what can be made to happen to the machines of a lab,
// in the words of people. Commands and pages take these words from here.
package happening

import (
	"fmt"
	"slices"
	"strings"

	"gpuaas/sim/maas/fault"
)

// Happening is one thing that somebody can make happen to a machine.
type Happening struct {
	What        string `json:"what"` // the word for it
	Label       string `json:"label"`
	Explanation string `json:"explanation"`
	// Lasts says that it goes wrong from now on, each time, until the machine
	// is healed. Everything else happens at once.
	Lasts bool `json:"lasts"`
	// Said describes the state afterwards; %[1]s is the machine. It is empty
	// for what lasts.
	Said string `json:"-"`
	// Befalls is what happens at once, in the words of a region.
	Befalls string `json:"-"`
	// Rule is what goes wrong from now on.
	Rule fault.Rule `json:"-"`

	ill bool
}

// Tell describes the state after it has happened to a machine.
func (h Happening) Tell(machine string) string {
	if h.Lasts {
		return fmt.Sprintf("%s, from now on, for %s", h.Label, machine)
	}
	return fmt.Sprintf(h.Said, machine)
}

// All lists what can happen: first what happens at once, then what goes wrong
// from now on.
func All() []Happening { return slices.Clone(all) }

// AtOnce lists what somebody does to a healthy machine.
func AtOnce() []Happening {
	return slices.DeleteFunc(All(), func(h Happening) bool { return h.Lasts || h.ill })
}

// Named finds a happening by its word.
func Named(what string) (Happening, bool) {
	i := slices.IndexFunc(all, func(h Happening) bool { return h.What == what })
	if i < 0 {
		return Happening{}, false
	}
	return all[i], true
}

// suffix distinguishes a failure from the thing that can fail if both have a
// word.
const suffix = "-fails"

// Failing lists the words of what can fail. The word release means the
// happening release-fails.
func Failing() []string {
	var words []string
	for _, h := range all {
		if h.Lasts || h.ill {
			words = append(words, strings.TrimSuffix(h.What, suffix))
		}
	}
	return words
}

// Failure finds the happening for something that fails.
func Failure(word string) (Happening, bool) {
	for _, h := range all {
		if (h.Lasts || h.ill) && strings.TrimSuffix(h.What, suffix) == word {
			return h, true
		}
	}
	return Happening{}, false
}

// Words names the rules that are in force for a machine, each word once. A rule
// without a word is named by its kind.
func Words(rules []fault.Rule) []string {
	words := []string{}
	for _, r := range rules {
		words = append(words, word(r))
	}
	slices.Sort(words)
	return slices.Compact(words)
}

func word(r fault.Rule) string {
	for _, h := range all {
		if !h.Lasts {
			continue
		}
		if meant := completed(h.Rule); meant.Fault == r.Fault && meant.Phase == r.Phase && meant.Operation == r.Operation &&
			meant.Power == r.Power {
			return h.What
		}
	}
	return strings.Join(slices.DeleteFunc([]string{string(r.Fault), r.Phase, r.Operation, r.Power},
		func(s string) bool { return s == "" }), " ")
}

// completed returns a rule in the form in which a plan keeps it.
func completed(r fault.Rule) fault.Rule {
	_ = r.Check() // the rules of the table are right: a test adds each
	return r
}
