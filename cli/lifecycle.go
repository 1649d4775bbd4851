package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func lifecycleColumns() []column[apiclient.LifecycleDescription] {
	type lifecycle = apiclient.LifecycleDescription
	return []column[lifecycle]{
		{title: "NOUN", text: func(l lifecycle) string { return l.Noun }},
		{title: "TITLE", text: func(l lifecycle) string { return l.Title }},
		{title: "STATES", text: func(l lifecycle) string { return strconv.Itoa(len(items(l.States))) }},
	}
}

func (a *app) lifecycleCommand() *cobra.Command {
	return a.noun(noun{use: "lifecycle", short: "The states that things go through", group: groupWatching},
		a.verb(verb{
			use: "list", short: "List what has a lifecycle", aliases: []string{"ls"}, operations: []string{"list-lifecycles"},
			run: func(s *session, _ []string) error {
				return list(s, &listFlags{}, listing[apiclient.LifecycleDescription]{columns: lifecycleColumns(), fetch: s.lifecycles})
			},
		}),
		a.verb(verb{
			use: "show NOUN", short: "Show the states of a noun and what may happen in each", args: exactly("NOUN"), operations: []string{"list-lifecycles"},
			example: "  gpuaas lifecycle show node",
			run:     func(s *session, args []string) error { return s.showLifecycle(args[0]) },
		}),
	)
}

// lifecycles are few: the API gives them all at once.
func (s *session) lifecycles(page) (apiclient.Answer, error) {
	return s.api.ListLifecyclesWithResponse(s.ctx)
}

func (s *session) showLifecycle(noun string) error {
	raws, _, err := collect(s.lifecycles, 0)
	if err != nil {
		return err
	}
	var nouns []string
	for _, raw := range raws {
		o, err := decode[apiclient.LifecycleDescription](raw)
		if err != nil {
			return err
		}
		if o.value.Noun == noun {
			return s.printLifecycle(raw, o.value)
		}
		nouns = append(nouns, o.value.Noun)
	}
	return notFound("use one of: "+strings.Join(nouns, ", "), "nothing called %q has a lifecycle", noun)
}

func (s *session) printLifecycle(raw json.RawMessage, l apiclient.LifecycleDescription) error {
	if err := printOne(s.app, lifecycleColumns(), raw); err != nil {
		return err
	}
	type state = apiclient.LifecycleStateDescription
	if err := printPart(s, []column[state]{
		{title: "STATE", text: func(v state) string { return v.Name }},
		{title: "KIND", text: kindOfState},
		{title: "STUCK AFTER", text: func(v state) string {
			if v.StuckAfterSeconds == nil {
				return ""
			}
			return short(time.Duration(*v.StuckAfterSeconds) * time.Second)
		}},
		{title: "MEANING", text: func(v state) string { return v.Meaning }},
	}, items(l.States)); err != nil {
		return err
	}
	type edge = apiclient.LifecycleEdgeDescription
	return printPart(s, []column[edge]{
		{title: "IN", text: func(e edge) string { return e.From }},
		{title: "WHEN", text: func(e edge) string { return e.Event }},
		{title: "THEN", text: func(e edge) string { return e.To }},
		{title: "BY", text: func(e edge) string { return e.Owner }},
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
