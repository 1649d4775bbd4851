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
	say("A finding is something in which MAAS, the agents and the inventory disagree. It opens when a look shows it. " +
		"Where one look can be wrong,")
	say("it is confirmed only by a second one. What is done about it by itself is done once; what runs on a node is " +
		"never touched by that.")
	say("It closes by itself when a look at the very machine does not show it any more: what MAAS does not answer, or " +
		"answers in part, opens nothing")
	say("and closes nothing. A node that an onboarding or a decommission works on is left to that. [Its " +
		"lifecycle](lifecycles/finding.md).\n")
	say("`gpuaas drift list` shows the nodes that have findings, `gpuaas drift findings` all of them, past ones too. " +
		"[Add a finding](how-to/add-a-finding.md).\n")
	say("| Finding | | Severity | Looks | By itself | May be adopted | Runbook |")
	say("|---|---|---|---|---|---|---|")
	for _, d := range Rules {
		say("| [`%s`](#%s) | %s | %s | %d | %s | %s | %s |", d.Type, d.Type, d.Title, d.Severity, d.Looks, byItself(d.Action),
			adoptable(d.Adopt), d.runbook())
	}
	say("\n## What is done by itself\n")
	for _, a := range actions {
		say("- %s: %s", actionShort[a], actionMeans[a])
	}
	for _, d := range Rules {
		say("\n## %s\n", d.Type)
		say("**%s.** %s\n", d.Title, d.Means)
		say("- Severity: %s", d.Severity)
		say("- When: %s", d.Holds)
		say("- Confirmed: %s", confirmedBy(d))
		say("- By itself: %s", byItself(d.Action))
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
		Quarantine: "the node is quarantined: nothing new is placed on it, and what runs on it is left alone. Not while " +
			"so many nodes of the site would be that the [breaker](#breaker_open) opens.",
		MarkOffline: "an active node becomes offline, as it would when its agent is missed; it returns when the agent " +
			"polls again.",
		UpdateHost: "the inventory takes over the new address.",
		Reseed:     "the agent gets the token of its machine anew (`node.hw_sync_reseed`), a bounded number of times.",
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
