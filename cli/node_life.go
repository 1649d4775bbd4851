package cli

import (
	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

// lifeStep is a step of the life of a node, as a command.
type lifeStep struct {
	word, mode, short, long, operation string
	call                               func(s *session, node types.UUID, body apiclient.DecommissionReasonBody) (
		apiclient.Answer, error)
}

const untilItEnds = "Repeating the command joins the job in progress; a parked one continues."

func lifeSteps() []lifeStep {
	type body = apiclient.DecommissionReasonBody
	return []lifeStep{
		{
			"drain", "drain", "Take a node out of service; nothing is cleaned",
			"Sessions and accounts of tenants end, and the node is retired. Disks and GPUs keep what is on them.\n" +
				untilItEnds, "drain-node",
			func(s *session, node types.UUID, b body) (apiclient.Answer, error) {
				return s.API.DrainNodeWithResponse(s.Ctx, node, &apiclient.DrainNodeParams{}, b)
			},
		},
		{
			"retire", "retire", "Take a node out of service, cleaned; DESTROYS what tenants left on it",
			"The node is retired and proven clean, with a certificate.\n" + untilItEnds, "retire-node",
			func(s *session, node types.UUID, b body) (apiclient.Answer, error) {
				return s.API.RetireNodeWithResponse(s.Ctx, node, &apiclient.RetireNodeParams{}, b)
			},
		},
		{
			"reactivate", "reactivate", "Return a retired node to service",
			"It becomes schedulable once it is validated. One that is not proven clean is cleaned before,\nwhich DESTROYS " +
				"what tenants left on it: gpuaas decommission plan NODE --mode reactivate\n" + untilItEnds, "reactivate-node",
			func(s *session, node types.UUID, b body) (apiclient.Answer, error) {
				return s.API.ReactivateNodeWithResponse(s.Ctx, node, &apiclient.ReactivateNodeParams{}, b)
			},
		},
		{
			"remove", "remove", "Remove a retired node from the inventory for good",
			"The agent is uninstalled; the machine is not touched otherwise. A machine of MAAS that is to be released is\n" +
				"fully decommissioned instead: gpuaas decommission start NODE --mode full_decommission\n" + untilItEnds,
			"remove-node",
			func(s *session, node types.UUID, b body) (apiclient.Answer, error) {
				return s.API.RemoveNodeWithResponse(s.Ctx, node, &apiclient.RemoveNodeParams{}, b)
			},
		},
	}
}

// nodeLifeCommands are what takes nodes out of service and brings them back.
func (a *app) nodeLifeCommands() []*cobra.Command {
	commands := []*cobra.Command{
		a.turnOverCommand(lifeStep{
			word: "reset", mode: "soft_reset",
			short: "Clean a node for the next tenant; DESTROYS what the last one left on it",
		}),
		a.turnOverCommand(lifeStep{
			word: "reimage", mode: "reimage",
			short: "Reinstall a node under the same id; DESTROYS what is on it",
		}),
		a.nodeStorageCleanupCommand(),
	}
	for _, step := range lifeSteps() {
		commands = append(commands, a.lifeCommand(step))
	}
	return commands
}

func (a *app) lifeCommand(step lifeStep) *cobra.Command {
	return a.verb(verb{
		use: step.word + " NODE", short: step.short, long: step.long, args: frame.Exactly("NODE"),
		operations: watchingDecommissions(step.operation),
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log and the history of the node")
			c := &cleaning{}
			c.addEndFlag(cmd)
			yes := frame.AddYesFlag(cmd)
			w := addWatchingFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				return s.begin(c.warning(step.mode), args[0], *yes, w, func(node types.UUID) (apiclient.Answer, error) {
					return step.call(s, node, apiclient.DecommissionReasonBody{
						Reason: *reason, EndAllocation: frame.Given(s.Session, endAllocation, &c.endAllocation),
						UnderMaintenance: frame.Given(s.Session, underMaintenance, &c.underMaintenance),
					})
				})
			}
		},
	})
}

// turnOverCommand is a mode of decommissions as a step of the life of a node.
func (a *app) turnOverCommand(step lifeStep) *cobra.Command {
	return a.verb(verb{
		use: step.word + " NODE", short: step.short, args: frame.Exactly("NODE"),
		operations: watchingDecommissions("decommission-node"),
		long: "The same as gpuaas decommission start NODE --mode " + step.mode + ".\n" +
			"What would be destroyed: gpuaas decommission plan NODE --mode " + step.mode,
		flags: func(cmd *cobra.Command) action {
			c := &cleaning{}
			if step.mode == "reimage" {
				cmd.Flags().StringVar(&c.erase, "erase", "",
					"what the release in MAAS does to disks: none, quick or secure (default quick)")
				frame.Complete(cmd, "erase", apiclient.Words("DecommissionNewBody.erase")...)
				c.addProfileFlag(cmd)
				c.addAcceptFlags(cmd)
				c.addWithoutAgentFlag(cmd)
			}
			c.addRiskFlag(cmd)
			c.addEndFlag(cmd)
			cmd.Flags().StringVar(&c.storage, "storage-cleanup", "",
				"what the agent cleans: none, local, weka or all; local DESTROYS what is on the data disks (default local)")
			frame.Complete(cmd, "storage-cleanup", apiclient.Words("DecommissionNewBody.storage_cleanup")...)
			reason := cmd.Flags().String("reason", "",
				"the reason, kept in the audit log, the history of the node and the certificate")
			hash := cmd.Flags().String("plan-hash", "", "carry out this plan and no other")
			yes := frame.AddYesFlag(cmd)
			w := addWatchingFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				return s.begin(c.warning(step.mode), args[0], *yes, w, func(node types.UUID) (apiclient.Answer, error) {
					return s.decommission(node, step.mode, c, *reason, frame.Given(s.Session, "plan-hash", hash))
				})
			}
		},
	})
}

func (a *app) nodeStorageCleanupCommand() *cobra.Command {
	return a.verb(verb{
		use: "storage-cleanup NODE", short: "Clean the storage of a node; DESTROYS what is on it",
		args:       frame.Exactly("NODE"),
		operations: watchingDecommissions("clean-node-storage"),
		long: "local DESTROYS what is in temporary and scratch folders and on the data disks, weka unmounts file systems of\n" +
			"Weka and removes its client's containers with their state and cache, all does both. The node is held meanwhile, and validated afterwards.",
		flags: func(cmd *cobra.Command) action {
			c := &cleaning{}
			c.addEndFlag(cmd)
			scope := cmd.Flags().String("scope", "", "local, weka or all")
			frame.Complete(cmd, "scope", apiclient.Words("DecommissionCleanupBody.scope")...)
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log and the history of the node")
			hash := cmd.Flags().String("plan-hash", "", "carry out this plan and no other")
			yes := frame.AddYesFlag(cmd)
			w := addWatchingFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("scope", "reason"); err != nil {
					return err
				}
				return s.begin(c.warning("storage_cleanup"), args[0], *yes, w, func(node types.UUID) (apiclient.Answer, error) {
					return s.API.CleanNodeStorageWithResponse(s.Ctx, node, &apiclient.CleanNodeStorageParams{},
						apiclient.DecommissionCleanupBody{
							Scope: apiclient.DecommissionCleanupBodyScope(*scope), Reason: *reason,
							PlanHash:         frame.Given(s.Session, "plan-hash", hash),
							EndAllocation:    frame.Given(s.Session, endAllocation, &c.endAllocation),
							UnderMaintenance: frame.Given(s.Session, underMaintenance, &c.underMaintenance),
						})
				})
			}
		},
	})
}
