package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) agentCommand() *cobra.Command {
	return a.noun(noun{
		use: "agent", short: "The agents of the fleet: their releases, channels and rollouts", group: groupMachines,
		long: "Which agent one node has: gpuaas node agent NODE.",
	}, a.agentReleaseCommand(), a.agentRolloutCommand(), a.agentChannelCommand(), a.agentVersionsCommand())
}

func (a *app) agentVersionsCommand() *cobra.Command {
	type group = apiclient.FleetviewAgentGroup
	columns := []table.Column[group]{
		{Title: "VERSION", Text: func(v group) string { return v.Version }},
		{Title: "CHANNEL", Text: func(v group) string { return string(v.Channel) }},
		{Title: "AGENT DRIFT", Text: func(v group) string { return badge(apiclient.NodeAgentViewBadge(v.Badge)) }},
		{Title: "NODES", Text: func(v group) string { return strconv.FormatInt(v.Nodes, 10) }},
	}
	return a.verb(verb{
		use: "versions", short: "Count the nodes by the version of their agents", operations: []string{"get-fleet-agents"},
		long: "Nodes in service by version, channel and drift. Which ones they are: gpuaas node list --agent-version VERSION.",
		flags: func(cmd *cobra.Command) action {
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				return listing.Print(s.Session, f, listing.Listing[apiclient.FleetviewAgentGroup]{
					Columns: columns,
					Fetch:   func(listing.Page) (apiclient.Answer, error) { return s.API.GetFleetAgentsWithResponse(s.Ctx) },
				})
			}
		},
	})
}

func (a *app) agentReleaseColumns() []table.Column[apiclient.AgentreleaseView] {
	type release = apiclient.AgentreleaseView
	return []table.Column[release]{
		{Title: "VERSION", Text: func(v release) string { return v.Version }},
		{Title: "STATUS", Text: func(v release) string { return string(v.Status) }},
		{Title: "CHANNELS", Text: func(v release) string { return strings.Join(v.Channels, ", ") }},
		{Title: "NODES", Text: func(v release) string { return strconv.FormatInt(v.Nodes, 10) }},
		{Title: "FOR", Text: func(v release) string { return string(v.Architecture) }},
		{Title: "COMMIT", Text: func(v release) string { return v.Commit }},
		ago(a, "UPLOADED", func(v release) time.Time { return v.CreatedAt }),
		{Title: "BECAUSE", Text: func(v release) string { return v.Because }},
		{Title: "BY", Text: func(v release) string { return v.AddedBy }, Detail: true},
		{Title: "KEY", Text: func(v release) string { return v.KeyId }, Detail: true},
		{Title: "SHA256", Text: func(v release) string { return v.Digest }, Detail: true},
		{Title: "BYTES", Text: func(v release) string { return strconv.FormatInt(v.Size, 10) }, Detail: true},
		{Title: "NEEDS CONTROL PLANE", Text: func(v release) string { return v.MinimumControlPlane }, Detail: true},
		{Title: "PROTOCOLS", Text: func(v release) string {
			return strconv.Itoa(int(v.ProtocolMin)) + " to " + strconv.Itoa(int(v.ProtocolMax))
		}, Detail: true},
		{Title: "NOTES", Text: func(v release) string { return v.Notes }, Detail: true},
	}
}

func (a *app) agentReleaseCommand() *cobra.Command {
	return a.noun(noun{
		use: "release", short: "Versions of the agent that nodes can be given",
		long: "A release is an archive and a statement that a release key has signed. Whoever builds releases holds that key;\n" +
			"the control plane knows its public half (nodes.release_keys). A version is given once.",
	},
		a.agentReleaseKeyCommand(), a.agentReleaseBuildCommand(), a.agentReleaseUploadCommand(),
		a.verb(verb{
			use: "list", short: "List the releases", aliases: []string{"ls"}, operations: []string{"list-agent-releases"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.AgentreleaseView]{
						Columns: a.agentReleaseColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListAgentReleasesWithResponse(s.Ctx,
								&apiclient.ListAgentReleasesParams{Cursor: p.Cursor, PageSize: p.Size})
						},
					})
				}
			},
		}),
		a.verb(verb{
			use: "show VERSION", short: "Show a release", args: frame.Exactly("VERSION"),
			operations: []string{"get-agent-release"},
			run: func(s *session, args []string) error {
				return frame.Show(s.Session, a.agentReleaseColumns())(s.API.GetAgentReleaseWithResponse(s.Ctx, args[0]))
			},
		}),
		a.withReason(verb{
			use: "promote VERSION CHANNEL", short: "Set the release of a channel", args: frame.Exactly("VERSION", "CHANNEL"),
			operations: []string{"promote-agent-release"},
			long: "Nodes of the channel that run another version are shown as outdated from now on. Nothing is installed by this.\n" +
				"The channels are stable and candidate.",
			example: "  gpuaas agent release promote 1.4.0 candidate --reason \"first nodes\"",
		}, func(s *session, args []string, reason string) error {
			return frame.Show(s.Session, a.agentChannelColumns())(s.API.PromoteAgentReleaseWithResponse(s.Ctx,
				apiclient.PromoteAgentReleaseParamsChannel(args[1]), &apiclient.PromoteAgentReleaseParams{},
				apiclient.AgentreleasePromoteBody{Version: args[0], Reason: reason}))
		}),
		a.withReason(verb{
			use: "withdraw VERSION", short: "Withdraw a release permanently", args: frame.Exactly("VERSION"),
			operations: []string{"withdraw-agent-release"},
			long:       "A channel that wants it goes back to what it wanted before. Nodes that run it are left as they are.",
		}, func(s *session, args []string, reason string) error {
			return frame.Show(s.Session, a.agentReleaseColumns())(s.API.WithdrawAgentReleaseWithResponse(s.Ctx, args[0],
				&apiclient.WithdrawAgentReleaseParams{}, apiclient.AgentreleaseReasonBody{Reason: reason}))
		}),
		a.withReason(verb{
			use: "block VERSION", short: "Block a version on all nodes, released or not", args: frame.Exactly("VERSION"),
			operations: []string{"block-agent-version"},
		}, func(s *session, args []string, reason string) error {
			return frame.Show(s.Session, a.agentBlockColumns())(s.API.BlockAgentVersionWithResponse(s.Ctx,
				&apiclient.BlockAgentVersionParams{}, apiclient.AgentreleaseVersionBody{Version: args[0], Reason: reason}))
		}),
		a.withReason(verb{
			use: "unblock VERSION", short: "Let nodes have a version again", args: frame.Exactly("VERSION"),
			operations: []string{"unblock-agent-version"},
		}, func(s *session, args []string, reason string) error {
			return frame.Done(s.Session, "version %s is not blocked any more", args[0])(s.API.UnblockAgentVersionWithResponse(
				s.Ctx, &apiclient.UnblockAgentVersionParams{}, apiclient.AgentreleaseVersionBody{Version: args[0], Reason: reason}))
		}),
		a.agentFloorCommand(), a.agentRefusedCommand(),
	)
}

