package faults

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// titles are the names of the kinds for people.
var titles = map[Kind]string{
	Before: "fails before its effect", After: "fails after its effect (answer lost)", Ambiguous: "ambiguous time-out",
	ErrorKind: "provider reports an error state",
	Lies:      "provider lies (says done, is not)", Killed: "worker is killed", Twice: "delivered twice",
	OutOfBand: "changed out of band", Takeover: "operator takes over",
}

// said describes in one line how a case ended.
func (o Outcome) said() string {
	switch o.Result {
	case NotApplicable:
		return "not applicable: " + o.NotApplicable
	case HealedItself:
		if o.End != "" {
			return "ends by itself: " + o.End
		}
		if o.Warned {
			return "went on by itself, with a warning"
		}
		return "healed by itself"
	case Recovered, Unresolved:
	}
	var parts []string
	for _, s := range o.Stops {
		at := ""
		if s.Stage != o.Stage {
			at = " at " + s.Stage
		}
		parts = append(parts, fmt.Sprintf("parked%s as %s (%s) → %s", at, s.Class, s.Code, s.Action))
	}
	if o.Result == Unresolved {
		return strings.Join(append(parts, "NOT RESOLVED: "+o.Why), " → ")
	}
	return strings.Join(append(parts, cmp.Or(o.End, completed)), " → ")
}

const preamble = `# What goes wrong, and what becomes of it

This page is written by ` + "`gpuaas sim faults --report docs/fault-catalogue.md`" + `, which tries every stage of onboardings,
decommissions and allocations in every way that stages fail: on real engines, against a simulated data centre, through the public API. Where
a stage talks to MAAS or to an agent, it is the simulated MAAS or agent that fails; where it does not, the stage is stopped
from outside. Nodes to decommission are onboarded first, and a tenant gets an account on them. When a job is parked, the
explanation is read, what went wrong is put right as the last column says, and the **first** recommended action is taken.
Where the cleanup after an allocation is parked, the tenant asks for the release again, an administrator forces it, or an
operator takes the first action that the cleanup recommends: the seed decides, and each must lead on.

Paths, at the end, are ways that a job takes because of one thing: for each it is laid down with which code the job is parked,
what must be recommended first, what the explanation names, and with which outcome it ends.

What must hold, whatever happens: no machine is deployed twice, nothing has an effect after an operator took over, no node is
active before its agent polls and its hardware sync is fresh, whatever is parked has a legal action; no node becomes
schedulable without a clean validation newer than its last taint, every certificate verifies offline and names evidence that
is on record, less erase than was asked for is on record, no task is given twice at once, nothing is released that somebody
else deployed, the history of a node has no gap, a deleted node's id is never used again. An allocation ends as it must, its
claim is there until its node is proven clean and not longer, it asks nothing of a node after its end and nothing twice, no
node that was taken out of service is handed over, and whoever had one holds a receipt afterwards.

The same seed makes the same things go wrong: ` + "`gpuaas sim faults --seed %d --case reimage/deploy_via_maas/provider_lies`" + ` repeats
one case.

`

// WriteMarkdown writes the report as the page of the documentation.
func (r Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, preamble, r.Seed)
	r.totals(&b)
	for _, group := range Groups {
		if of := r.of(group); len(of.Outcomes) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n", group.heading())
			of.results(&b)
			if group == Paths {
				of.ways(&b)
			} else {
				of.sections(&b)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// heading is the title of the part about a group.
func (f Family) heading() string {
	if f == Paths {
		return "Paths"
	}
	return strings.ToUpper(string(f[:1])) + string(f[1:])
}

// of returns the part of the report about a group.
func (r Report) of(group Family) Report {
	r.Outcomes = slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return o.Group() != group })
	return r
}

// ways writes what became of paths.
func (r Report) ways(b *strings.Builder) {
	b.WriteString("\n| path | of | what is broken | what becomes of it | what the operator puts right |\n| --- | --- | --- | --- | " +
		"--- |\n")
	for _, o := range r.Outcomes {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", o.path.name, o.Title(), cell(o.What), cell(o.said()), cell(o.Mend))
	}
}

func (r Report) sections(b *strings.Builder) {
	var now Section
	for _, o := range r.Outcomes {
		if o.Section != now {
			now = o.Section
			fmt.Fprintf(b, "\n### %s\n\n| kind | what happens | what becomes of it | what the operator puts right |\n| --- | "+
				"--- | --- | --- |\n", now.Title())
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", titles[o.Kind], cell(o.What), cell(o.said()), cell(o.Mend))
	}
}

func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "|", "\\|"), "\n", " ") }

// totals writes the sums over everything.
func (r Report) totals(b *strings.Builder) {
	r.results(b)
	for _, row := range [][2]string{
		{
			"secrets looked for, and found where they do not belong",
			fmt.Sprintf("%d in %d places (%d MB), %d found", r.Search.Secrets, r.Search.Places, r.Search.Bytes>>20,
				len(r.Search.Leaks)),
		},
		{"seed, cases at a time, seconds", fmt.Sprintf("%d, %d, %.0f", r.Seed, r.Parallel, r.Took.Seconds())},
	} {
		fmt.Fprintf(b, "| %s | %s |\n", row[0], row[1])
	}
}

// results writes how cases ended.
func (r Report) results(b *strings.Builder) {
	tried := r.Tried()
	held := "yes"
	broken := 0
	for _, o := range r.Outcomes {
		broken += len(o.Broken)
	}
	if broken > 0 {
		held = fmt.Sprintf("no: %d violations", broken)
	}
	fmt.Fprintf(b, "| | |\n| --- | --- |\n")
	for _, row := range [][2]string{
		{"cases", fmt.Sprintf("%d, of which %d cannot exist", len(r.Outcomes), r.Count(NotApplicable))},
		{"healed by themselves", strconv.Itoa(r.Count(HealedItself))},
		{"parked, and completed by the first recommended action", strconv.Itoa(r.First() - r.Count(HealedItself))},
		{"parked, and completed by more than one action", strconv.Itoa(r.Count(HealedItself, Recovered) - r.First())},
		{"not resolved", strconv.Itoa(r.Count(Unresolved))},
		{
			"resolved without an operator or by the first recommended action",
			fmt.Sprintf("%.1f %% (at least %.0f %%)", 100*float64(r.First())/float64(max(tried, 1)), share*100),
		},
		{"everything held that must hold", held},
	} {
		fmt.Fprintf(b, "| %s | %s |\n", row[0], row[1])
	}
}

// WriteText writes the report for a terminal.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, o := range r.Outcomes {
		b.WriteString(o.Line() + "\n")
	}
	b.WriteString("\n")
	r.totals(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// Line describes one case for a terminal.
func (o Outcome) Line() string {
	mark := "✓"
	switch {
	case o.Result == NotApplicable:
		mark = "–"
	case len(o.Broken) > 0 || o.Result == Unresolved:
		mark = "✗"
	case !o.First():
		mark = "!"
	}
	lines := []string{fmt.Sprintf("%s %-66s %5.1fs  %s", mark, o.Name(), o.Took.Round(100*time.Millisecond).Seconds(),
		o.said())}
	for _, broken := range o.Broken {
		lines = append(lines, "    BROKEN: "+broken)
	}
	return strings.Join(lines, "\n")
}
