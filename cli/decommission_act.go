package cli

import (
	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

func decommissionRecoveries() []recovery {
	type reason = apiclient.DecommissionActionBody
	return []recovery{
		{
			"retry", "Run the failed stage again, and nothing else",
			"A task that still runs on the node is waited for, and not given twice.", "retry-decommission", apiclient.JobManyBodyActionRetryStage,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.RetryDecommissionWithResponse(s.Ctx, id, &apiclient.RetryDecommissionParams{}, reason{Reason: why})
			},
		},
		{
			"resume", "Continue from the last safe stage",
			"Best after something outside was put right.", "resume-decommission", apiclient.JobManyBodyActionResume,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.ResumeDecommissionWithResponse(s.Ctx, id, &apiclient.ResumeDecommissionParams{}, reason{Reason: why})
			},
		},
		{
			"rerun", "Run all stages again",
			"Everything is cleaned and looked at once more.", "rerun-decommission", apiclient.JobManyBodyActionRerun,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.RerunDecommissionWithResponse(s.Ctx, id, &apiclient.RerunDecommissionParams{}, reason{Reason: why})
			},
		},
		{
			"restart-clean", "Release the node, then start over",
			"Not possible once the machine was released.", "restart-decommission-clean", apiclient.JobManyBodyActionRestartClean,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.RestartDecommissionCleanWithResponse(s.Ctx, id, &apiclient.RestartDecommissionCleanParams{},
					reason{Reason: why})
			},
		},
		{
			"cancel", "Stop and release the node",
			"The node returns to what it was where nothing was destroyed; one that is not proven clean stays held.",
			"cancel-decommission", apiclient.JobManyBodyActionCancel,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.CancelDecommissionWithResponse(s.Ctx, id, &apiclient.CancelDecommissionParams{}, reason{Reason: why})
			},
		},
		{
			"adopt", "Accept what MAAS and the inventory show now, and go on from there",
			"For a machine that was released by hand.", "adopt-decommission", apiclient.JobManyBodyActionAdoptObservedState,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.AdoptDecommissionWithResponse(s.Ctx, id, &apiclient.AdoptDecommissionParams{}, reason{Reason: why})
			},
		},
		{
			"mark-manual-intervention", "Stop automation until somebody decides",
			"", "mark-decommission-manual", apiclient.JobManyBodyActionMarkManualInterventionRequired,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.MarkDecommissionManualWithResponse(s.Ctx, id, &apiclient.MarkDecommissionManualParams{},
					reason{Reason: why})
			},
		},
	}
}

func (a *app) decommissionOverrideCommand() *cobra.Command {
	return a.verb(verb{
		use: "override DECOMMISSION", short: "Continue without the stage that failed", args: frame.Exactly("DECOMMISSION"),
		operations: []string{"override-decommission"},
		long: "For problems that cannot be fixed, such as a machine that will never answer again. The certificate states who decided\n" +
			"it, why, and the remaining risk. You cannot skip the stages that prove a node clean, so an override never returns\n" +
			"a node to service.",
		example: "  gpuaas decommission override c07u31 --stage drain_node --residual-risk 'disks hold data of the last " +
			"tenant; shredded' --reason 'mainboard is dead'",
		flags: func(cmd *cobra.Command) action {
			stages := cmd.Flags().StringSlice("stage", nil, "the stage that failed; may be repeated for later ones that fail for the same reason")
			risk := cmd.Flags().String("residual-risk", "", "what may be left behind; the certificate states it")
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log, the ledger and the certificate")
			return a.decommissionNoun().about(func(s *session, id types.UUID) error {
				if err := s.Require("stage", "residual-risk", "reason"); err != nil {
					return err
				}
				body := apiclient.DecommissionOverrideBody{Stage: (*stages)[0], ResidualRisk: *risk, Reason: *reason}
				if also := (*stages)[1:]; len(also) > 0 {
					body.Also = &also
				}
				return inCommandWords(frame.Show(s.Session, a.decommissionColumns())(
					s.API.OverrideDecommissionWithResponse(s.Ctx, id, &apiclient.OverrideDecommissionParams{},
						body)))
			})
		},
	})
}
