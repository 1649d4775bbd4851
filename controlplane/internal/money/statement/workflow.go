package statement

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// WorkflowType is the name in workflow histories.
const WorkflowType = "BillingStatementsWorkflow"

// Workflow closes the months that are over, and compares the ledger with rated usage.
// One does not wait for the other; what fails is tried again by the next run.
func Workflow(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 50 * time.Minute, ScheduleToCloseTimeout: 55 * time.Minute, HeartbeatTimeout: 2 * time.Minute,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 5 * time.Minute,
		},
	})
	var a *Activities
	closing, checking := workflow.ExecuteActivity(ctx, a.CloseStatements), workflow.ExecuteActivity(ctx, a.CheckLedger)
	return errors.Join(closing.Get(ctx, nil), checking.Get(ctx, nil))
}
