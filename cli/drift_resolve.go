package cli

import (
	"encoding/json"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/contract/apiclient"
)

// resolutions are what an operator can decide, as commands and as the contract call it.
var resolutions = map[string]apiclient.ReconciliationResolveBodyResolution{
	"acknowledge": "acknowledge", "adopt": "adopt_observed", "quarantine": "quarantine",
	"return-to-service": "return_to_service", "reimage": "reimage",
}

func resolutionWords() []string {
	return []string{"acknowledge", "adopt", "quarantine", "return-to-service", "reimage"}
}

// resolved is what it means that a resolution was carried out.
var resolved = map[apiclient.ReconciliationResolveBodyResolution]string{
	"acknowledge":       "the findings of %s are acknowledged; they stay until they end",
	"adopt_observed":    "the observed state of %s was adopted",
	"quarantine":        "%s is quarantined: no new work is placed on it, and what runs there is not touched",
	"return_to_service": "%s is back in service: MAAS and its agent show it healthy",
	"reimage":           "%s is being reinstalled",
}

func (a *app) driftResolveCommand() *cobra.Command {
	cmd := a.verb(verb{
		use: "resolve NODE RESOLUTION", short: "Settle what is wrong with a node",
		args:       frame.Exactly("NODE", "RESOLUTION"),
		operations: []string{"resolve-node-drift", "get-reconciliation-run"},
		long: "RESOLUTION is one of:\n" +
			"  acknowledge        it is known; nothing changes, and it stays until it ends\n" +
			"  adopt              the observed state is right: the inventory follows, after a check that it is this node\n" +
			"  quarantine         nothing new is placed on the node; what runs there is not touched\n" +
			"  return-to-service  end the quarantine, after a check that the node is healthy\n" +
			"  reimage            release the machine and reinstall it; DESTROYS what is on it\n" +
			"It returns when that is done, with exit code 8 when it was refused; gpuaas drift show NODE says what is possible.",
		example: "  gpuaas drift resolve c07u43 return-to-service --reason 'board was replaced'",
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log and the history of the node")
			yes := frame.AddYesFlag(cmd)
			w := addRunWaitFlags(cmd)
			return func(s *session, args []string) error {
				resolution, known := resolutions[args[1]]
				if !known {
					return failure.Misuse(s.Cmd, "there is no resolution %q; use one of: %s", args[1],
						strings.Join(resolutionWords(), ", "))
				}
				if err := s.Require("reason"); err != nil {
					return err
				}
				node, err := s.nodeID(args[0])
				if err != nil {
					return err
				}
				if resolution == "reimage" {
					if err := s.Confirm(*yes, warnings["reimage"], args[0]); err != nil {
						return err
					}
				}
				return s.resolveDrift(w, args[0], node, apiclient.ReconciliationResolveBody{
					Resolution: resolution,
					Reason:     *reason,
				})
			}
		},
	})
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return resolutionWords(), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func (s *session) resolveDrift(w *runWaiting, name string, node types.UUID,
	body apiclient.ReconciliationResolveBody,
) error {
	run, err := s.awaitRun(w, func() (json.RawMessage, error) {
		return apiclient.Read(s.API.ResolveNodeDriftWithResponse(s.Ctx, node, &apiclient.ResolveNodeDriftParams{}, body))
	})
	if err != nil {
		return err
	}
	if format, err := s.Format(); err != nil {
		return err
	} else if format != output.Table {
		if err := output.Print(s.Program.Out, format, run.Raw); err != nil {
			return err
		}
	}
	if run.Value.EndedAt == nil {
		return nil
	}
	if err := unsuccessful(run.Value); err != nil {
		return err
	}
	s.Note(resolved[body.Resolution], name)
	if body.Resolution == "reimage" {
		s.Note("follow it with: gpuaas decommission watch %s", name)
	}
	return nil
}
