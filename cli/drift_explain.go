package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// driftText explains a node for people: how it is, what was found about it and done, and what
// to do.
func (a *app) driftText(v apiclient.ReconciliationDriftDetailView) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(output.Harmless(fmt.Sprintf(format, args...)) + "\n") }
	how := "is as expected"
	switch {
	case v.Drifted:
		how = "is not as expected"
	case len(v.Findings) > 0:
		how = "may not be as expected"
	}
	say("%s at %s %s.", v.Hostname, v.SiteName, how)
	b.WriteString("\n")
	line := func(title, value string) {
		if value != "" {
			say("%-14s %s", title, value)
		}
	}
	line("node", string(v.NodeStatus)+scheduling(v))
	line("worked on by", text(v.HeldBy))
	line("MAAS shows", cmp.Or(text(v.MaasStatus), "nothing yet")+prefixed(", power ", text(v.MaasPowerState))+" (machine "+
		v.MaasSystemId+")")
	line("looked at", cmp.Or(a.Whenever(v.LastReconciledAt), "never"))
	for _, f := range v.Findings {
		b.WriteString("\n" + a.findingText(f))
	}
	further := slices.DeleteFunc(slices.Clone(v.Advice), func(advice apiclient.ReconciliationAdvice) bool {
		return text(advice.Command) == "gpuaas drift show "+v.Hostname // which this is
	})
	if len(further) > 0 {
		b.WriteString("\nwhat you can do, best option first:\n")
	}
	for i, advice := range further {
		say("  %d. %s", i+1, cmp.Or(text(advice.Command), advice.What))
		if text(advice.Command) != "" && advice.What != "" {
			say("     %s", advice.What)
		}
	}
	return b.String()
}

func scheduling(v apiclient.ReconciliationDriftDetailView) string {
	if v.Schedulable {
		return ", takes new work"
	}
	return ", takes no new work" + prefixed(": ", text(v.HoldReason))
}

// findingText says what was found, what that means and what was done about it.
func (a *app) findingText(f apiclient.ReconciliationFindingView) string {
	var b strings.Builder
	line := func(title, value string) {
		if value != "" {
			b.WriteString(output.Harmless(fmt.Sprintf("  %-12s %s", title, value)) + "\n")
		}
	}
	b.WriteString(output.Harmless(fmt.Sprintf("%s: %s (%s)", strings.ToUpper(string(f.Severity)), f.Title, f.Type)) + "\n")
	line("happened", f.Message)
	line("means", f.Means)
	line("expected", f.Expected)
	line("observed", f.Observed)
	line("since", a.When(f.OpenedAt)+", last seen "+a.When(f.LastSeenAt))
	line("confirmed", confirmed(f))
	line("done", a.doneAbout(f))
	if f.Occurrence > 1 {
		line("again", fmt.Sprintf("time %d within a month", f.Occurrence))
	}
	line("known", acknowledgedText(f))
	return b.String()
}

func confirmed(f apiclient.ReconciliationFindingView) string {
	if f.Status == "open" {
		return "not yet: a second check is due"
	}
	return "by " + plural(int(f.Looks), "check")
}

// doneAbout says what reconciliation did about a finding, or why it did not.
func (a *app) doneAbout(f apiclient.ReconciliationFindingView) string {
	action := text(f.Action)
	switch {
	case action == "":
		return "none: an operator decides"
	case f.ActedAt != nil:
		return action + ", " + a.When(*f.ActedAt) + prefixed(": ", text(f.ActionNote))
	case text(f.Withheld) != "":
		return "nothing; " + action + " is withheld: " + text(f.Withheld)
	}
	return "nothing yet; " + action + " is due"
}

// overColumns are the findings about one node that are over.
func (a *app) overColumns() []table.Column[apiclient.ReconciliationFindingView] {
	type view = apiclient.ReconciliationFindingView
	return []table.Column[view]{
		{Title: "IN THE PAST", Text: func(v view) string { return v.Type }},
		{Title: "SEVERITY", Text: func(v view) string { return string(v.Severity) }},
		at(a, "FROM", func(v view) time.Time { return v.OpenedAt }),
		at(a, "TO", func(v view) *time.Time { return v.ClosedAt }),
		{Title: "WHAT HAPPENED", Long: true, Text: func(v view) string { return v.Message }},
		{Title: "ACTION", Long: true, Text: findingAction},
		{Title: "CLOSED BECAUSE", Long: true, Text: func(v view) string { return text(v.ClosedBecause) }},
	}
}
