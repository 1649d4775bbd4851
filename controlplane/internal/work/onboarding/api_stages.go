package onboarding

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/work/job"
)

// FailureModeView is one way in which a stage fails.
type FailureModeView struct {
	FailureClass      job.FailureClass `json:"failure_class"`
	When              string           `json:"when" doc:"What has happened then, for people."`
	Status            job.Status       `json:"status" enum:"failed_retryable,failed_manual_intervention" doc:"How the onboarding is parked then."`
	RecommendedAction job.Trigger      `json:"recommended_action" doc:"What an operator does best then."`
}

// StageView is one row of the table of stages.
type StageView struct {
	Number   int               `json:"number" doc:"Its place, from 1."`
	Name     string            `json:"name" example:"wait_for_deployed"`
	Title    string            `json:"title" doc:"Its name, for people." example:"Wait until Deployed"`
	Looks    string            `json:"looks" doc:"What it observes first."`
	Does     string            `json:"does" doc:"What it changes."`
	Expects  string            `json:"expects" doc:"The condition that ends it."`
	Again    string            `json:"again" doc:"Why it may be run again."`
	Attempts int               `json:"attempts" doc:"How many attempts it gets in all; one more is made for what passes by itself."`
	Limit    string            `json:"limit,omitempty" doc:"Which time limit of the profile holds for it; absent: none." example:"deploy"`
	Resume   string            `json:"resume" doc:"The stage that resume goes on with when it failed here."`
	OnCancel string            `json:"on_cancel" doc:"What is undone when the onboarding is cancelled here."`
	Detour   bool              `json:"detour" doc:"Whether it is reached only when another stage leads to it."`
	Usually  string            `json:"usually,omitempty" doc:"How long it usually takes; absent: seconds."`
	Typical  *float64          `json:"typical_seconds,omitempty" minimum:"0" doc:"How long it typically takes: the median over those that went through it last, from the beginning of the attempt that succeeded. Absent: none has." example:"412.5"`
	Fails    []FailureModeView `json:"fails" nullable:"false" doc:"How it fails."`
}

func showStage(number int, s job.Stage, typical map[string]float64) StageView {
	v := StageView{
		Number: number, Name: s.Name, Title: s.Title, Looks: s.Looks, Does: s.Does, Expects: s.Expects, Again: s.Again,
		Attempts: s.Attempts,
		Limit:    string(s.Limit), Resume: s.Resume, OnCancel: s.OnCancel, Detour: s.Detour, Usually: s.Usually,
		Fails: []FailureModeView{},
	}
	if seconds, known := typical[s.Name]; known {
		v.Typical = &seconds
	}
	for _, f := range s.Fails {
		parked := family.ParkedBy(s.Name, f.Class)
		v.Fails = append(v.Fails, FailureModeView{
			FailureClass: f.Class, When: f.When, Status: parked.Status, RecommendedAction: family.Recommended(parked),
		})
	}
	return v
}

func (s *Service) registerStages(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-onboarding-stages", Method: http.MethodGet, Path: pathStages, Tag: tag,
		Summary:     "List the stages of an onboarding",
		Description: "What each looks at, does and waits for, how it fails, what is done then, and how long each typically takes.",
		Access:      httpapi.Platform(auth.OnboardingRead),
	}, func(ctx context.Context, in *job.StagesInput) (*httpapi.Listed[StageView], error) {
		site, err := in.Site()
		if err != nil {
			return nil, err
		}
		typical, err := s.typicalSeconds(ctx, site)
		if err != nil {
			return nil, err
		}
		var out httpapi.List[StageView]
		for i, stage := range stages {
			out.Items = append(out.Items, showStage(i+1, stage, typical))
		}
		return &httpapi.Listed[StageView]{Body: out}, nil
	})
}
