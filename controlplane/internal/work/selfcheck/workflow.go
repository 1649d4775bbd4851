package selfcheck

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
)

const (
	workflowType = "SelfCheckWorkflow"
	queue        = durable.TaskQueue
	// A step is tried for this long before it counts as failed.
	stepBudget = 2 * time.Minute
)

// Input says which check to carry out.
type Input struct {
	ID id.SelfCheck `json:"id"`
}

// Workflow goes through the steps and records the outcome. If a step fails,
// that is a result, so the workflow itself never fails.
func Workflow(ctx workflow.Context, in Input) error {
	var a *Activities
	var proceed bool
	if err := durable.Insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, a.BeginSelfCheck, in.ID).Get(ctx, &proceed)
	}); err != nil || !proceed {
		return err
	}
	stepCtx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Second, ScheduleToCloseTimeout: stepBudget,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2,
			MaximumInterval: 5 * time.Second,
		},
	})
	var done []Step
	cancelled := false
	for _, name := range steps {
		start := workflow.Now(ctx)
		err := workflow.ExecuteActivity(stepCtx, a.RunSelfCheckStep, in.ID, name).Get(stepCtx, nil)
		if temporal.IsCanceledError(err) {
			cancelled = true
			break
		}
		done = append(done, result(name, err, workflow.Now(ctx).Sub(start)))
	}
	// The outcome is recorded even if the workflow was cancelled.
	return durable.Insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, a.FinishSelfCheck, in.ID, outcome(done, cancelled), done).Get(ctx, nil)
	})
}

func result(name string, err error, took time.Duration) Step {
	s := Step{Name: name, OK: err == nil, DurationMs: took.Milliseconds()}
	if err == nil {
		return s
	}
	err = durable.FromTemporal(err)
	s.Code, s.Message = fault.CodeOf(err), "the step failed; see the worker's log"
	if f, ok := fault.As(err); ok {
		s.Message, s.Remedy = f.Message, f.Remedy
	}
	return s
}
