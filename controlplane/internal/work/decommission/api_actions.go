package decommission

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/work/job"
)

// ActionBody is the reason for an action.
type ActionBody job.ActionBody

// OverrideBody is the decision to go on without a stage.
type OverrideBody struct {
	Stage        string   `json:"stage" minLength:"1" maxLength:"63" doc:"The stage that failed." example:"drain_node"`
	Also         []string `json:"also,omitempty" maxItems:"20" doc:"Later stages that are passed over by the same decision."`
	Reason       string   `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it goes into the audit log, the ledger and the certificate." example:"mainboard is dead"`
	ResidualRisk string   `json:"residual_risk" minLength:"1" maxLength:"2000" doc:"What may be left behind; the certificate states it." example:"disks still hold data of the last tenant; they are shredded"`
}

var verbs = []job.Verb{
	{
		ID: "retry-decommission", Action: job.RetryStage, Summary: "Run the failed stage of a decommission again",
		Note: "Nothing but this stage is repeated; a task that still runs on the node is waited for and not given twice.",
	},
	{
		ID: "resume-decommission", Action: job.Resume, Summary: "Let a decommission go on from its last safe checkpoint",
		Note: "Best after something outside was put right, or after a passing trouble.",
	},
	{
		ID: "rerun-decommission", Action: job.Rerun, Summary: "Let a decommission go through all stages again",
		Note: "Everything is cleaned and looked at once more.",
	},
	{
		ID: "restart-decommission-clean", Action: job.RestartClean,
		Summary: "Let go of a node, then begin its decommission again",
		Note:    "Not possible once the machine was released.",
	},
	{
		ID: "cancel-decommission", Action: job.Cancel, Summary: "Stop a decommission and let go of its node",
		Note: "The node returns to what it was where nothing was destroyed; one that is not proven clean stays held.",
	},
	{
		ID: "adopt-decommission", Action: job.AdoptObserved,
		Summary: "Accept what MAAS and the inventory show, and go on from there",
		Note:    "For a machine that was released by hand. What nobody can prove is not adopted.",
	},
	{
		ID: "mark-decommission-manual", Action: job.MarkManual,
		Summary: "Stop automation on a decommission until somebody decides",
		Note:    "What is running has no effect any more.",
	},
}

// ActInput is an operator's action on a decommission. It is exported because
// the framework reads only exported embedded parameters.
type ActInput struct {
	Path
	Body ActionBody
}

func (s *Service) registerActions(api *httpapi.API) {
	like := httpapi.Operation{Path: pathOne, Tag: tag, Access: httpapi.Platform(auth.DecommissionManage)}
	job.RegisterVerbs(api, like, &job.Parking, verbs,
		func(ctx context.Context, in *ActInput, action job.Trigger) (View, error) {
			after, err := s.Act(ctx, in.DecommissionID, action, in.Body.Reason)
			return s.show(after), err
		})
	like.ID, like.Path, like.Summary = "act-on-decommissions", pathAll, "Do the same about many decommissions"
	job.RegisterMany(api, like, s.runner, s.parkedOf)
	httpapi.Register(api, httpapi.Operation{
		ID: "override-decommission", Method: http.MethodPost, Path: pathOne + "/override", Tag: tag,
		Summary: "Continue without the stage that failed",
		Description: "Who decided that, why, and the risk that is left are kept with the decommission and stand in its certificate. " +
			"409 for stages that nothing goes on without: no node returns to service unproven.",
		Access: httpapi.Platform(auth.DecommissionManage), Status: http.StatusAccepted,
	}, func(ctx context.Context, in *struct {
		Path
		Body OverrideBody
	},
	) (*httpapi.Plain[View], error) {
		after, err := s.Override(ctx, in.DecommissionID, in.Body.Stage, in.Body.Reason, in.Body.ResidualRisk,
			in.Body.Also...)
		return &httpapi.Plain[View]{Body: s.show(after)}, err
	})
}
