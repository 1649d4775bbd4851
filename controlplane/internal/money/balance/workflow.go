package balance

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// WorkflowType is the name in workflow histories.
const WorkflowType = "BillingWindowWorkflow"

// Workflow charges what was used, and looks at the balances. What fails is left to the
// next run, which finds it: nothing depends on how often this runs.
func Workflow(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Hour, HeartbeatTimeout: 20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 5,
		},
	})
	var a *Activities
	charged := workflow.ExecuteActivity(ctx, a.ChargeUsage).Get(ctx, nil)
	evaluated := workflow.ExecuteActivity(ctx, a.EvaluateBalances).Get(ctx, nil)
	return errors.Join(charged, evaluated)
}
