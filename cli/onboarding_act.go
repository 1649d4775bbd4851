package cli

import (
	"github.com/oapi-codegen/runtime/types"

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
			"resume", "Continue from the last safe stage",
			"Best after something outside was put right.", "resume-onboarding", apiclient.JobManyBodyActionResume,
			func(s *session, id types.UUID, why string) (apiclient.Answer, error) {
				return s.API.ResumeOnboardingWithResponse(s.Ctx, id, &apiclient.ResumeOnboardingParams{}, reason{Reason: why})
			},
		},
		{
			"rerun", "Run all stages again; what is done already is left as it is",
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

// onboardingBatches is how batches of onboardings are shown and changed.
func onboardingBatches() batchKind {
	return batchKind{
		noun: "onboarding", unit: "server", short: "Servers that are onboarded together",
		total:   "MACHINES",
		cancels: "Stop all servers of a batch and undo what can be undone",
		own: []table.Column[batchView]{
			{Title: "SITE", Text: func(v batchView) string { return v.SiteId.String() }, Detail: true},
			{Title: "SKU", Text: func(v batchView) string { return v.SkuId }, Detail: true},
		},
		list: func(s *session, p listing.Page) (apiclient.Answer, error) {
			return s.API.ListOnboardingBatchesWithResponse(s.Ctx,
				&apiclient.ListOnboardingBatchesParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		get: func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.API.GetOnboardingBatchWithResponse(s.Ctx, id)
		},
		pause: func(s *session, id types.UUID, b apiclient.JobActionBody) (apiclient.Answer, error) {
			return s.API.PauseOnboardingBatchWithResponse(s.Ctx, id, &apiclient.PauseOnboardingBatchParams{}, b)
		},
		resume: func(s *session, id types.UUID, b apiclient.JobActionBody) (apiclient.Answer, error) {
			return s.API.ResumeOnboardingBatchWithResponse(s.Ctx, id, &apiclient.ResumeOnboardingBatchParams{}, b)
		},
		cancel: func(s *session, id types.UUID, b apiclient.JobActionBody) (apiclient.Answer, error) {
			return s.API.CancelOnboardingBatchWithResponse(s.Ctx, id, &apiclient.CancelOnboardingBatchParams{}, b)
		},
	}
}
