package decommission

import (
	"fmt"
	"strings"

	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Page renders the page about the modes and their stages from the table that
// drives them.
func (s *Service) Page() string {
	var page strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	say("# The stages of decommissions\n")
	say("Made from the table in `controlplane/internal/work/decommission/stages.go` by `make gen`; do not edit.\n")
	say("A decommission goes through the stages of its mode in their order. Each looks first, does the least that is missing, and may be run again")
	say("from its beginning, whatever an earlier run did. A stage that fails is attempted as often as its budget says; any stage gets %d attempts in all", job.TransientAttempts)
	say("when what it needs is away for a while. Then the decommission is parked: nothing happens until an operator acts, and the node stays held.\n")
	say("# Modes\n")
	say("| Mode | The node may be | Ends | Takes | Stages |")
	say("|---|---|---|---|---|")
	for _, m := range Modes() {
		say("| `%s` | %s | %s | %s | %s |", m, joined(from[m]), ends[m], lasts[m], stagesText(m))
	}
	say("\n# Stages")
	for _, s := range allStages() {
		say("\n## %s (`%s`)\n", s.Title, s.Name)
		writeStage(say, s)
	}
	writeFailures(say)
	return page.String()
}

func stagesText(m Mode) string {
	var names []string
	for _, s := range tables[m] {
		if !s.Pseudo && !s.Detour {
			names = append(names, "`"+s.Name+"`")
		}
	}
	return strings.Join(names, ", ")
}

func writeStage(say func(string, ...any), s job.Stage) {
	if s.Detour {
		say("Reached only when another stage leads to it.\n")
	}
	say("- Looks at: %s", s.Looks)
	say("- Does: %s", s.Does)
	say("- Ends when: %s", s.Expects)
	say("- May be run again: %s", s.Again)
	limit := ""
	if s.Limit != "" {
		limit = fmt.Sprintf("; time limit: `%s_timeout_seconds` of the profile", s.Limit)
	}
	say("- Attempts: %d%s", s.Attempts, limit)
	if !s.Pseudo {
		say("- `resume` goes on with: `%s`", s.Resume)
		say("- An operator may go on without it: %s", mayOverride(s))
	}
	if s.OnCancel != "" {
		say("- On cancel: %s", s.OnCancel)
	}
	for _, f := range s.Fails {
		say("- Fails with `%s`: %s", f.Class, f.When)
	}
}

// mayOverride says in which modes operators may skip a stage.
func mayOverride(s job.Stage) string {
	var may, not []Mode
	for _, m := range Modes() {
		if _, goes := tables[m].Of(s.Name); !goes {
			continue
		}
		if overridable(Decommission{Mode: m, Job: job.Job{Stage: s.Name}}, s.Name, false) == nil {
			may = append(may, m)
		} else {
			not = append(not, m)
		}
	}
	switch {
	case len(may) == 0:
		return "no"
	case len(not) == 0:
		return "yes, with a reason and the risk that is left"
	}
	return fmt.Sprintf("only in %s, with a reason and the risk that is left", joined(may))
}

func writeFailures(say func(string, ...any)) {
	say("\n# Failures\n")
	say("| Class | The decommission is parked as | Recommended first | Then |")
	say("|---|---|---|---|")
	f := family()
	for _, class := range bringup.FailureClasses {
		if first[class] == nil { // no stage of a decommission fails in this class
			continue
		}
		d := f.ParkedBy(tables[FullDecommission].First(), class)
		ranked := f.Recommend(d)
		var then []string
		for _, a := range ranked[1:] {
			then = append(then, "`"+string(a.Action)+"`")
		}
		say("| `%s` | `%s` | `%s` | %s |", class, d.Status, ranked[0].Action, strings.Join(then, ", "))
	}
}
