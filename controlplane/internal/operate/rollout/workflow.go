package rollout

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
)

const (
	workflowType = "RollOutAgent"
	queue        = durable.TaskQueue
	signalName   = "agent-rollout-changed"
	// turnsPerRun bounds the history of one workflow run.
	turnsPerRun = 500
)

func workflowID(of id.Rollout) string { return "agent-rollout-" + of.String() }

// Input says which rollout a workflow drives.
type Input struct {
	ID id.Rollout `json:"id"`
}

// Turn is how a rollout stands after a look.
type Turn struct {
	Done bool          `json:"done"`
	Wait time.Duration `json:"wait"`
}

// Run looks at a rollout again and again until it is over. The activity decides, and
// the rows keep what was decided.
func Run(ctx workflow.Context, in Input) error {
	var a *Activities
	changed := workflow.GetSignalChannel(ctx, signalName)
	for range turnsPerRun {
		for changed.ReceiveAsync(nil) { // what was told until now, the look sees
		}
		var turn Turn
		err := durable.Insist(ctx, func(ctx workflow.Context) error {
			return workflow.ExecuteActivity(ctx, a.DriveRollout, in.ID).Get(ctx, &turn)
		})
		if err != nil || turn.Done {
			return err
		}
		wait, stop := workflow.WithCancel(ctx)
		workflow.NewSelector(ctx).AddFuture(workflow.NewTimer(wait, turn.Wait), func(workflow.Future) {}).
			AddReceive(changed, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
			AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).Select(ctx)
		stop()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, Run, in)
}
