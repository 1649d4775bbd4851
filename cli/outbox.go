package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) outboxColumns() []table.Column[apiclient.OutboxEvent] {
	type event = apiclient.OutboxEvent
	return []table.Column[event]{
		{Title: "ID", Text: func(e event) string { return e.EventId.String() }},
		{Title: "TO", Text: func(e event) string { return string(e.Destination) }},
		{Title: "TYPE", Text: func(e event) string { return e.EventType }},
		{Title: "ABOUT", Wide: true, Text: func(e event) string { return e.AggregateKind + " " + e.AggregateId }},
		{Title: "STATUS", Text: func(e event) string { return string(e.Status) }},
		{Title: "ATTEMPTS", Text: func(e event) string { return strconv.FormatInt(e.Attempts, 10) }},
		ago(a, "CREATED", func(e event) time.Time { return e.CreatedAt }),
		{Title: "LAST ERROR", Long: true, Text: func(e event) string { return text(e.LastError) }},
		{Title: "CORRELATION ID", Text: func(e event) string { return e.CorrelationId }, Detail: true},
	}
}

func (a *app) outboxCommand() *cobra.Command {
	return a.noun(noun{
		use: "outbox", short: "Events that could not be delivered", group: groupWatching,
		long: "Each event that failed for good waits for an operator, who requeues or discards it.",
	},
		a.verb(verb{
			use: "failed", short: "List events that failed for good, newest first",
			operations: []string{"list-failed-outbox-events"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 50)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.OutboxEvent]{
						Columns: a.outboxColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListFailedOutboxEventsWithResponse(s.Ctx,
								&apiclient.ListFailedOutboxEventsParams{Cursor: p.Cursor, PageSize: p.Size})
						},
					})
				}
			},
		}),
		a.verb(verb{
			use: "requeue EVENT_ID", short: "Deliver a failed event after all", args: frame.Exactly("EVENT_ID"),
			operations: []string{"requeue-outbox-event"},
			long: "Gives a failed event all its attempts again. Later events about the same thing may have been\ndelivered " +
				"before it.",
			run: func(s *session, args []string) error {
				id, err := s.IDOf("an event", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.outboxColumns())(
					s.API.RequeueOutboxEventWithResponse(s.Ctx, id, &apiclient.RequeueOutboxEventParams{}))
			},
		}),
		a.verb(verb{
			use: "discard EVENT_ID", short: "Give up a failed event for ever", args: frame.Exactly("EVENT_ID"),
			operations: []string{"discard-outbox-event"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
				return func(s *session, args []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					id, err := s.IDOf("an event", args[0])
					if err != nil {
						return err
					}
					return frame.Show(s.Session, a.outboxColumns())(
						s.API.DiscardOutboxEventWithResponse(s.Ctx, id, &apiclient.DiscardOutboxEventParams{},
							apiclient.OutboxDiscarding{Reason: *reason}))
				}
			},
		}),
	)
}
