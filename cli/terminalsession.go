package cli

import (
	"strconv"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) terminalSessionColumns() []column[apiclient.TerminalSessionView] {
	type view = apiclient.TerminalSessionView
	return []column[view]{
		{title: "ID", text: func(v view) string { return v.Id.String() }},
		{title: "NODE", text: func(v view) string { return v.NodeId.String() }},
		{title: "USER", text: func(v view) string { return v.Username }},
		{title: "STATUS", text: func(v view) string { return string(v.Status) }},
		{title: "REASON", text: func(v view) string { return text(v.CloseReason) }},
		{title: "REQUESTED BY", text: func(v view) string { return v.RequestedBy }},
		{title: "CREATED", text: func(v view) string { return a.when(v.CreatedAt) }},
		{title: "CLOSED", text: func(v view) string { return a.whenever(v.ClosedAt) }},
		{title: "OPENED", text: func(v view) string { return a.whenever(v.OpenedAt) }, detail: true},
		{title: "BYTES TYPED", text: func(v view) string { return strconv.FormatInt(v.BytesIn, 10) }, detail: true},
		{title: "BYTES SHOWN", text: func(v view) string { return strconv.FormatInt(v.BytesOut, 10) }, detail: true},
		{title: "CORRELATION ID", text: func(v view) string { return v.CorrelationId }, detail: true},
	}
}

func (a *app) terminalSessionCommand() *cobra.Command {
	return a.noun(noun{use: "terminal-session", short: "Who has a terminal on a node, and ending it", group: groupMachines},
		a.verb(verb{
			use: "list", short: "List terminal sessions, newest first", aliases: []string{"ls"}, operations: []string{"list-terminal-sessions"},
			flags: func(cmd *cobra.Command) action {
				node := cmd.Flags().String("node", "", "only those on this node, by hostname or id")
				status := cmd.Flags().String("status", "", "only those that are so: issued, opening, open, closed or failed")
				complete(cmd, "status", "issued", "opening", "open", "closed", "failed")
				f := addListFlags(cmd, 50)
				return func(s *session, _ []string) error {
					var on *types.UUID
					if *node != "" {
						id, err := s.nodeID(*node)
						if err != nil {
							return err
						}
						on = &id
					}
					return list(s, f, listing[apiclient.TerminalSessionView]{columns: a.terminalSessionColumns(), fetch: func(p page) (apiclient.Answer, error) {
						return s.api.ListTerminalSessionsWithResponse(s.ctx, &apiclient.ListTerminalSessionsParams{
							Cursor: p.cursor, PageSize: p.size, NodeId: on, Status: givenAs[apiclient.ListTerminalSessionsParamsStatus](s, "status", status),
						})
					}})
				}
			},
		}),
		a.verb(verb{
			use: "close ID", short: "End a terminal session", args: exactly("ID"), operations: []string{"close-terminal-session"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "why; it goes into the audit log")
				return func(s *session, args []string) error {
					if err := s.require("reason"); err != nil {
						return err
					}
					id, err := s.idOf("a terminal session", args[0])
					if err != nil {
						return err
					}
					return show(s, a.terminalSessionColumns())(s.api.CloseTerminalSessionWithResponse(s.ctx, id,
						&apiclient.CloseTerminalSessionParams{}, apiclient.TerminalClosing{Reason: *reason}))
				}
			},
		}),
	)
}