// withReason is a verb that does nothing without a reason.
func (a *app) withReason(v verb, run func(s *session, args []string, reason string) error) *cobra.Command {
	v.flags = func(cmd *cobra.Command) action {
		reason := cmd.Flags().String("reason", "", "why; the audit log keeps it")
		return func(s *session, args []string) error {
			if err := s.Require("reason"); err != nil {
				return err
			}
			return run(s, args, *reason)
		}
	}
	return a.verb(v)
}

func (a *app) agentFloorCommand() *cobra.Command {
	return a.withReason(verb{
		use: "floor VERSION", short: "Set the oldest version that nodes may get",
		args: frame.Exactly("VERSION"), operations: []string{"set-agent-floor"},
		long: "VERSION is none to have no floor. With a floor, versions that have no order, such as those of a working copy,\n" +
			"are given to no node either.",
	}, func(s *session, args []string, reason string) error {
		version := args[0]
		if version == "none" {
			version = ""
		}
		type floor = apiclient.AgentreleaseFloorView
		return frame.Show(s.Session, []table.Column[floor]{
			{Title: "FLOOR", Text: func(v floor) string { return v.Version }},
			{Title: "REASON", Text: func(v floor) string { return v.Reason }},
			ago(a, "CHANGED", func(v floor) time.Time { return v.ChangedAt }),
			{Title: "BY", Text: func(v floor) string { return v.ChangedBy }},
		})(s.API.SetAgentFloorWithResponse(s.Ctx, &apiclient.SetAgentFloorParams{},
			apiclient.AgentreleaseFloorBody{Version: version, Reason: reason}))
	})
}

func (a *app) agentBlockColumns() []table.Column[apiclient.AgentreleaseBlockView] {
	type block = apiclient.AgentreleaseBlockView
	return []table.Column[block]{
		{Title: "BLOCKED", Text: func(v block) string { return v.Version }},
		{Title: "REASON", Text: func(v block) string { return v.Reason }},
		ago(a, "SINCE", func(v block) time.Time { return v.BlockedAt }),
		{Title: "BY", Text: func(v block) string { return v.BlockedBy }},
	}
}

func (a *app) agentRefusedCommand() *cobra.Command {
	type refused = apiclient.AgentreleaseRefusedView
	return a.verb(verb{
		use: "refused", short: "Show which versions no node is given", operations: []string{"get-refused-agent-versions"},
		run: func(s *session, _ []string) error {
			return frame.Show(s.Session, []table.Column[refused]{
				{Title: "FLOOR", Text: func(v refused) string { return v.Floor.Version }},
				{Title: "BLOCKED", Text: func(v refused) string {
					lines := make([]string, len(v.Blocked))
					for i, b := range v.Blocked {
						lines[i] = b.Version + " (" + b.Reason + ")"
					}
					return strings.Join(lines, ", ")
				}},
			})(s.API.GetRefusedAgentVersionsWithResponse(s.Ctx))
		},
	})
}

func (a *app) agentChannelColumns() []table.Column[apiclient.AgentreleaseChannelView] {
	type channel = apiclient.AgentreleaseChannelView
	return []table.Column[channel]{
		{Title: "CHANNEL", Text: func(v channel) string { return string(v.Channel) }},
		{Title: "VERSION", Text: func(v channel) string { return v.Version }},
		{Title: "BEFORE", Text: func(v channel) string { return v.Previous }},
		ago(a, "CHANGED", func(v channel) time.Time { return v.ChangedAt }),
		{Title: "BY", Wide: true, Text: func(v channel) string { return v.ChangedBy }},
		{Title: "REASON", Long: true, Text: func(v channel) string { return v.Reason }},
	}
}

func (a *app) agentChannelCommand() *cobra.Command {
	return a.verb(verb{
		use: "channels", short: "Show which release each channel wants", operations: []string{"list-agent-channels"},
		long: "A node follows the channel that it is assigned to: gpuaas node update NODE --agent-channel stable. One that is\n" +
			"unassigned or pinned follows none.",
		flags: func(cmd *cobra.Command) action {
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				return listing.Print(s.Session, f, listing.Listing[apiclient.AgentreleaseChannelView]{
					Columns: a.agentChannelColumns(),
					Fetch: func(listing.Page) (apiclient.Answer, error) {
						return s.API.ListAgentChannelsWithResponse(s.Ctx)
					},
				})
			}
		},
	})
}
