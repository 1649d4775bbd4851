package onboarding

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/auth"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/httpapi"
)

// ActionBody is why somebody acts.
type ActionBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log and the ledger." example:"cable replaced"`
}

// verb is an action of operators as the API offers it.
type verb struct {
	path, id string
	action   durable.JobEvent
	summary  string
	note     string
}

var verbs = []verb{
	{
		"retry", "retry-onboarding", durable.JobRetryStage, "Run the failed stage of an onboarding again",
		"Nothing but this stage is repeated.",
	},
	{
		"resume", "resume-onboarding", durable.JobResume, "Let an onboarding go on from its last safe checkpoint",
		"Best after something outside was put right, or after a passing trouble.",
	},
	{
		"rerun", "rerun-onboarding", durable.JobRerun, "Let an onboarding go through all stages again",
		"Stages that find their work done adopt it: nothing is done twice.",
	},
	{
		"restart-clean", "restart-onboarding-clean", durable.JobRestartClean, "Undo what an onboarding did, then begin again",
		"Releases the machine in MAAS, even one that is deployed: DESTROYS what is on it.",
	},
	{
		"cancel", "cancel-onboarding", durable.JobCancel, "Stop an onboarding and undo what can be undone",
		"A machine that is not deployed yet is released; one that is deployed is left alone and its node is quarantined. What was left is told.",
	},
	{
		"adopt", "adopt-onboarding", durable.JobAdoptObserved, "Accept what MAAS shows, and go on from there",
		"For a machine that was brought further by hand, or that succeeded late. What cannot be proven to be this machine is not adopted.",
	},
	{
		"mark-manual-intervention", "mark-onboarding-manual", durable.JobMarkManual, "Stop automation on an onboarding until somebody decides",
		"What is running has no effect any more.",
	},
}

const legality = " 409 when the present state does not allow it, with the actions that it does."

func (s *Service) registerActions(api *httpapi.API) {
	for _, v := range verbs {
		httpapi.Register(api, httpapi.Operation{
			ID: v.id, Method: http.MethodPost, Path: pathOne + "/" + v.path, Tag: tag,
			Summary: v.summary, Description: v.note + legality,
			Access: httpapi.Platform(auth.OnboardingManage), Status: http.StatusAccepted,
		}, func(ctx context.Context, in *struct {
			Path
			Body ActionBody
		},
		) (*httpapi.Plain[View], error) {
			after, err := s.Act(ctx, in.OnboardingID, v.action, in.Body.Reason)
			return &httpapi.Plain[View]{Body: show(after)}, err
		})
	}
}
