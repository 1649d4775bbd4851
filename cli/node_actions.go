package cli

import (
	"fmt"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

func (a *app) nodeQuarantineCommand() *cobra.Command {
	return a.nodeActionCommand(verb{
		use: "quarantine NODE", short: "Block a node from scheduling, whatever its agent says",
		operations: []string{"quarantine-node"},
		long: "Nothing on the node is changed, and its agent goes on polling. It comes back with: gpuaas node return NODE\n" +
			"To keep an active node out of scheduling for a while, gpuaas node hold is enough.",
		example: "  gpuaas node quarantine c07u31 --reason 'flaky NVLink, vendor is asked'",
	}, func(s *session, node types.UUID, reason string) (apiclient.Answer, error) {
		return s.API.QuarantineNodeWithResponse(s.Ctx, node, &apiclient.QuarantineNodeParams{},
			apiclient.NodeActionBody{Reason: reason})
	})
}

func (a *app) nodeReturnCommand() *cobra.Command {
	return a.nodeActionCommand(verb{
		use: "return NODE", short: "Return a quarantined node to service", operations: []string{"return-node-to-service"},
		long:    "A node that a tenant had access to must be proven clean first: gpuaas node reset NODE",
		example: "  gpuaas node return c07u31 --reason 'NVLink replaced'",
	}, func(s *session, node types.UUID, reason string) (apiclient.Answer, error) {
		return s.API.ReturnNodeToServiceWithResponse(s.Ctx, node, &apiclient.ReturnNodeToServiceParams{},
			apiclient.NodeActionBody{Reason: reason})
	})
}

// nodeActionCommand is a command that does something to a node at once, for a
// reason.
func (a *app) nodeActionCommand(v verb, do func(s *session, node types.UUID, reason string) (
	apiclient.Answer, error),
) *cobra.Command {
	v.args = frame.Exactly("NODE")
	v.flags = func(cmd *cobra.Command) action {
		reason := cmd.Flags().String("reason", "", "why; it is part of the history of the node")
		return nodeVerb(func(s *session, node types.UUID) error {
			if err := s.Require("reason"); err != nil {
				return err
			}
			return frame.Show(s.Session, a.nodeColumns())(do(s, node, *reason))
		})
	}
	return a.verb(v)
}

func (a *app) nodeTaintCommand() *cobra.Command {
	causes := apiclient.Words("NodeTaintBody.cause")
	return a.verb(verb{
		use: "taint NODE", short: "Record that somebody had root on a node", args: frame.Exactly("NODE"),
		operations: []string{"taint-node"},
		long: "For ways in that the control plane did not open. The node counts as unclean from now on, and nothing less " +
			"than an\n" +
			"installation made after this clears it: gpuaas node reimage NODE. It stays in service until then.",
		example: "  gpuaas node taint c07u31 --cause physical_console --reason 'a technician was at the console'",
		flags: func(cmd *cobra.Command) action {
			cause := cmd.Flags().String("cause", "", "how they had root: "+strings.Join(causes, ", "))
			frame.Complete(cmd, "cause", causes...)
			reason := cmd.Flags().String("reason", "", "what is known about it; it is part of the history of the node")
			return nodeVerb(func(s *session, node types.UUID) error {
				if err := s.Require("cause", "reason"); err != nil {
					return err
				}
				return frame.Show(s.Session, a.nodeColumns())(
					s.API.TaintNodeWithResponse(s.Ctx, node, &apiclient.TaintNodeParams{}, apiclient.NodeTaintBody{
						Cause: apiclient.NodeTaintBodyCause(*cause), Reason: *reason,
					}))
			})
		},
	})
}

// somebodyHad is the most that somebody had on a node since it was proven clean,
// and what that means.
func (a *app) somebodyHad(v apiclient.NodeView) string {
	r := v.Root
	switch {
	case r != nil && r.AcceptedAt != nil:
		return fmt.Sprintf("root (%s) %s, on this installation; the risk was accepted", r.Cause, a.When(r.At))
	case r != nil && r.Compromised && v.OnboardingMode == apiclient.NodeViewOnboardingModeManual:
		return fmt.Sprintf("root (%s) %s, on this installation: no MAAS can reinstall it; remove it, or accept the risk with gpuaas node reset --residual-risk",
			r.Cause, a.When(r.At))
	case r != nil && r.Compromised:
		return fmt.Sprintf("root (%s) %s, on this installation: only a reimage clears it", r.Cause, a.When(r.At))
	case r != nil:
		return fmt.Sprintf("root (%s) %s, before it was reinstalled", r.Cause, a.When(r.At))
	case v.TaintKind != nil:
		return string(*v.TaintKind)
	}
	return ""
}

// provenClean is when a validation last found nothing, and nothing where that
// proves too little: a risk was accepted instead.
func (a *app) provenClean(v apiclient.NodeView) string {
	if v.Root != nil && v.Root.AcceptedAt != nil {
		return ""
	}
	return a.Whenever(v.CleanAt)
}

// riskAccepted is who accepted what somebody with root may have left.
func (a *app) riskAccepted(v apiclient.NodeView) string {
	r := v.Root
	if r == nil || r.AcceptedAt == nil {
		return ""
	}
	by := text(r.AcceptedBy)
	if by == "" {
		by = "somebody (see gpuaas node history)"
	}
	return fmt.Sprintf("%s by %s: %s", a.When(*r.AcceptedAt), by, text(r.ResidualRisk))
}
