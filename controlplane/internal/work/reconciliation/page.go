package reconciliation

import (
	"fmt"
	"strings"
)

// Page generates the page about findings from the rules.
func Page() string {
	var page strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	say("# Findings of reconciliation\n")
	say("Made from the rules in `controlplane/internal/work/reconciliation/rule_*.go` by `make gen`; do not edit.\n")
	say("A finding is a disagreement between MAAS, the agents and the inventory. It opens when a check shows it. " +
		"Where one check can be wrong,")
	say("only a second one confirms it. gpuaas takes its automatic action once, and never touches running " +
		"work on a node.")
	say("It closes automatically when a check of that machine no longer shows it. Missing or partial answers from MAAS " +
		"open nothing")
	say("and close nothing. Reconciliation leaves a node alone while an onboarding or a decommission works on it. [Its " +
		"lifecycle](lifecycles/finding.md).\n")
	say("`gpuaas drift list` shows the nodes that have findings, `gpuaas drift findings` all of them, past ones too. " +
		"[Add a finding](how-to/add-a-finding.md).\n")
	say("| Finding | | Severity | Checks | Automatic action | May be adopted | Runbook |")
	say("|---|---|---|---|---|---|---|")
	for _, d := range Rules {
		say("| [`%s`](#%s) | %s | %s | %d | %s | %s | %s |", d.Type, d.Type, d.Title, d.Severity, d.Looks, byItself(d.Action),
			adoptable(d.Adopt), d.runbook())
	}
	say("\n## Automatic actions\n")
	for _, a := range actions {
		say("- %s: %s", actionShort[a], actionMeans[a])
	}
	for _, d := range Rules {
		say("\n## %s\n", d.Type)
		say("**%s.** %s\n", d.Title, d.Means)
		say("- Severity: %s", d.Severity)
		say("- When: %s", d.Holds)
		say("- Confirmed: %s", confirmedBy(d))
		say("- Automatic action: %s", byItself(d.Action))
		say("- What to do:")
		for i, text := range d.Advice {
			say("  %d. %s", i+1, advised(text))
		}
	}
	return page.String()
}

var (
	actions     = []Action{Quarantine, MarkOffline, UpdateHost, Reseed, Release, PowerOff}
	actionShort = map[Action]string{
		Quarantine: "quarantine", MarkOffline: "mark offline", UpdateHost: "update the address",
		Reseed: "reseed hardware sync", Release: "release the machine", PowerOff: "switch the machine off",
	}
	actionMeans = map[Action]string{
		Quarantine: "the node is quarantined: nothing new is placed on it, and running work continues. This does not happen " +
			"if it would affect so many nodes of the site that the [breaker](#breaker_open) opens.",
		MarkOffline: "an active node becomes offline, as it would if its agent stopped polling; it returns when the agent " +
			"polls again.",
		UpdateHost: "the inventory takes over the new address.",
		Reseed:     "the agent gets the token of its machine again (`node.hw_sync_reseed`), a bounded number of times.",
		Release:    "MAAS releases the machine and powers it off, erasing what the profile asks for.",
		PowerOff:   "MAAS switches the machine off; what is on it stays, and somebody can switch it on again.",
	}
)

func byItself(a Action) string {
	if a == None {
		return "nothing"
	}
	return actionShort[a]
}

// confirmedBy says how many checks confirm a finding.
func confirmedBy(r Rule) string {
	if r.Looks > 1 {
		return fmt.Sprintf("by %d checks", r.Looks)
	}
	return "by the first check"
}

func adoptable(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func (d Rule) runbook() string {
	if d.Runbook == "" {
		return "–"
	}
	return fmt.Sprintf("[%s](runbooks/%s.md)", strings.ReplaceAll(d.Runbook, "-", " "), d.Runbook)
}

// advised formats a piece of advice; a command in it becomes code.
func advised(text string) string {
	a := adviceOf(text)
	switch {
	case a.Command == "":
		return a.What
	case a.What == "":
		return "`" + a.Command + "`"
	}
	return "`" + a.Command + "`: " + a.What
}
