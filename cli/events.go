package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/output"
	"gpuaas/contract/apiclient"
)

func (a *app) eventsCommand() *cobra.Command {
	return a.verb(verb{
		use: "events", short: "Follow what happens, live", group: groupWatching, operations: []string{"stream-events"},
		long: "Prints one line per event until Ctrl-C, with -o json one JSON object per line. A connection that\n" +
			"breaks is opened again where it broke. At the end, standard error says how to continue from there.",
		example: "  gpuaas events --type tenant\n  gpuaas events --from 1042 -o json",
		flags: func(cmd *cobra.Command) action {
			prefix := cmd.Flags().String("type", "", "only event types that begin so, such as tenant or tenant.created")
			from := cmd.Flags().String("from", "", "continue after this position; only what is new when left out")
			return func(s *session, _ []string) error { return s.followEvents(*prefix, *from) }
		},
	})
}

func (s *session) followEvents(prefix, from string) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	last := ""
	err = apiclient.Stream(s.Ctx, s.API, apiclient.StreamRequest{
		Type: prefix, After: from, Wait: s.Wait,
		Interrupted: func(why error, pause time.Duration) {
			// The control plane ends streams from time to time; that alone is not worth a word.
			if pause > 2*time.Second {
				s.Note("the event stream broke (%v); connecting again", why)
			}
		},
	}, func(item apiclient.StreamItem) error {
		last = item.Position
		switch {
		case item.Gap != nil:
			s.Note("warning: the events after position %d and before %d are no longer held and were missed",
				item.Gap.RequestedAfter, item.Gap.ContinuesFrom)
		case item.Event != nil && format == output.Table:
			return output.Write(s.Program.Out, s.eventLine(item)+"\n")
		case item.Event != nil:
			return output.PrintLine(s.Program.Out, format, item.Raw)
		}
		return nil
	})
	if last != "" {
		s.Note("continue with: gpuaas events --from %s", last)
	}
	return err
}

// eventLine is an event for people: position, time, type, tenant, facts, correlation id.
func (s *session) eventLine(item apiclient.StreamItem) string {
	e := item.Event
	org := "-"
	if e.OrgId != nil {
		org = e.OrgId.String()
	}
	return strings.Join([]string{
		output.Harmless(item.Position), e.OccurredAt.In(s.Zone).Format("2006-01-02 15:04:05"), output.Harmless(e.EventType),
		org,
		output.Harmless(e.CorrelationId), output.Harmless(compact(e.Payload)),
	}, "  ")
}
