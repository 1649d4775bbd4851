package operation

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
)

const (
	workflowType = "RunOperation"
	queue        = durable.TaskQueue
	// SignalName tells the workflow of a run that something about it has changed.
	SignalName = "operation-changed"
	// turnsPerRun bounds the history of one workflow run.
	turnsPerRun = 500
)

// Input says which run a workflow takes turns with.
type Input struct {
	ID id.Operation `json:"id"`
}

// Turn is how a run stands after a look.
type Turn struct {
	Done bool          `json:"done"`
	Wait time.Duration `json:"wait"` // zero: look again at once
}

// Run takes turns with a run until it has ended. The activity decides, and the row
// keeps what was decided; the workflow only waits for what nodes and people do, and
// ends well whatever happens.
func Run(ctx workflow.Context, in Input) error {
	var a *Activities
	changed := workflow.GetSignalChannel(ctx, SignalName)
	for range turnsPerRun {
		var turn Turn
		err := durable.Insist(ctx, func(ctx workflow.Context) error {
			return workflow.ExecuteActivity(ctx, a.DriveOperation, in.ID).Get(ctx, &turn)
		})
		if err != nil {
			return err
		}
		told := drain(changed)
		switch {
		case turn.Done && !told:
			return nil
		case told || turn.Wait == 0:
			continue
		}
		if err := await(ctx, changed, turn.Wait); err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, Run, in)
}

// drain takes all signals that have come, and says whether there was one.
func drain(changed workflow.ReceiveChannel) (told bool) {
	for changed.ReceiveAsync(nil) {
		told = true
	}
	return told
}

// await waits for a change, or until it is time to look. Nobody cancels the workflow:
// whoever cancels a run writes that into its row.
func await(ctx workflow.Context, changed workflow.ReceiveChannel, most time.Duration) error {
	wait, stop := workflow.WithCancel(ctx)
	defer stop()
	workflow.NewSelector(ctx).AddFuture(workflow.NewTimer(wait, most), func(workflow.Future) {}).
		AddReceive(changed, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
		AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).Select(ctx)
	drain(changed)
	return ctx.Err()
}
