package faults

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/oapi-codegen/runtime/types"

	"gpuaas/contract/apiclient"
)

// standing is the state of a job of any family: what the answers of the API
// have in common.
type standing struct {
	Status      string         `json:"status"`
	Stage       string         `json:"current_stage"`
	Node        types.UUID     `json:"node_id"`
	Facts       map[string]any `json:"facts"`
	FollowUps   []any          `json:"follow_ups"`
	Overrides   []any          `json:"overrides"`
	Outcome     string         `json:"outcome"` // of a decommission
	Explanation struct {
		Summary      string `json:"summary"`
		StageTitle   string `json:"stage_title"`
		Expected     string `json:"expected"`
		Observed     string `json:"observed"`
		FailureClass string `json:"failure_class"`
		ErrorCode    string `json:"error_code"`
		LikelyCause  string `json:"likely_cause"`
		Actions      []struct {
			Action string `json:"action"`
			Legal  bool   `json:"legal"`
			Rank   int    `json:"rank"`
		} `json:"actions"`
	} `json:"explanation"`
}

// view reads a job.
func (w *World) view(ctx context.Context, of Family, job types.UUID) (*standing, error) {
	var raw []byte
	switch of {
	case Onboarding:
		answer, err := w.api.GetOnboardingWithResponse(ctx, job)
		if _, err := apiclient.Read(answer, err); err != nil {
			return nil, fmt.Errorf("read onboarding: %w", err)
		}
		raw = answer.Body
	case Decommission:
		answer, err := w.api.GetDecommissionWithResponse(ctx, job)
		if _, err := apiclient.Read(answer, err); err != nil {
			return nil, fmt.Errorf("read decommission: %w", err)
		}
		raw = answer.Body
	case Allocation, Paths:
		return nil, fmt.Errorf("%s is no job", of)
	}
	var v standing
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("read %s: %w", of, err)
	}
	return &v, nil
}

// verb is an operator's action on a job.
type verb func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (apiclient.Answer, error)

// verbs are the actions that lead a job on, and the one that stops it.
var verbs = map[Family]map[string]verb{
	Onboarding: {
		"retry_stage": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (
			apiclient.Answer, error,
		) {
			return api.RetryOnboardingWithResponse(ctx, job, &apiclient.RetryOnboardingParams{},
				apiclient.OnboardingActionBody{Reason: reason})
		},
		"resume": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (apiclient.Answer, error) {
			return api.ResumeOnboardingWithResponse(ctx, job, &apiclient.ResumeOnboardingParams{},
				apiclient.OnboardingActionBody{Reason: reason})
		},
		"rerun": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (apiclient.Answer, error) {
			return api.RerunOnboardingWithResponse(ctx, job, &apiclient.RerunOnboardingParams{},
				apiclient.OnboardingActionBody{Reason: reason})
		},
		"restart_clean": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (
			apiclient.Answer, error,
		) {
			return api.RestartOnboardingCleanWithResponse(ctx, job, &apiclient.RestartOnboardingCleanParams{},
				apiclient.OnboardingActionBody{Reason: reason})
		},
		"adopt_observed_state": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (
			apiclient.Answer, error,
		) {
			return api.AdoptOnboardingWithResponse(ctx, job, &apiclient.AdoptOnboardingParams{},
				apiclient.OnboardingActionBody{Reason: reason})
		},
		markManual: func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (
			apiclient.Answer, error,
		) {
			return api.MarkOnboardingManualWithResponse(ctx, job, &apiclient.MarkOnboardingManualParams{},
				apiclient.OnboardingActionBody{Reason: reason})
		},
	},
	Decommission: {
		"retry_stage": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (
			apiclient.Answer, error,
		) {
			return api.RetryDecommissionWithResponse(ctx, job, &apiclient.RetryDecommissionParams{},
				apiclient.DecommissionActionBody{Reason: reason})
		},
		"resume": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (apiclient.Answer, error) {
			return api.ResumeDecommissionWithResponse(ctx, job, &apiclient.ResumeDecommissionParams{},
				apiclient.DecommissionActionBody{Reason: reason})
		},
		"rerun": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (apiclient.Answer, error) {
			return api.RerunDecommissionWithResponse(ctx, job, &apiclient.RerunDecommissionParams{},
				apiclient.DecommissionActionBody{Reason: reason})
		},
		"restart_clean": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (
			apiclient.Answer, error,
		) {
			return api.RestartDecommissionCleanWithResponse(ctx, job, &apiclient.RestartDecommissionCleanParams{},
				apiclient.DecommissionActionBody{Reason: reason})
		},
		"adopt_observed_state": func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (
			apiclient.Answer, error,
		) {
			return api.AdoptDecommissionWithResponse(ctx, job, &apiclient.AdoptDecommissionParams{},
				apiclient.DecommissionActionBody{Reason: reason})
		},
		markManual: func(ctx context.Context, api *apiclient.Client, job types.UUID, reason string) (
			apiclient.Answer, error,
		) {
			return api.MarkDecommissionManualWithResponse(ctx, job, &apiclient.MarkDecommissionManualParams{},
				apiclient.DecommissionActionBody{Reason: reason})
		},
	},
}

const markManual = "mark_manual_intervention_required"
