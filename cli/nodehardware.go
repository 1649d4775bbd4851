package cli

import (
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) nodeHardwareCommand() *cobra.Command {
	return a.verb(verb{
		use: "hardware NODE", short: "Show which machine a node is, and who was refused as it", args: exactly("NODE"), operations: []string{"get-node-hardware"},
		long: "Whoever enrols as the node must not contradict what is known of its machine. A part that was replaced is\n" +
			"accepted with: gpuaas node accept-hardware NODE --reason REASON",
		run: nodeVerb(func(s *session, id types.UUID) error {
			return show(s, a.hardwareColumns())(s.api.GetNodeHardwareWithResponse(s.ctx, id))
		}),
	})
}

func (a *app) nodeAcceptHardwareCommand() *cobra.Command {
	return a.verb(verb{
		use: "accept-hardware NODE", short: "Accept the machine that was refused last as the one that the node is", args: exactly("NODE"),
		operations: []string{"accept-node-hardware"},
		long: "For a part that was replaced, such as the mainboard. Look at it first: gpuaas node hardware NODE\n" +
			"It gives nobody an identity: the machine enrols with a new bootstrap: gpuaas node bootstrap NODE --recovery",
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "why; it goes into the history and the audit log")
			return nodeVerb(func(s *session, id types.UUID) error {
				if err := s.require("reason"); err != nil {
					return err
				}
				return show(s, a.hardwareColumns())(s.api.AcceptNodeHardwareWithResponse(
					s.ctx, id, &apiclient.AcceptNodeHardwareParams{}, apiclient.NodeAcceptHardwareBody{Reason: *reason}))
			})
		},
	})
}

func (a *app) hardwareColumns() []column[apiclient.NodeHardwareView] {
	type view = apiclient.NodeHardwareView
	return []column[view]{
		{title: "SYSTEM UUID", text: func(v view) string { return text(v.Known.Uuid) }},
		{title: "SYSTEM SERIAL", text: func(v view) string { return text(v.Known.SystemSerial) }},
		{title: "BOARD SERIAL", text: func(v view) string { return text(v.Known.BoardSerial) }},
		{title: "CHASSIS SERIAL", text: func(v view) string { return text(v.Known.ChassisSerial) }},
		{title: "MAC ADDRESSES", text: func(v view) string { return strings.Join(v.Known.Macs, ", ") }},
		{title: "KNOWN FROM", text: func(v view) string { return text((*string)(v.Origin)) }},
		{title: "SAID BY AGENT", text: func(v view) string { return yesNo(v.Said) }},
		{title: "ADDRESSES", text: func(v view) string { return strings.Join(v.Addresses, ", ") }},
		{title: "ADDRESS REQUIRED", text: func(v view) string { return yesNo(v.AddressRequired) }},
		{title: "ENROLLED FROM", text: func(v view) string { return text(v.EnrolledFrom) }},
		{title: "REFUSED", text: func(v view) string { return text(v.RefusedWhy) }},
		{title: "IDENTITY VOID", text: func(v view) string { return text(v.IdentityVoid) }},
	}
}
