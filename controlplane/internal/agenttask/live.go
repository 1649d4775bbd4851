package agenttask

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/agenttask/internal/agenttaskdb"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/id"
)

// Live finds the task of a type that a workflow gave a node and that has not
// ended; ok is false when there is none. Whoever takes the work of a workflow up
// waits for it instead of giving another.
func Live(ctx context.Context, tx pgx.Tx, node id.Node, typ, workflowID string) (t Task, ok bool, err error) {
	row, err := agenttaskdb.New(tx).LiveOfWorkflow(ctx, agenttaskdb.LiveOfWorkflowParams{NodeID: node, Type: typ, AwaitWorkflowID: workflowID})
	if errors.Is(err, pgx.ErrNoRows) {
		return Task{}, false, nil
	}
	if err != nil {
		return Task{}, false, fmt.Errorf("look for tasks of workflow %s: %w", workflowID, err)
	}
	t, err = fromRow(row)
	return t, err == nil, err
}

// CancelOf stops the tasks that a workflow gave a node and that have not ended.
func (c Commands) CancelOf(ctx context.Context, node id.Node, workflowID, reason string) error {
	tasks, err := agenttaskdb.New(c.DB).LiveIDsOfWorkflow(ctx, agenttaskdb.LiveIDsOfWorkflowParams{NodeID: node, AwaitWorkflowID: workflowID})
	if err != nil {
		return fmt.Errorf("look for tasks of workflow %s: %w", workflowID, err)
	}
	for _, task := range tasks {
		if _, err := c.Cancel(ctx, task, reason); err != nil && fault.KindOf(err) != fault.Conflict { // it has just ended
			return err
		}
	}
	return nil
}

// Result is how the task ended, if it has.
func (t Task) Result() Result { return t.result() }
