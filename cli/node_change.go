package cli

import (
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/contract/apiclient"
)

func (a *app) nodeAddCommand() *cobra.Command {
	return a.verb(verb{
		use: "add HOSTNAME", short: "Add a machine by hand, and print the command that makes it part of the fleet",
		args:       frame.Exactly("HOSTNAME"),
		operations: []string{"create-node"},
		long: "The command is shown this once and works once, for a quarter of an hour: run it on the machine as root.\n" +
			"A later one comes from: gpuaas node bootstrap. With --cloud-init it is user data for the first boot instead.",
		example: "  gpuaas node add c07u31 --sku h200-sxm-baremetal-8g --region eu-1",
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			sku := f.String("sku", "", "which kind of machine it is; see: gpuaas sku list")
			region := f.String("region", "", "the region it belongs to")
			host := f.String("host", "", "where it is reached (default its hostname)")
			port := f.Int32("port", 0, "port of its SSH server (default 22)")
			user := f.String("ssh-username", "", "account for people who reach it by SSH")
			gpus := f.Int32("gpus", 0, "number of its GPUs (default that of the SKU)")
			cloudInit := f.Bool("cloud-init", false, "print user data for the first boot instead of a command")
			group := addGroupingFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("sku", "region"); err != nil {
					return err
				}
				body := apiclient.NodeNewBody{
					Hostname: &args[0], Sku: *sku, RegionCode: *region, Host: frame.Given(s.Session, "host", host),
					Port:        frame.Given(s.Session, "port", port),
					SshUsername: frame.Given(s.Session, "ssh-username", user), GpusTotal: frame.Given(s.Session, "gpus", gpus),
				}
				body.Rack, body.Pool, body.Labels = s.grouping(group)
				if *cloudInit {
					body.BootstrapMode = frame.Ptr(apiclient.NodeNewBodyBootstrapModeCloudInit)
				}
				raw, err := apiclient.Read(s.API.CreateNodeWithResponse(s.Ctx, &apiclient.CreateNodeParams{}, body))
				if err != nil {
					return err
				}
				made, err := output.Decode[apiclient.NodeNewView](raw)
				if err != nil {
					return err
				}
				return s.showBootstrap(raw, made.Value.Bootstrap, "node "+made.Value.Node.Hostname+" is added ("+
					made.Value.Node.NodeId.String()+")")
			}
		},
	})
}

// showBootstrap prints what makes a machine part of the fleet, alone on standard output so
// that it can be piped.
func (s *session) showBootstrap(raw []byte, b apiclient.NodeBootstrapView, said string) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, raw)
	}
	s.Note("%s", said)
	if userData := text(b.UserData); userData != "" {
		s.Note("give the machine this user data for its first boot, before %s:", s.When(b.ExpiresAt))
		return output.Write(s.Program.Out, strings.TrimRight(userData, "\n")+"\n")
	}
	s.Note("run this on the machine as root, before %s:", s.When(b.ExpiresAt))
	return output.Write(s.Program.Out, text(b.Command)+"\n")
}

func (a *app) nodeBootstrapCommand() *cobra.Command {
	return a.verb(verb{
		use: "bootstrap NODE", short: "Print a new command that makes a machine part of the fleet",
		args: frame.Exactly("NODE"), operations: []string{"issue-node-bootstrap"},
		long: "Earlier commands that were not used stop working. With --recovery it gives a node that had enrolled a new\n" +
			"certificate, for one whose certificate has expired or been revoked.",
		flags: func(cmd *cobra.Command) action {
			recovery := cmd.Flags().Bool("recovery", false, "for a node that had enrolled: only a new certificate")
			cloudInit := cmd.Flags().Bool("cloud-init", false, "print user data for the first boot instead of a command")
			return func(s *session, args []string) error {
				id, err := s.nodeID(args[0])
				if err != nil {
					return err
				}
				body := apiclient.NodeBootstrapBody{}
				if *recovery {
					body.Purpose = frame.Ptr(apiclient.Recovery)
				}
				if *cloudInit {
					body.Mode = frame.Ptr(apiclient.NodeBootstrapBodyModeCloudInit)
				}
				raw, err := apiclient.Read(s.API.IssueNodeBootstrapWithResponse(s.Ctx, id, &apiclient.IssueNodeBootstrapParams{},
					body))
				if err != nil {
					return err
				}
				b, err := output.Decode[apiclient.NodeBootstrapView](raw)
				if err != nil {
					return err
				}
				return s.showBootstrap(raw, b.Value, "a new bootstrap of node "+args[0]+" is issued")
			}
		},
	})
}

