package balance

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// The names in workflow histories.
const (
	WorkflowType       = "BillingWindowWorkflow"
	ChargeWorkflowType = "BillingChargeWorkflow"
)

// Workflow looks at the balances. It does not wait for charges: a look counts what is
// not charged yet. What fails is left to the next run, which finds it: nothing depends on
// how often this runs.
func Workflow(ctx workflow.Context) error {
	ctx = patiently(ctx)
	var a *Activities
	var charged error
	if workflow.GetVersion(ctx, "charged-apart", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		charged = workflow.ExecuteActivity(ctx, a.ChargeUsage).Get(ctx, nil)
	}
	return errors.Join(charged, workflow.ExecuteActivity(ctx, a.EvaluateBalances).Get(ctx, nil))
}

// ChargeWorkflow charges what was used.
func ChargeWorkflow(ctx workflow.Context) error {
	var a *Activities
	return workflow.ExecuteActivity(patiently(ctx), a.ChargeUsage).Get(ctx, nil)
}

func patiently(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Hour, HeartbeatTimeout: 20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: 5,
		},
	})
}
