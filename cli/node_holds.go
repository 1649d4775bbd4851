package cli

import (
	"fmt"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

func (a *app) nodeHoldCommand() *cobra.Command {
	return a.nodeActionCommand(verb{
		use: "hold NODE", short: "Keep new work off a node", operations: []string{"add-node-hold"},
		long: "Everyone who can see the node sees the reason. Other holds stay, and each ends separately:\n" +
			"a node takes new work again when its last hold is lifted.",
		example: "  gpuaas node hold c07u31 --reason 'two fans are to be replaced'",
	}, func(s *session, node types.UUID, reason string) (apiclient.Answer, error) {
		return s.API.AddNodeHoldWithResponse(s.Ctx, node, &apiclient.AddNodeHoldParams{},
			apiclient.NodeActionBody{Reason: reason})
	})
}

func (a *app) nodeUnholdCommand() *cobra.Command {
	return a.verb(verb{
		use: "unhold NODE", short: "Lift a hold on a node", args: frame.Exactly("NODE"),
		operations: []string{"get-node", "update-node", "lift-node-hold"},
		long: "Without --hold the only hold of an active node is lifted. Where several hold it, say which one: those of others stay.\n" +
			"See them with: gpuaas node show NODE",
		example: "  gpuaas node unhold c07u31\n  gpuaas node unhold c07u31 --hold complaint --reason 'GPU 3 was replaced'",
		flags: func(cmd *cobra.Command) action {
			which := cmd.Flags().String("hold", "", "which hold: its id, or its kind where there is one of that kind: "+
				strings.Join(apiclient.Words("NodeHoldView.kind"), ", "))
			frame.Complete(cmd, "hold", apiclient.Words("NodeHoldView.kind")...)
			reason := cmd.Flags().String("reason", "", "why; with --hold it is part of the history of the node")
			return func(s *session, args []string) error {
				if *which == "" {
					return a.updateNode(s, args[0], apiclient.NodeChangeBody{Schedulable: frame.Ptr(true)})
				}
				if err := s.Require("reason"); err != nil {
					return err
				}
				id, err := s.nodeID(args[0])
				if err != nil {
					return err
				}
				now, err := frame.Fetch[apiclient.NodeDetailView](s.API.GetNodeWithResponse(s.Ctx, id))
				if err != nil {
					return err
				}
				hold, err := s.holdOf(now.Hostname, holdsOf(now.Holds), *which)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.nodeColumns())(s.API.LiftNodeHoldWithResponse(s.Ctx, id, hold,
					&apiclient.LiftNodeHoldParams{}, apiclient.NodeActionBody{Reason: *reason}))
			}
		},
	})
}

func holdsOf(holds *[]apiclient.NodeHoldView) []apiclient.NodeHoldView {
	if holds == nil {
		return nil
	}
	return *holds
}

// holdOf finds the hold that somebody named by its id or its kind.
func (s *session) holdOf(hostname string, holds []apiclient.NodeHoldView, which string) (types.UUID, error) {
	if id, ok := frame.ParseID(which); ok {
		return id, nil
	}
	var found []types.UUID
	for _, h := range holds {
		if string(h.Kind) == which {
			found = append(found, h.HoldId)
		}
	}
	if len(found) != 1 {
		return types.UUID{}, failure.Misuse(s.Cmd, "node %s has %d holds of kind %q: name one by its id, which gpuaas node show %s tells",
			hostname, len(found), which, hostname)
	}
	return found[0], nil
}

// heldBecause is what holds a node, one hold after the other.
func (a *app) heldBecause(v apiclient.NodeView) string {
	holds := holdsOf(v.Holds)
	if len(holds) == 0 {
		return v.HoldReason
	}
	all := make([]string, len(holds))
	for i, h := range holds {
		by := h.ByName
		if by == "" {
			by = h.By
		}
		all[i] = fmt.Sprintf("%s: %s (since %s%s, hold %s)", h.Kind, h.Reason, a.Whenever(h.Since), prefixed(" by ", by),
			h.HoldId)
	}
	return strings.Join(all, "; ")
}
