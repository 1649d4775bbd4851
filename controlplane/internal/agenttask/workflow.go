package agenttask

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/id"
)

// enqueueBudget is how long the control plane tries to record a task.
const enqueueBudget = 5 * time.Minute

// order is a request as it stands in the history of a workflow.
type order struct {
	Node           id.Node         `json:"node"`
	Type           string          `json:"type"`
	Params         json.RawMessage `json:"params"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	Reason         string          `json:"reason,omitempty"`
}

// ticket is what a workflow knows of the task it waits for.
type ticket struct {
	Task       id.NodeTask `json:"task"`
	DeadlineAt time.Time   `json:"deadline_at"`
	Ended      bool        `json:"ended"` // before anybody could wait for it: the task of an earlier request
}

// Run gives a node a task and waits until it has ended. The result itself wakes
// the workflow; only a task that nobody heard of until its deadline is looked
// up. An error says that there is no task, or that the workflow was cancelled,
// in which case the task is, too; how the task ended is in the result.
func Run(ctx workflow.Context, r Request) (Result, error) {
	params, err := json.Marshal(r.Params)
	if err != nil {
		return Result{}, fmt.Errorf("encode parameters of %s: %w", r.Type, err)
	}
	var a *Activities
	var t ticket
	enqueueCtx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Second, ScheduleToCloseTimeout: enqueueBudget,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second},
	})
	in := order{Node: r.Node, Type: r.Type, Params: params, IdempotencyKey: r.IdempotencyKey, Reason: r.Reason}
	if err := workflow.ExecuteActivity(enqueueCtx, a.EnqueueNodeTask, in).Get(enqueueCtx, &t); err != nil {
		return Result{}, durable.FromTemporal(err)
	}
	// The sweeper has ended the task by then, unless its agent is still at it.
	patience := t.DeadlineAt.Sub(workflow.Now(ctx)) + agentwire.Lease
	for {
		if !t.Ended {
			if err := awaitEnd(ctx, t.Task, patience); err != nil {
				return Result{}, giveUp(ctx, t.Task, err)
			}
		}
		var result Result
		err := durable.Insist(ctx, func(ctx workflow.Context) error {
			return workflow.ExecuteActivity(ctx, a.ReadNodeTask, t.Task).Get(ctx, &result)
		})
		if err != nil || result.Status.Ended() {
			return result, err
		}
		patience = agentwire.Lease
	}
}

// awaitEnd returns when the task has ended, or after a while.
func awaitEnd(ctx workflow.Context, task id.NodeTask, patience time.Duration) error {
	timerCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	var err error
	workflow.NewSelector(ctx).
		AddReceive(workflow.GetSignalChannel(ctx, SignalName(task)), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
		AddFuture(workflow.NewTimer(timerCtx, patience), func(f workflow.Future) { err = f.Get(ctx, nil) }).
		Select(ctx)
	return err
}

// giveUp stops the task of a workflow that was cancelled.
func giveUp(ctx workflow.Context, task id.NodeTask, cause error) error {
	var a *Activities
	if err := durable.Insist(ctx, func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(ctx, a.CancelNodeTask, task).Get(ctx, nil)
	}); err != nil {
		return err
	}
	return cause
}