func (a *app) nodeUpdateCommand() *cobra.Command {
	return a.verb(verb{
		use: "update NODE", short: "Change facts of a node", args: frame.Exactly("NODE"),
		operations: []string{"get-node", "update-node"},
		flags: func(cmd *cobra.Command) action {
			f := cmd.Flags()
			host := f.String("host", "", "where it is reached")
			port := f.Int32("port", 0, "port of its SSH server")
			user := f.String("ssh-username", "", "account for people who reach it by SSH")
			gpus := f.Int32("gpus", 0, "number of its GPUs")
			rack := f.String("rack", "", "the rack that it stands in; empty for unknown")
			pool := f.String("pool", "", "the pool it belongs to; empty for the general pool")
			channel := f.String("agent-channel", "", "which releases of the agent it follows: stable, candidate, pinned or unassigned")
			version := f.String("agent-version", "", "which agent it should run; empty for any")
			delivery := f.String("agent-delivery", "", "how a new agent version is installed: reimage, manual_install or rebootstrap")
			frame.Complete(cmd, "agent-channel", apiclient.Words("NodeChangeBody.agent_channel")...)
			frame.Complete(cmd, "agent-delivery", apiclient.Words("NodeChangeBody.desired_delivery_mode")...)
			return func(s *session, args []string) error {
				if err := s.Anything("host", "port", "ssh-username", "gpus", "rack", "pool", "agent-channel", "agent-version",
					"agent-delivery"); err != nil {
					return err
				}
				return a.updateNode(s, args[0], apiclient.NodeChangeBody{
					Host: frame.Given(s.Session, "host", host), Port: frame.Given(s.Session, "port", port),
					SshUsername: frame.Given(s.Session, "ssh-username", user), GpusTotal: frame.Given(s.Session, "gpus", gpus),
					Rack: frame.Given(s.Session, "rack", rack), Pool: frame.Given(s.Session, "pool", pool),
					AgentChannel:        frame.GivenAs[apiclient.NodeChangeBodyAgentChannel](s.Session, "agent-channel", channel),
					DesiredAgentVersion: frame.Given(s.Session, "agent-version", version),
					DesiredDeliveryMode: frame.GivenAs[apiclient.NodeChangeBodyDesiredDeliveryMode](s.Session, "agent-delivery",
						delivery),
				})
			}
		},
	})
}

func (a *app) updateNode(s *session, name string, body apiclient.NodeChangeBody) error {
	id, err := s.nodeID(name)
	if err != nil {
		return err
	}
	now, err := frame.Fetch[apiclient.NodeDetailView](s.API.GetNodeWithResponse(s.Ctx, id))
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.nodeColumns())(
		s.API.UpdateNodeWithResponse(s.Ctx, id, &apiclient.UpdateNodeParams{IfMatch: frame.ETag(now.Version)}, body))
}

func (a *app) nodeRevokeCommand() *cobra.Command {
	return a.verb(verb{
		use: "revoke-identity NODE", short: "Take all certificates of a node back at once", args: frame.Exactly("NODE"),
		operations: []string{"revoke-node-identity"},
		long:       "Its agent is refused from now on. It comes back with: gpuaas node bootstrap NODE --recovery",
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
			return nodeVerb(func(s *session, id types.UUID) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				return frame.Done(s.Session, "the certificates of node %s are revoked", id)(s.API.RevokeNodeIdentityWithResponse(
					s.Ctx, id, &apiclient.RevokeNodeIdentityParams{}, apiclient.NodeRevokeBody{Reason: *reason}))
			})
		},
	})
}
