package decommission

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
)

// FailureModeView is one way in which a stage fails.
type FailureModeView struct {
	FailureClass      job.FailureClass `json:"failure_class"`
	When              string           `json:"when" doc:"What has happened then, for people."`
	Status            job.Status       `json:"status" enum:"failed_retryable,failed_manual_intervention" doc:"How the decommission is parked then."`
	RecommendedAction job.Trigger      `json:"recommended_action" doc:"What an operator does best then."`
}

// StageView is one row of the table of stages of a mode.
type StageView struct {
	Number      int               `json:"number" doc:"Its place, from 1."`
	Name        string            `json:"name" example:"release_maas_node"`
	Title       string            `json:"title" doc:"Its name, for people." example:"Release in MAAS"`
	Looks       string            `json:"looks" doc:"What it observes first."`
	Does        string            `json:"does" doc:"What it changes."`
	Expects     string            `json:"expects" doc:"The condition that ends it."`
	Again       string            `json:"again" doc:"Why it may be run again."`
	Attempts    int               `json:"attempts" doc:"How many attempts it gets in all; one more is made for what passes by itself."`
	Limit       string            `json:"limit,omitempty" doc:"Which time limit of the profile holds for it; absent: none." example:"release"`
	Resume      string            `json:"resume" doc:"The stage that resume goes on with when it failed here."`
	OnCancel    string            `json:"on_cancel" doc:"What is undone when the decommission is cancelled here."`
	Detour      bool              `json:"detour" doc:"Whether it is reached only when another stage leads to it."`
	Overridable bool              `json:"overridable" doc:"Whether an operator may decide to go on without it."`
	Usually     string            `json:"usually,omitempty" doc:"How long it usually takes; absent: seconds."`
	Typical     *float64          `json:"typical_seconds,omitempty" minimum:"0" doc:"How long it typically takes: the median over those that went through it last, from the beginning of the attempt that succeeded. Absent: none has." example:"412.5"`
	Fails       []FailureModeView `json:"fails" nullable:"false" doc:"How it fails."`
}

// ModeView is one mode and its stages.
type ModeView struct {
	Mode    Mode          `json:"mode"`
	From    []node.Status `json:"from" nullable:"false" doc:"States that the node may be in."`
	Ends    string        `json:"ends" doc:"How the node is when all went well."`
	Usually string        `json:"usually" doc:"How long all of it takes as a rule."`
	Stages  []StageView   `json:"stages" nullable:"false" doc:"Its stages, in their order."`
}

func showStage(f *job.Family[Decommission], m Mode, number int, s job.Stage, typical map[string]float64) StageView {
	v := StageView{
		Number: number, Name: s.Name, Title: s.Title, Looks: s.Looks, Does: s.Does, Expects: s.Expects, Again: s.Again,
		Attempts: s.Attempts,
		Limit:    string(s.Limit), Resume: s.Resume, OnCancel: s.OnCancel, Detour: s.Detour, Usually: s.Usually,
		Fails:       []FailureModeView{},
		Overridable: overridable(Decommission{Mode: m, Job: job.Job{Stage: s.Name}}, s.Name, false) == nil,
	}
	if seconds, known := typical[s.Name]; known {
		v.Typical = &seconds
	}
	for _, mode := range s.Fails {
		parked := f.ParkedBy(s.Name, mode.Class)
		parked.Mode = m
		v.Fails = append(v.Fails, FailureModeView{
			FailureClass: mode.Class, When: mode.When, Status: parked.Status,
			RecommendedAction: f.Recommended(parked),
		})
	}
	return v
}

func showMode(f *job.Family[Decommission], m Mode, typical map[string]float64) ModeView {
	v := ModeView{Mode: m, From: from[m], Ends: ends[m], Usually: lasts[m], Stages: []StageView{}}
	for _, stage := range tables[m] {
		if !stage.Pseudo {
			v.Stages = append(v.Stages, showStage(f, m, len(v.Stages)+1, stage, typical))
		}
	}
	return v
}

func (s *Service) registerStages(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-decommission-stages", Method: http.MethodGet, Path: pathStages, Tag: tag,
		Summary:     "List the modes of decommissions and their stages",
		Description: "What each stage looks at, does and waits for, how it fails, what is done then, and how long each typically takes.",
		Access:      httpapi.Platform(auth.DecommissionRead),
	}, func(ctx context.Context, in *job.StagesInput) (*httpapi.Listed[ModeView], error) {
		site, err := in.Site()
		if err != nil {
			return nil, err
		}
		typical, err := s.typicalSeconds(ctx, site)
		if err != nil {
			return nil, err
		}
		var out httpapi.List[ModeView]
		for _, m := range Modes() {
			out.Items = append(out.Items, showMode(s.family, m, typical[m]))
		}
		return &httpapi.Listed[ModeView]{Body: out}, nil
	})
}
