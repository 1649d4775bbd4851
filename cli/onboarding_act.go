package cli

import (
	"strconv"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func recoveries() []recovery {
	type reason = apiclient.OnboardingActionBody
	return []recovery{
		{
			"retry", "Run the failed stage again, and nothing else",
			"", "retry-onboarding", apiclient.JobManyBodyActionRetryStage,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.RetryOnboardingWithResponse(s.Ctx, id, &apiclient.RetryOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"resume", "Go on from the last safe checkpoint",
			"Best after something outside was put right.", "resume-onboarding", apiclient.JobManyBodyActionResume,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.ResumeOnboardingWithResponse(s.Ctx, id, &apiclient.ResumeOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"rerun", "Go through all stages again; what is done already is left as it is",
			"", "rerun-onboarding", apiclient.JobManyBodyActionRerun,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.RerunOnboardingWithResponse(s.Ctx, id, &apiclient.RerunOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"restart-clean", "Undo everything, then begin again; DESTROYS what is on a deployed machine",
			"Releases the machine in MAAS, even one that is deployed: DESTROYS ALL DATA on it.", "restart-onboarding-clean", apiclient.JobManyBodyActionRestartClean,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.RestartOnboardingCleanWithResponse(s.Ctx, id, &apiclient.RestartOnboardingCleanParams{},
					reason{Reason: why})
			},
		},
		{
			"cancel", "Stop, and undo what can be undone",
			"A machine that is not deployed yet is released; one that is deployed is left alone and its node is quarantined.",
			"cancel-onboarding", apiclient.JobManyBodyActionCancel,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.CancelOnboardingWithResponse(s.Ctx, id, &apiclient.CancelOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"adopt", "Accept what MAAS shows now, and go on from there",
			"For a machine that was brought further by hand, or that succeeded late.", "adopt-onboarding", apiclient.JobManyBodyActionAdoptObservedState,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.AdoptOnboardingWithResponse(s.Ctx, id, &apiclient.AdoptOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"mark-manual-intervention", "Stop automation until somebody decides",
			"", "mark-onboarding-manual", apiclient.JobManyBodyActionMarkManualInterventionRequired,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.MarkOnboardingManualWithResponse(s.Ctx, id, &apiclient.MarkOnboardingManualParams{},
					reason{Reason: why})
			},
		},
	}
}

func (a *app) batchColumns() []table.Column[apiclient.OnboardingBatchView] {
	type batch = apiclient.OnboardingBatchView
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []table.Column[batch]{
		{Title: "BATCH", Text: func(v batch) string { return v.BatchId.String() }},
		{Title: "STATE", Text: func(v batch) string { return string(v.State) }},
		{Title: "MACHINES", Text: func(v batch) string { return count(v.Total) }},
		{Title: "SUCCEEDED", Text: func(v batch) string { return count(v.Succeeded) }},
		{Title: "PARKED", Text: func(v batch) string { return count(v.Failed) }},
		{Title: "RUNNING", Text: func(v batch) string { return count(v.Counts.Running + v.Counts.Compensating) }},
		{Title: "PENDING", Text: func(v batch) string { return count(v.Counts.Pending) }},
		{Title: "CANCELLED", Text: func(v batch) string { return count(v.Counts.Cancelled) }},
		{Title: "REQUESTED", Text: func(v batch) string { return a.When(v.RequestedAt) }},
		{Title: "SITE", Text: func(v batch) string { return v.SiteId.String() }, Detail: true},
		{Title: "SKU", Text: func(v batch) string { return v.SkuId }, Detail: true},
		{Title: "REQUESTED BY", Text: func(v batch) string { return v.RequestedBy }, Detail: true},
		{Title: "PAUSED", Text: func(v batch) string { return a.Whenever(v.PausedAt) }, Detail: true},
		{Title: "CANCELLED AT", Text: func(v batch) string { return a.Whenever(v.CancelledAt) }, Detail: true},
	}
}

func (a *app) onboardingBatchCommand() *cobra.Command {
	type body = apiclient.OnboardingActionBody
	return a.noun(noun{use: "batch", short: "Servers that are onboarded together"},
		a.verb(verb{
			use: "list", short: "List batches, newest first", aliases: []string{"ls"},
			operations: []string{"list-onboarding-batches"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 50)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.OnboardingBatchView]{
						Columns: a.batchColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListOnboardingBatchesWithResponse(s.Ctx,
								&apiclient.ListOnboardingBatchesParams{Cursor: p.Cursor, PageSize: p.Size})
						},
					})
				}
			},
		}),
		a.verb(verb{
			use: "show BATCH", short: "Show how many servers of a batch stand how", aliases: []string{"get"},
			args:       frame.Exactly("BATCH"),
			operations: []string{"get-onboarding-batch"},
			run: func(s *session, args []string) error {
				id, err := s.IDOf("a batch", args[0])
				if err != nil {
					return err
				}
				if err := frame.Show(s.Session, a.batchColumns())(s.API.GetOnboardingBatchWithResponse(s.Ctx, id)); err != nil {
					return err
				}
				s.Note("its machines: gpuaas onboarding list --batch %s", id)
				return nil
			},
		}),
		batchActionCommand(a, a.batchColumns(), "pause", "Begin no further server of a batch; those that run go on",
			"pause-onboarding-batch", func(s *session, id types.UUID, reason string) (apiclient.Answer, error) {
				return s.API.PauseOnboardingBatchWithResponse(s.Ctx, id, &apiclient.PauseOnboardingBatchParams{},
					body{Reason: reason})
			}),
		batchActionCommand(a, a.batchColumns(), "resume", "Go on with a batch that was paused", "resume-onboarding-batch",
			func(s *session, id types.UUID, reason string) (apiclient.Answer, error) {
				return s.API.ResumeOnboardingBatchWithResponse(s.Ctx, id, &apiclient.ResumeOnboardingBatchParams{},
					body{Reason: reason})
			}),
		batchActionCommand(a, a.batchColumns(), "cancel", "Stop all servers of a batch and undo what can be undone",
			"cancel-onboarding-batch", func(s *session, id types.UUID, reason string) (apiclient.Answer, error) {
				return s.API.CancelOnboardingBatchWithResponse(s.Ctx, id, &apiclient.CancelOnboardingBatchParams{},
					body{Reason: reason})
			}),
	)
}
