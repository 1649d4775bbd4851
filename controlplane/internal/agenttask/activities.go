package agenttask

import (
	"context"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/id"
)

// Activities are what Run does outside its workflow.
type Activities struct{ Commands Commands }

// Register adds the activities to a worker. There is no workflow of this slice:
// Run is part of those of others.
func Register(a *Activities) func(worker.Registry) {
	return func(w worker.Registry) { w.RegisterActivity(a) }
}

// EnqueueNodeTask records a task for the workflow that runs it. Repeated by
// Temporal it is the same task.
func (a *Activities) EnqueueNodeTask(ctx context.Context, in order) (ticket, error) {
	info := activity.GetInfo(ctx)
	r := Request{
		Node: in.Node, Type: in.Type, Params: in.Params, IdempotencyKey: in.IdempotencyKey, Reason: in.Reason,
		AwaitWorkflow: info.WorkflowExecution.ID,
	}
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = "workflow/" + info.WorkflowExecution.ID + "/" + info.WorkflowExecution.RunID + "/" + info.ActivityID
	}
	var t Task
	err := a.Commands.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		t, err = a.Commands.Enqueue(ctx, tx, r)
		return err
	})
	return ticket{Task: t.ID, DeadlineAt: t.DeadlineAt, Ended: t.Status.Ended()}, err
}

// ReadNodeTask reads how far a task has come.
func (a *Activities) ReadNodeTask(ctx context.Context, task id.NodeTask) (Result, error) {
	t, err := Get(ctx, a.Commands.DB, task)
	return t.result(), err
}

// CancelNodeTask stops a task whose workflow no longer wants it. One that has
// ended meanwhile is fine.
func (a *Activities) CancelNodeTask(ctx context.Context, task id.NodeTask) error {
	_, err := a.Commands.Cancel(ctx, task, "the workflow that asked for it was cancelled")
	if fault.KindOf(err) == fault.Conflict {
		return nil
	}
	return err
}
