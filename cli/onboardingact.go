package cli

import (
	"strconv"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func recoveries() []recovery {
	type reason = apiclient.OnboardingActionBody
	return []recovery{
		{
			"retry", "Run the failed stage again, and nothing else",
			"", "retry-onboarding",
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.api.RetryOnboardingWithResponse(s.ctx, id, &apiclient.RetryOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"resume", "Go on from the last safe checkpoint",
			"Best after something outside was put right.", "resume-onboarding",
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.api.ResumeOnboardingWithResponse(s.ctx, id, &apiclient.ResumeOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"rerun", "Go through all stages again; what is done already is left as it is",
			"", "rerun-onboarding",
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.api.RerunOnboardingWithResponse(s.ctx, id, &apiclient.RerunOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"restart-clean", "Undo everything, then begin again; DESTROYS what is on a deployed machine",
			"Releases the machine in MAAS, even one that is deployed: DESTROYS ALL DATA on it.", "restart-onboarding-clean",
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.api.RestartOnboardingCleanWithResponse(s.ctx, id, &apiclient.RestartOnboardingCleanParams{}, reason{Reason: why})
			},
		},
		{
			"cancel", "Stop, and undo what can be undone",
			"A machine that is not deployed yet is released; one that is deployed is left alone and its node is quarantined.", "cancel-onboarding",
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.api.CancelOnboardingWithResponse(s.ctx, id, &apiclient.CancelOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"adopt", "Accept what MAAS shows now, and go on from there",
			"For a machine that was brought further by hand, or that succeeded late.", "adopt-onboarding",
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.api.AdoptOnboardingWithResponse(s.ctx, id, &apiclient.AdoptOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"mark-manual-intervention", "Stop automation until somebody decides",
			"", "mark-onboarding-manual",
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.api.MarkOnboardingManualWithResponse(s.ctx, id, &apiclient.MarkOnboardingManualParams{}, reason{Reason: why})
			},
		},
	}
}

func (a *app) batchColumns() []column[apiclient.OnboardingBatchView] {
	type batch = apiclient.OnboardingBatchView
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []column[batch]{
		{title: "BATCH", text: func(v batch) string { return v.BatchId.String() }},
		{title: "STATE", text: func(v batch) string { return string(v.State) }},
		{title: "MACHINES", text: func(v batch) string { return count(v.Total) }},
		{title: "SUCCEEDED", text: func(v batch) string { return count(v.Succeeded) }},
		{title: "PARKED", text: func(v batch) string { return count(v.Failed) }},
		{title: "RUNNING", text: func(v batch) string { return count(v.Counts.Running + v.Counts.Compensating) }},
		{title: "PENDING", text: func(v batch) string { return count(v.Counts.Pending) }},
		{title: "CANCELLED", text: func(v batch) string { return count(v.Counts.Cancelled) }},
		{title: "REQUESTED", text: func(v batch) string { return a.when(v.RequestedAt) }},
		{title: "SITE", text: func(v batch) string { return v.SiteId.String() }, detail: true},
		{title: "SKU", text: func(v batch) string { return v.SkuId }, detail: true},
		{title: "REQUESTED BY", text: func(v batch) string { return v.RequestedBy }, detail: true},
		{title: "PAUSED", text: func(v batch) string { return a.whenever(v.PausedAt) }, detail: true},
		{title: "CANCELLED AT", text: func(v batch) string { return a.whenever(v.CancelledAt) }, detail: true},
	}
}

func (a *app) onboardingBatchCommand() *cobra.Command {
	type body = apiclient.OnboardingActionBody
	return a.noun(noun{use: "batch", short: "Servers that are onboarded together"},
		a.verb(verb{
			use: "list", short: "List batches, newest first", aliases: []string{"ls"}, operations: []string{"list-onboarding-batches"},
			flags: func(cmd *cobra.Command) action {
				f := addListFlags(cmd, 50)
				return func(s *session, _ []string) error {
					return list(s, f, listing[apiclient.OnboardingBatchView]{columns: a.batchColumns(), fetch: func(p page) (apiclient.Answer, error) {
						return s.api.ListOnboardingBatchesWithResponse(s.ctx, &apiclient.ListOnboardingBatchesParams{Cursor: p.cursor, PageSize: p.size})
					}})
				}
			},
		}),
		a.verb(verb{
			use: "show BATCH", short: "Show how many servers of a batch stand how", aliases: []string{"get"}, args: exactly("BATCH"),
			operations: []string{"get-onboarding-batch"},
			run: func(s *session, args []string) error {
				id, err := s.idOf("a batch", args[0])
				if err != nil {
					return err
				}
				if err := show(s, a.batchColumns())(s.api.GetOnboardingBatchWithResponse(s.ctx, id)); err != nil {
					return err
				}
				s.note("its machines: gpuaas onboarding list --batch %s", id)
				return nil
			},
		}),
		batchActionCommand(a, a.batchColumns(), "pause", "Begin no further server of a batch; those that run go on", "pause-onboarding-batch", func(s *session, id types.UUID, reason string) (apiclient.Answer, error) {
			return s.api.PauseOnboardingBatchWithResponse(s.ctx, id, &apiclient.PauseOnboardingBatchParams{}, body{Reason: reason})
		}),
		batchActionCommand(a, a.batchColumns(), "resume", "Go on with a batch that was paused", "resume-onboarding-batch", func(s *session, id types.UUID, reason string) (apiclient.Answer, error) {
			return s.api.ResumeOnboardingBatchWithResponse(s.ctx, id, &apiclient.ResumeOnboardingBatchParams{}, body{Reason: reason})
		}),
		batchActionCommand(a, a.batchColumns(), "cancel", "Stop all servers of a batch and undo what can be undone", "cancel-onboarding-batch", func(s *session, id types.UUID, reason string) (apiclient.Answer, error) {
			return s.api.CancelOnboardingBatchWithResponse(s.ctx, id, &apiclient.CancelOnboardingBatchParams{}, body{Reason: reason})
		}),
	)
}
