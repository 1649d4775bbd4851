package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func lifecycleColumns() []table.Column[apiclient.LifecycleDescription] {
	type lifecycle = apiclient.LifecycleDescription
	return []table.Column[lifecycle]{
		{Title: "NOUN", Text: func(l lifecycle) string { return l.Noun }},
		{Title: "TITLE", Text: func(l lifecycle) string { return l.Title }},
		{Title: "STATES", Text: func(l lifecycle) string { return strconv.Itoa(len(items(l.States))) }},
	}
}

func (a *app) lifecycleCommand() *cobra.Command {
	return a.noun(noun{use: "lifecycle", short: "Lifecycles: states and what may happen in each", group: groupWatching},
		a.verb(verb{
			use: "list", short: "List what has a lifecycle", aliases: []string{"ls"}, operations: []string{"list-lifecycles"},
			run: func(s *session, _ []string) error {
				return listing.Print(s.Session, &listing.Flags{},
					listing.Listing[apiclient.LifecycleDescription]{Columns: lifecycleColumns(), Fetch: s.lifecycles})
			},
		}),
		a.verb(verb{
			use: "show NOUN", short: "Show the states of a noun and what may happen in each", args: frame.Exactly("NOUN"),
			operations: []string{"list-lifecycles"},
			example:    "  gpuaas lifecycle show node",
			run:        func(s *session, args []string) error { return s.showLifecycle(args[0]) },
		}),
	)
}

// lifecycles are few: the API gives them all at once.
func (s *session) lifecycles(listing.Page) (apiclient.Answer, error) {
	return s.API.ListLifecyclesWithResponse(s.Ctx)
}

func (s *session) showLifecycle(noun string) error {
	raws, _, err := listing.Collect(s.lifecycles, 0)
	if err != nil {
		return err
	}
	var nouns []string
	for _, raw := range raws {
		o, err := output.Decode[apiclient.LifecycleDescription](raw)
		if err != nil {
			return err
		}
		if o.Value.Noun == noun {
			return s.printLifecycle(raw, o.Value)
		}
		nouns = append(nouns, o.Value.Noun)
	}
	return failure.Missing("use one of: "+strings.Join(nouns, ", "), "nothing called %q has a lifecycle", noun)
}

func (s *session) printLifecycle(raw json.RawMessage, l apiclient.LifecycleDescription) error {
	if err := frame.PrintOne(s.App, lifecycleColumns(), raw); err != nil {
		return err
	}
	type state = apiclient.LifecycleStateDescription
	if err := frame.PrintPart(s.Session, []table.Column[state]{
		{Title: "STATE", Text: func(v state) string { return v.Name }},
		{Title: "KIND", Text: kindOfState},
		{Title: "STUCK AFTER", Text: func(v state) string {
			if v.StuckAfterSeconds == nil {
				return ""
			}
			return moment.Short(time.Duration(*v.StuckAfterSeconds) * time.Second)
		}},
		{Title: "MEANING", Text: func(v state) string { return v.Meaning }},
	}, items(l.States)); err != nil {
		return err
	}
	type edge = apiclient.LifecycleEdgeDescription
	return frame.PrintPart(s.Session, []table.Column[edge]{
		{Title: "IN", Text: func(e edge) string { return e.From }},
		{Title: "WHEN", Text: func(e edge) string { return e.Event }},
		{Title: "THEN", Text: func(e edge) string { return e.To }},
		{Title: "BY", Text: func(e edge) string { return e.Owner }},
	}, items(l.Edges))
}

func kindOfState(v apiclient.LifecycleStateDescription) string {
	switch {
	case v.Initial:
		return "first"
	case v.Terminal:
		return "last"
	}
	return ""
}
