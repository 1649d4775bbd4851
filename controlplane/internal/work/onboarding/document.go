package onboarding

import (
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Page renders the page about the stages from the table that drives them.
func (s *Service) Page() string {
	var page strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	say("# The stages of an onboarding\n")
	say("Made from the table in `controlplane/internal/work/onboarding/stages.go` by `make gen`; do not edit.\n")
	say("An onboarding goes through these stages in their order. Each looks first, does the least that is missing, and may be run again from its")
	say("beginning, whatever an earlier run did. A stage that fails is attempted as often as its budget says; any stage gets %d attempts in all when", job.TransientAttempts)
	say("what it needs is away for a while. Then the onboarding is parked: nothing happens until an operator acts.\n")
	say("| # | Stage | Ends when | Attempts | Time limit (of the profile) | `resume` goes on with |")
	say("|---|---|---|---|---|---|")
	for i, s := range stages {
		limit := "–"
		if s.Limit != "" {
			limit = fmt.Sprintf("`%s_timeout_seconds`", s.Limit)
		}
		say("| %d | `%s` | %s | %d | %s | `%s` |", i+1, s.Name, s.Expects, s.Attempts, limit, s.Resume)
	}
	for i, s := range stages {
		say("\n## %d. %s (`%s`)\n", i+1, s.Title, s.Name)
		if s.Detour {
			say("Reached only when another stage leads to it.\n")
		}
		documentStage(say, s)
	}
	say("\n# Besides the stages")
	for _, s := range pseudoStages {
		say("\n## %s (`%s`)\n", s.Title, s.Name)
		documentStage(say, s)
	}
	documentFailures(say)
	return page.String()
}

func documentStage(say func(string, ...any), s job.Stage) {
	say("- Looks at: %s", s.Looks)
	say("- Does: %s", s.Does)
	say("- Ends when: %s", s.Expects)
	say("- May be run again: %s", s.Again)
	if s.OnCancel != "" {
		say("- On cancel: %s", s.OnCancel)
	}
	for _, f := range s.Fails {
		say("- Fails with `%s`: %s", f.Class, f.When)
	}
}

func documentFailures(say func(string, ...any)) {
	say("\n# Failures\n")
	say("| Class | The onboarding is parked as | Recommended first | Then |")
	say("|---|---|---|---|")
	for _, class := range bringup.FailureClasses {
		if first[class] == nil { // no stage of an onboarding fails in this class
			continue
		}
		o := family.ParkedBy(table.First(), class)
		var then []string
		for _, a := range family.Recommend(o)[1:] {
			then = append(then, "`"+string(a.Action)+"`")
		}
		best := "`" + string(family.Recommend(o)[0].Action) + "`"
		if class == bringup.StateAmbiguity {
			best += fmt.Sprintf("; `%s` when MAAS shows the machine as %s", job.AdoptObserved,
				strings.Join(slices.Concat(adoptable[:len(adoptable)-1], []string{"or " + adoptable[len(adoptable)-1]}), ", "))
		}
		say("| `%s` | `%s` | %s | %s |", class, o.Status, best, strings.Join(then, ", "))
	}
}
