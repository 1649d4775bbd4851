package reconciliation

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
)

// WorkflowType is the name that the histories have.
const WorkflowType = "MaasSiteReconcilerWorkflow"

const queue = durable.TaskQueue

// Input says which site to look at; a run of the schedule has no id yet.
type Input struct {
	Site id.Site              `json:"site_id"`
	Run  id.ReconciliationRun `json:"run_id,omitzero"`
}

// Looked is what the first look of a run asks for.
type Looked struct {
	Again time.Duration `json:"look_again_after"` // zero: the run is over
}

// Workflow is one run. A look that MAAS does not answer is a result; what goes
// wrong on our side is repeated until it works.
func Workflow(ctx workflow.Context, in Input) error {
	if in.Run.IsZero() {
		made := workflow.SideEffect(ctx, func(workflow.Context) any { return id.New[id.ReconciliationRun]() })
		if err := made.Get(&in.Run); err != nil {
			return err
		}
	}
	var a *Activities
	var looked Looked
	if err := insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, a.ReconcileSite, in).Get(ctx, &looked)
	}); err != nil || looked.Again == 0 {
		return err
	}
	if err := workflow.Sleep(ctx, looked.Again); err != nil {
		return err
	}
	return insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, a.LookAgain, in).Get(ctx, nil)
	})
}

// insist repeats a look for as long as it takes: only another one could replace
// it, and the schedule starts none while this one is under way.
func insist(ctx workflow.Context, look func(workflow.Context) error) error {
	return durable.Insist(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{}), func(ctx workflow.Context) error {
		return look(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Hour, HeartbeatTimeout: 30 * time.Second,
			RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second},
		}))
	})
}
