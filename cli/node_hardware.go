package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) nodeHardwareCommand() *cobra.Command {
	return a.verb(verb{
		use: "hardware NODE", short: "Show the hardware of a node, and machines that were refused as this node", args: frame.Exactly("NODE"),
		operations: []string{"get-node-hardware"},
		long: "Whoever enrols as the node must say all that is known of its machine, and of its MAC addresses one.\n" +
			"Where a machine was refused, it shows what that one said, and the command that accepts it.",
		run: nodeVerb(func(s *session, id types.UUID) error {
			type view = apiclient.NodeHardwareView
			accept := table.Column[view]{Title: "ACCEPT WITH", Text: func(v view) string {
				claim := text(v.RefusedClaim)
				if claim == "" {
					return ""
				}
				return fmt.Sprintf(`gpuaas node accept-hardware %s --claim %s --reason "WHY"`, s.Cmd.Flags().Arg(0), claim)
			}}
			return frame.Show(s.Session, append(a.hardwareColumns(), accept))(s.API.GetNodeHardwareWithResponse(s.Ctx, id))
		}),
	})
}

func (a *app) nodeAcceptHardwareCommand() *cobra.Command {
	return a.verb(verb{
		use: "accept-hardware NODE", short: "Accept the machine that was refused last as the machine of this node",
		args:       frame.Exactly("NODE"),
		operations: []string{"accept-node-hardware"},
		long: "For a part that was replaced, such as the mainboard. Look at it first: gpuaas node hardware NODE\n" +
			"shows what was refused, and this command with the claim that you have read. It accepts nothing else: another\n" +
			"machine may have been refused since.\n" +
			"It gives nobody an identity: the machine enrols with a new bootstrap: gpuaas node bootstrap NODE --recovery",
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "why; it goes into the history and the audit log")
			claim := cmd.Flags().String("claim", "", "digest of what the machine said, as gpuaas node hardware NODE shows it")
			return nodeVerb(func(s *session, id types.UUID) error {
				if err := s.Require("claim", "reason"); err != nil {
					return err
				}
				return frame.Show(s.Session, a.hardwareColumns())(s.API.AcceptNodeHardwareWithResponse(
					s.Ctx, id, &apiclient.AcceptNodeHardwareParams{}, apiclient.NodeAcceptHardwareBody{Claim: claim, Reason: *reason}))
			})
		},
	})
}

func (a *app) hardwareColumns() []table.Column[apiclient.NodeHardwareView] {
	type view = apiclient.NodeHardwareView
	return []table.Column[view]{
		{Title: "SYSTEM UUID", Text: func(v view) string { return text(v.Known.Uuid) }},
		{Title: "SYSTEM SERIAL", Text: func(v view) string { return text(v.Known.SystemSerial) }},
		{Title: "BOARD SERIAL", Text: func(v view) string { return text(v.Known.BoardSerial) }},
		{Title: "CHASSIS SERIAL", Text: func(v view) string { return text(v.Known.ChassisSerial) }},
		{Title: "MAC ADDRESSES", Text: func(v view) string { return strings.Join(v.Known.Macs, ", ") }},
		{Title: "KNOWN FROM", Text: func(v view) string { return text((*string)(v.Origin)) }},
		{Title: "SAID BY AGENT", Text: func(v view) string { return yesNo(v.Said) }},
		{Title: "ADDRESSES", Text: func(v view) string { return strings.Join(v.Addresses, ", ") }},
		{Title: "ADDRESS REQUIRED", Text: func(v view) string { return yesNo(v.AddressRequired) }},
		{Title: "ENROLLED FROM", Text: func(v view) string { return text(v.EnrolledFrom) }},
		{Title: "REFUSED", Text: func(v view) string { return text(v.RefusedWhy) }},
		ago(a, "REFUSED AT", func(v view) *time.Time { return v.RefusedAt }),
		{Title: "REFUSED SAYS", Text: func(v view) string { return hardwareLine(v.Refused) }},
		{Title: "IDENTITY VOID", Text: func(v view) string { return text(v.IdentityVoid) }},
	}
}

// hardwareLine is everything that a machine said of itself, on one line: an operator
// who accepts it accepts all of it.
func hardwareLine(h *apiclient.NodeHardwareFacts) string {
	if h == nil {
		return ""
	}
	var parts []string
	for _, f := range [][2]string{
		{"system UUID", text(h.Uuid)},
		{"system serial", text(h.SystemSerial)},
		{"board serial", text(h.BoardSerial)},
		{"chassis serial", text(h.ChassisSerial)},
		{"MAC addresses", strings.Join(h.Macs, " ")},
	} {
		if f[1] != "" {
			parts = append(parts, f[0]+" "+f[1])
		}
	}
	return strings.Join(parts, ", ")
}
