package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) outboxColumns() []column[apiclient.OutboxEvent] {
	type event = apiclient.OutboxEvent
	return []column[event]{
		{title: "ID", text: func(e event) string { return e.EventId.String() }},
		{title: "TO", text: func(e event) string { return string(e.Destination) }},
		{title: "TYPE", text: func(e event) string { return e.EventType }},
		{title: "ABOUT", text: func(e event) string { return e.AggregateKind + " " + e.AggregateId }},
		{title: "STATUS", text: func(e event) string { return string(e.Status) }},
		{title: "ATTEMPTS", text: func(e event) string { return strconv.FormatInt(e.Attempts, 10) }},
		{title: "CREATED", text: func(e event) string { return a.when(e.CreatedAt) }},
		{title: "LAST ERROR", text: func(e event) string { return text(e.LastError) }},
		{title: "CORRELATION ID", text: func(e event) string { return e.CorrelationId }, detail: true},
	}
}

func (a *app) outboxCommand() *cobra.Command {
	return a.noun(noun{
		use: "outbox", short: "Events that could not be delivered", group: groupWatching,
		long: "Each event that failed for good waits for an operator, who requeues or discards it.",
	},
		a.verb(verb{
			use: "failed", short: "List events that failed for good, newest first", operations: []string{"list-failed-outbox-events"},
			flags: func(cmd *cobra.Command) action {
				f := addListFlags(cmd, 50)
				return func(s *session, _ []string) error {
					return list(s, f, listing[apiclient.OutboxEvent]{columns: a.outboxColumns(), fetch: func(p page) (apiclient.Answer, error) {
						return s.api.ListFailedOutboxEventsWithResponse(s.ctx, &apiclient.ListFailedOutboxEventsParams{Cursor: p.cursor, PageSize: p.size})
					}})
				}
			},
		}),
		a.verb(verb{
			use: "requeue EVENT_ID", short: "Deliver a failed event after all", args: exactly("EVENT_ID"), operations: []string{"requeue-outbox-event"},
			long: "Gives a failed event all its attempts again. Later events about the same thing may have been\ndelivered before it.",
			run: func(s *session, args []string) error {
				id, err := s.idOf("an event", args[0])
				if err != nil {
					return err
				}
				return show(s, a.outboxColumns())(s.api.RequeueOutboxEventWithResponse(s.ctx, id, &apiclient.RequeueOutboxEventParams{}))
			},
		}),
		a.verb(verb{
			use: "discard EVENT_ID", short: "Give up a failed event for ever", args: exactly("EVENT_ID"), operations: []string{"discard-outbox-event"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "why; it goes into the audit log")
				return func(s *session, args []string) error {
					if err := s.require("reason"); err != nil {
						return err
					}
					id, err := s.idOf("an event", args[0])
					if err != nil {
						return err
					}
					return show(s, a.outboxColumns())(s.api.DiscardOutboxEventWithResponse(s.ctx, id, &apiclient.DiscardOutboxEventParams{},
						apiclient.OutboxDiscarding{Reason: *reason}))
				}
			},
		}),
	)
}
