package onboarding

import (
	"context"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/work/job"
)

// ActionBody is the reason for an action.
type ActionBody job.ActionBody

var verbs = []job.Verb{
	{
		ID: "retry-onboarding", Action: job.RetryStage, Summary: "Run the failed stage of an onboarding again",
		Note: "Nothing but this stage is repeated.",
	},
	{
		ID: "resume-onboarding", Action: job.Resume, Summary: "Let an onboarding go on from its last safe checkpoint",
		Note: "Best after something outside was put right, or after a passing trouble.",
	},
	{
		ID: "rerun-onboarding", Action: job.Rerun, Summary: "Let an onboarding go through all stages again",
		Note: "Stages that find their work done adopt it: nothing is done twice.",
	},
	{
		ID: "restart-onboarding-clean", Action: job.RestartClean, Summary: "Undo what an onboarding did, then begin again",
		Note: "Releases the machine in MAAS, even one that is deployed: DESTROYS what is on it.",
	},
	{
		ID: "cancel-onboarding", Action: job.Cancel, Summary: "Stop an onboarding and undo what can be undone",
		Note: "A machine that is not deployed yet is released; one that is deployed is left alone and its node is quarantined. What was left is told.",
	},
	{
		ID: "adopt-onboarding", Action: job.AdoptObserved, Summary: "Accept what MAAS shows, and go on from there",
		Note: "For a machine that was brought further by hand, or that succeeded late. What cannot be proven to be this machine is not adopted.",
	},
	{
		ID: "mark-onboarding-manual", Action: job.MarkManual,
		Summary: "Stop automation on an onboarding until somebody decides",
		Note:    "What is running has no effect any more.",
	},
}

// ActInput is an operator's action on an onboarding. It is exported because the
// framework reads only exported embedded parameters.
type ActInput struct {
	Path
	Body ActionBody
}

func (s *Service) registerActions(api *httpapi.API) {
	like := httpapi.Operation{Path: pathOne, Tag: tag, Access: httpapi.Platform(auth.OnboardingManage)}
	job.RegisterVerbs(api, like, &job.Parking, verbs,
		func(ctx context.Context, in *ActInput, action job.Trigger) (View, error) {
			after, err := s.Act(ctx, in.OnboardingID, action, in.Body.Reason)
			return show(after), err
		})
	like.ID, like.Path, like.Summary = "act-on-onboardings", pathAll, "Do the same about many onboardings"
	job.RegisterMany(api, like, s.jobs, s.parkedOf)
}
