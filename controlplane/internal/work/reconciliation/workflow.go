package reconciliation

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
)

// WorkflowType is the name in workflow histories.
const WorkflowType = "MaasSiteReconcilerWorkflow"

const queue = durable.TaskQueue

// Input says which site to look at. A scheduled run has no id yet.
type Input struct {
	Site id.Site              `json:"site_id"`
	Run  id.ReconciliationRun `json:"run_id,omitzero"`
}

// Looked is the result of the first look of a run.
type Looked struct {
	Again time.Duration `json:"look_again_after"` // zero: the run is over
}

// Workflow carries out one run. If MAAS does not answer, that is a result. A
// failure on our side is repeated until it works.
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

// insist repeats a look until it works: the schedule starts no other run while
// this one is under way.
func insist(ctx workflow.Context, look func(workflow.Context) error) error {
	return durable.Insist(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{}), func(ctx workflow.Context) error {
		return look(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Hour, HeartbeatTimeout: 30 * time.Second,
			RetryPolicy: &temporal.RetryPolicy{
				InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2,
				MaximumInterval: 15 * time.Second,
			},
		}))
	})
}
