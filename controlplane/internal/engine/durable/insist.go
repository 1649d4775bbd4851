package durable

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Insist runs an activity that records something and must not be given up: it
// is repeated until it works, even when the workflow has been cancelled. The
// only error left is that of a workflow that is being torn down.
func Insist(ctx workflow.Context, activity func(workflow.Context) error) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second},
	})
	for {
		err := activity(ctx)
		if err == nil {
			return nil
		}
		// Not repeatable by itself: a defect, or data nobody expected. Look
		// again at leisure; a new release may know better.
		workflow.GetLogger(ctx).Error("activity that must not be given up failed", "error", err)
		if err := workflow.Sleep(ctx, time.Minute); err != nil {
			return err
		}
	}
}
