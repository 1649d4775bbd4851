package cli

import (
	"strconv"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) terminalSessionColumns() []table.Column[apiclient.TerminalSessionView] {
	type view = apiclient.TerminalSessionView
	return []table.Column[view]{
		{Title: "ID", Text: func(v view) string { return v.Id.String() }},
		{Title: "NODE", Text: func(v view) string { return v.NodeId.String() }},
		{Title: "USER", Wide: true, Text: func(v view) string { return v.Username }},
		{Title: "STATUS", Text: func(v view) string { return string(v.Status) }},
		{Title: "REASON", Long: true, Text: func(v view) string { return text(v.CloseReason) }},
		{Title: "REQUESTED BY", Long: true, Text: func(v view) string { return v.RequestedBy }},
		ago(a, "CREATED", func(v view) time.Time { return v.CreatedAt }),
		wide(ago(a, "CLOSED", func(v view) *time.Time { return v.ClosedAt })),
		{Title: "OPENED", Text: func(v view) string { return a.Whenever(v.OpenedAt) }, Detail: true},
		{Title: "BYTES TYPED", Text: func(v view) string { return strconv.FormatInt(v.BytesIn, 10) }, Detail: true},
		{Title: "BYTES SHOWN", Text: func(v view) string { return strconv.FormatInt(v.BytesOut, 10) }, Detail: true},
		{Title: "CORRELATION ID", Text: func(v view) string { return v.CorrelationId }, Detail: true},
	}
}

func (a *app) terminalSessionCommand() *cobra.Command {
	return a.noun(noun{
		use: "terminal-session", short: "Who has a terminal on a node, and ending it",
		group: groupMachines,
	},
		a.verb(verb{
			use: "list", short: "List terminal sessions, newest first", aliases: []string{"ls"},
			operations: []string{"list-terminal-sessions"},
			flags: func(cmd *cobra.Command) action {
				node := cmd.Flags().String("node", "", "only those on this node, by hostname or id")
				status := cmd.Flags().String("status", "", "only those with this status: issued, opening, open, closed or failed")
				frame.Complete(cmd, "status", apiclient.Words("list-terminal-sessions.status")...)
				f := listing.AddFlags(cmd, 50)
				return func(s *session, _ []string) error {
					var on *types.UUID
					if *node != "" {
						id, err := s.nodeID(*node)
						if err != nil {
							return err
						}
						on = &id
					}
					return listing.Print(s.Session, f,
						listing.Listing[apiclient.TerminalSessionView]{
							Columns: a.terminalSessionColumns(),
							Fetch: func(p listing.Page) (apiclient.Answer, error) {
								return s.API.ListTerminalSessionsWithResponse(s.Ctx, &apiclient.ListTerminalSessionsParams{
									Cursor: p.Cursor, PageSize: p.Size, NodeId: on,
									Status: frame.GivenAs[apiclient.ListTerminalSessionsParamsStatus](s.Session, "status", status),
								})
							},
						})
				}
			},
		}),
		a.verb(verb{
			use: "close ID", short: "End a terminal session", args: frame.Exactly("ID"),
			operations: []string{"close-terminal-session"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
				return func(s *session, args []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					id, err := s.IDOf("a terminal session", args[0])
					if err != nil {
						return err
					}
					return frame.Show(s.Session, a.terminalSessionColumns())(s.API.CloseTerminalSessionWithResponse(s.Ctx, id,
						&apiclient.CloseTerminalSessionParams{}, apiclient.TerminalClosing{Reason: *reason}))
				}
			},
		}),
	)
}
