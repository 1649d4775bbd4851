package lifecycle

import (
	"fmt"
	"strings"
	"time"
)

// Description is a table without its type parameters, for code that handles the
// lifecycles of all nouns: documentation, API, checks.
type Description struct {
	Noun   string             `json:"noun"`
	Title  string             `json:"title"`
	States []StateDescription `json:"states"`
	Edges  []EdgeDescription  `json:"edges"`
}

// StateDescription is one state, with what may happen in it.
type StateDescription struct {
	Name              string   `json:"name"`
	Meaning           string   `json:"meaning"`
	Initial           bool     `json:"initial"`
	Terminal          bool     `json:"terminal"`
	StuckAfterSeconds int64    `json:"stuck_after_seconds,omitempty" doc:"after how long here somebody should look; absent means never"`
	Tone              Tone     `json:"tone,omitempty" enum:"ok,info,warn,bad,idle" doc:"how it looks to somebody who looks at many"`
	Traits            []Trait  `json:"traits,omitempty" nullable:"false" doc:"what it has in common with other states of the noun"`
	Events            []string `json:"events"`
}

// EdgeDescription is one allowed change.
type EdgeDescription struct {
	From  string `json:"from"`
	Event string `json:"event"`
	To    string `json:"to"`
	Owner string `json:"owner"`
}

// Describe drops the type parameters.
func (t Table[S, E]) Describe() Description {
	d := Description{Noun: t.Noun, Title: t.Title}
	for _, s := range t.States {
		sd := StateDescription{
			Name: string(s.Name), Meaning: s.Meaning, Terminal: s.Terminal,
			StuckAfterSeconds: int64(s.StuckAfter.Seconds()), Tone: s.Tone, Traits: s.Traits,
			Events: append([]string{}, t.Events(s.Name)...),
		}
		for _, i := range t.Initial {
			sd.Initial = sd.Initial || i == s.Name
		}
		d.States = append(d.States, sd)
	}
	for _, e := range t.Edges {
		d.Edges = append(d.Edges, EdgeDescription{
			From: string(e.From), Event: string(e.Event), To: string(e.To),
			Owner: e.Owner,
		})
	}
	return d
}

// Names lists the names of the states, in the order of the table.
func (d Description) Names() []string {
	names := make([]string, len(d.States))
	for i, s := range d.States {
		names[i] = s.Name
	}
	return names
}

// Page generates the documentation page: a diagram and two tables.
func (d Description) Page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nGenerated from the lifecycle table in the code by `make gen`; do not "+
		"edit.\n\n```mermaid\nstateDiagram-v2\n", d.Title)
	for _, s := range d.States {
		if s.Initial {
			fmt.Fprintf(&b, "    [*] --> %s\n", s.Name)
		}
	}
	for _, e := range d.Edges {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", e.From, e.To, e.Event)
	}
	for _, s := range d.States {
		if s.Terminal {
			fmt.Fprintf(&b, "    %s --> [*]\n", s.Name)
		}
	}
	b.WriteString("```\n\n| state | meaning | look at it after |\n| --- | --- | --- |\n")
	for _, s := range d.States {
		after := "never"
		switch {
		case s.Terminal:
			after = "final state"
		case s.StuckAfterSeconds > 0:
			after = (time.Duration(s.StuckAfterSeconds) * time.Second).String()
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, s.Meaning, after)
	}
	b.WriteString("\n| from | event | to | owner |\n| --- | --- | --- | --- |\n")
	for _, e := range d.Edges {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", e.From, e.Event, e.To, e.Owner)
	}
	return b.String()
}
