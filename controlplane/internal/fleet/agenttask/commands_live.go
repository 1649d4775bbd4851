package agenttask

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
)

// A workflow begins the keys of its tasks with its id and a slash.

// LiveOf lists the tasks that a workflow gave a node and that have not ended,
// newest first. Whoever resumes the work of the workflow waits for these tasks
// instead of queueing new ones.
func LiveOf(ctx context.Context, db agenttaskdb.DBTX, node id.Node, workflowID string) ([]Task, error) {
	rows, err := agenttaskdb.New(db).LiveOfJob(ctx, agenttaskdb.LiveOfJobParams{NodeID: node, KeyPrefix: workflowID + "/"})
	if err != nil {
		return nil, fmt.Errorf("look for tasks of workflow %s: %w", workflowID, err)
	}
	out := make([]Task, len(rows))
	for i, r := range rows {
		if out[i], err = fromRow(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// CancelOf stops the tasks that a workflow gave a node and that have not ended.
func (c Commands) CancelOf(ctx context.Context, node id.Node, workflowID, reason string) error {
	return c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return c.Withdraw(ctx, tx, node, workflowID, reason)
	})
}

// Withdraw is CancelOf in the transaction of whoever does not want the tasks any
// more: if it commits, no node gets one of them. Owners other than workflows begin
// the keys of their tasks likewise.
func (c Commands) Withdraw(ctx context.Context, tx pgx.Tx, node id.Node, owner, reason string) error {
	tasks, err := LiveOf(ctx, tx, node, owner)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if _, err := c.cancel(ctx, tx, t.ID, reason); err != nil && fault.KindOf(err) != fault.Conflict { // it has just ended
			return err
		}
	}
	return nil
}

// Task reads a task.
func (c Commands) Task(ctx context.Context, task id.NodeTask) (Task, error) {
	row, err := agenttaskdb.New(c.DB).Get(ctx, task)
	return found(row, err, task)
}

// TellWhenEnded registers the workflow that is signalled when a task ends. If
// the task has ended already, it is returned and nobody is signalled.
func (c Commands) TellWhenEnded(ctx context.Context, task id.NodeTask, workflowID string) (Task, error) {
	var t Task
	err := c.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := agenttaskdb.New(tx)
		row, err := q.Held(ctx, task)
		if t, err = found(row.NodeTask, err, task); err != nil || t.Status.Ended() || t.AwaitWorkflow == workflowID {
			return err
		}
		if err := q.Await(ctx, agenttaskdb.AwaitParams{ID: task, AwaitWorkflowID: workflowID}); err != nil {
			return fmt.Errorf("note who waits for task %s: %w", task, err)
		}
		t.AwaitWorkflow = workflowID
		return nil
	})
	return t, err
}

// Ended reads those of many tasks that have ended.
func Ended(ctx context.Context, db agenttaskdb.DBTX, tasks []id.NodeTask) ([]Task, error) {
	rows, err := agenttaskdb.New(db).EndedOf(ctx, texts(tasks))
	if err != nil {
		return nil, fmt.Errorf("look which tasks have ended: %w", err)
	}
	out := make([]Task, len(rows))
	for i, r := range rows {
		if out[i], err = fromRow(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// TellWhenEachEnded registers the workflow that is signalled whenever one of these
// tasks ends, always by the same name. It says how many will still end: of the others
// nobody is told.
func (c Commands) TellWhenEachEnded(ctx context.Context, tasks []id.NodeTask, workflowID, signal string) (int, error) {
	live, err := agenttaskdb.New(c.DB).AwaitMany(ctx, agenttaskdb.AwaitManyParams{
		WorkflowID: workflowID, Signal: signal, Tasks: texts(tasks),
	})
	if err != nil {
		return 0, fmt.Errorf("note that workflow %s waits for tasks: %w", workflowID, err)
	}
	return len(live), nil
}

// Linger waits briefly for a task that was just given: a healthy agent is quick, and a
// few looks cost less than a signal to a workflow. It returns the task as it stands.
func Linger(ctx context.Context, tasks interface {
	Task(ctx context.Context, task id.NodeTask) (Task, error)
}, t Task, most time.Duration,
) (Task, error) {
	const first, longest = 5 * time.Millisecond, 100 * time.Millisecond
	defer outbox.Aside(ctx)()
	began := time.Now()
	for pause := first; !t.Status.Ended() && time.Since(began) < most; pause = min(2*pause, longest) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return t, ctx.Err()
		case <-timer.C:
		}
		var err error
		if t, err = tasks.Task(ctx, t.ID); err != nil {
			return t, err
		}
	}
	return t, nil
}

// Result says how the task ended. It is empty if the task has not ended.
func (t Task) Result() Result { return t.result() }
