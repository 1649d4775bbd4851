package durable

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Insist runs an activity that records something and must not be given up. It
// repeats the activity until it works, even after the workflow was cancelled.
// It fails only if the workflow is being torn down.
func Insist(ctx workflow.Context, activity func(workflow.Context) error) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2,
			MaximumInterval: 15 * time.Second,
		},
	})
	for {
		err := activity(ctx)
		if err == nil {
			return nil
		}
		// Temporal does not repeat it: a defect, or data that nobody expected.
		// Try again later; a new release may handle it.
		workflow.GetLogger(ctx).Error("activity that must not be given up failed", "error", err)
		if err := workflow.Sleep(ctx, time.Minute); err != nil {
			return err
		}
	}
}
