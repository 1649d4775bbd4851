package reconciliation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Findings that are not about the machine of one node have no predicate.
func TestRulesAreComplete(t *testing.T) {
	byRun := []Type{TypeUnmanagedMachine, TypeUnusedPowerOverride, TypeBreakerOpen, TypeNoInformation}
	titles, types := map[string]bool{}, map[Type]bool{}
	for _, r := range Rules {
		t.Run(string(r.Type), func(t *testing.T) {
			if types[r.Type] || titles[r.Title] || r.Title == "" || !strings.HasSuffix(r.Means, ".") || len(r.Advice) == 0 {
				t.Errorf("it lacks a title, a meaning or advice, or another has the same type or title: %+v", r)
			}
			types[r.Type], titles[r.Title] = true, true
			if got, known := RuleOf(r.Type); !known || got.Title != r.Title {
				t.Errorf("RuleOf gives %v, %v", got.Title, known)
			}
			if !slices.Contains([]Severity{Debug, Info, Warning, Critical}, r.Severity) {
				t.Errorf("severity %q", r.Severity)
			}
			if r.Looks < 1 || (r.Action == Quarantine || r.Action == MarkOffline || r.Action == UpdateHost ||
				r.Action == Release) && r.Looks < 2 {
				t.Errorf("does %s after %d looks; one can be wrong", r.Action, r.Looks)
			}
			if (r.When == nil) != slices.Contains(byRun, r.Type) || r.When == nil && r.Action != None {
				t.Errorf("is judged by its machine: %v, does %q", r.When != nil, r.Action)
			}
			for _, a := range r.Advice {
				checkAdvice(t, a)
			}
		})
	}
	if _, known := RuleOf("no_such_finding"); known {
		t.Error("a type that does not exist has a rule")
	}
	files, err := filepath.Glob("rule_*.go")
	if err != nil || len(files) != len(Rules) {
		t.Errorf("%d files for %d rules (%v): one each", len(files), len(Rules), err)
	}
	for typ := range types {
		if _, err := os.Stat("rule_" + string(typ) + ".go"); err != nil {
			t.Errorf("%s has no file of its name: %v", typ, err)
		}
	}
}

// commands are those of the command line that rules may name.
var commands = []string{
	"gpuaas drift show NODE", "gpuaas drift resolve NODE ", "gpuaas reconcile status --site SITE",
	"gpuaas reconcile confirm --site SITE", "gpuaas reconcile dismiss --site SITE",
	"gpuaas reconcile --site SITE", "gpuaas decommission start NODE --mode ", "gpuaas node show NODE",
	"gpuaas node agent NODE", "gpuaas node hardware NODE", "gpuaas node update NODE --host ADDRESS",
	"gpuaas node bootstrap NODE --recovery",
	"gpuaas node reactivate NODE: ", "gpuaas node remove NODE: ", "gpuaas site doctor SITE",
	"gpuaas site profile set SITE PROFILE ", "gpuaas site roce list SITE", "gpuaas site roce import SITE FILE",
	"gpuaas site power-override list SITE", "gpuaas site power-override delete SITE ID",
	"gpuaas onboard HOSTNAME --ipmi-ip ADDRESS --site SITE --sku SKU",
}

var resolutions = []string{"acknowledge", "adopt", "quarantine", "return-to-service", "reimage"}

func checkAdvice(t *testing.T, advice string) {
	t.Helper()
	if !strings.HasPrefix(advice, "gpuaas ") {
		if strings.Contains(advice, "gpuaas ") {
			t.Errorf("%q hides a command in a sentence", advice)
		}
		return
	}
	if !slices.ContainsFunc(commands, func(c string) bool { return strings.HasPrefix(advice, c) }) ||
		!strings.Contains(advice, ": ") {
		t.Errorf("%q is no command with what it is for", advice)
	}
	if rest, resolves := strings.CutPrefix(advice, "gpuaas drift resolve NODE "); resolves {
		word, _, _ := strings.Cut(rest, ": ")
		if !slices.Contains(resolutions, word) {
			t.Errorf("%q is not how a drift is resolved", advice)
		}
	}
}

// Adoption is advised only where it is possible.
func TestAdoptionIsAdvisedWhereItIsPossible(t *testing.T) {
	for _, r := range Rules {
		advised := slices.ContainsFunc(r.Advice, func(a string) bool { return strings.Contains(a, "NODE adopt: ") })
		if advised && !r.Adopt {
			t.Errorf("%s advises to adopt what cannot be adopted", r.Type)
		}
	}
}

// A token is not sent where it could not help.
func TestReseedIsWithheldWhereItIsOfNoUse(t *testing.T) {
	late := func(s *Subject) { d := 3 * time.Hour; s.SyncAge = &d }
	for name, c := range map[string]struct {
		subject  Subject
		withheld string
	}{
		"late":           {healthy(late), ""},
		"late, and off":  {healthy(late, power("off")), "is off"},
		"installed anew": {healthy(late, installation(41, 42)), "settle that first"},
		"never, disabled": {healthy(func(s *Subject) {
			s.Machine.SyncEnabled, s.SyncAge, s.Machine.LastSync = false, nil,
				nil
		}), "only when a machine is deployed"},
	} {
		t.Run(name, func(t *testing.T) {
			v, holds := ruleHWSyncStale.When(c.subject)
			if !holds || (v.Withheld == "") != (c.withheld == "") || !strings.Contains(v.Withheld, c.withheld) {
				t.Errorf("holds %v, withheld because %q, want %q", holds, v.Withheld, c.withheld)
			}
		})
	}
}
