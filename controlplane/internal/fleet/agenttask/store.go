package agenttask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
)

// fromRow brings the parameters back into the form that is signed: the database
// normalises JSON.
func fromRow(r agenttaskdb.NodeTask) (Task, error) {
	params, err := agentwire.Canonical(r.Params)
	if err != nil {
		return Task{}, fmt.Errorf("read parameters of task %s: %w", r.ID, err)
	}
	return Task{
		ID: r.ID, Node: r.NodeID, Type: r.Type, Params: params, Status: Status(r.Status),
		Class:      agentwire.Class(r.ConcurrencyClass),
		Generation: r.Generation, Attempt: int(r.Attempt), MaxAttempts: int(r.MaxAttempts), DeadlineAt: r.DeadlineAt,
		LeaseExpiresAt: r.LeaseExpiresAt, CancelRequested: r.CancelRequested, IdempotencyKey: r.IdempotencyKey,
		AwaitWorkflow: r.AwaitWorkflowID, AwaitSignal: r.AwaitSignal,
		Window: windowOf(r), RequestedBy: r.RequestedBy, Reason: r.Reason, Correlation: r.CorrelationID,
		TraceParent: r.TraceParent, SignerVersion: r.SignerVersion, Output: r.Output,
		Error:        agentwire.TaskError{Code: r.ErrorCode, Message: r.ErrorMessage, Remedy: r.ErrorRemedy},
		AgentVersion: r.AgentVersion, CreatedAt: r.CreatedAt, DispatchedAt: r.DispatchedAt, StartedAt: r.StartedAt,
		FinishedAt: r.FinishedAt,
	}, nil
}

// windowOf is how long one attempt at a task may take.
func windowOf(r agenttaskdb.NodeTask) time.Duration {
	if r.WindowSeconds != nil {
		return time.Duration(*r.WindowSeconds) * time.Second
	}
	spec, _ := agentwire.Lookup(r.Type)
	return spec.Window
}

func found(r agenttaskdb.NodeTask, err error, task id.NodeTask) (Task, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return Task{}, fault.New(fault.NotFound, "node_task_not_found", "there is no task %s", task).
			WithRemedy("list the tasks of a node with: gpuaas node task list NODE")
	}
	if err != nil {
		return Task{}, fmt.Errorf("read task %s: %w", task, err)
	}
	return fromRow(r)
}

// Get reads a task.
func Get(ctx context.Context, db *postgres.DB, task id.NodeTask) (Task, error) {
	r, err := agenttaskdb.New(db).Get(ctx, task)
	return found(r, err, task)
}

// Step is one step of a task, as the agent reported it.
type Step struct {
	Attempt int
	agentwire.Step
}

// Steps reads the steps of a task, in order.
func Steps(ctx context.Context, db *postgres.DB, task id.NodeTask) ([]Step, error) {
	rows, err := agenttaskdb.New(db).Steps(ctx, task)
	if err != nil {
		return nil, fmt.Errorf("read steps of task %s: %w", task, err)
	}
	out := make([]Step, len(rows))
	for i, r := range rows {
		out[i] = Step{Attempt: int(r.Attempt), Step: agentwire.Step{
			Seq: int(r.Seq), Name: r.Step, Status: r.Status,
			Message: r.Message, At: r.At,
		}}
		if r.Percent != nil {
			percent := int(*r.Percent)
			out[i].Percent = &percent
		}
	}
	return out, nil
}

// position is where the next page begins; the newest task comes first.
type position struct {
	CreatedAt time.Time   `json:"c"`
	ID        id.NodeTask `json:"i"`
}

// filter filters a listing. Zero fields filter nothing.
type filter struct {
	node   id.Node
	status string
	typ    string
}

func list(ctx context.Context, db *postgres.DB, f filter, after postgres.Slice[position]) ([]Task, error) {
	p := agenttaskdb.ListParams{Status: optional(f.status), Type: optional(f.typ), PageSize: after.Limit}
	if !f.node.IsZero() {
		p.Node = optional(f.node.String())
	}
	if !after.After.ID.IsZero() {
		p.CreatedBefore, p.IDBefore = &after.After.CreatedAt, optional(after.After.ID.String())
	}
	rows, err := agenttaskdb.New(db).List(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	out := make([]Task, len(rows))
	for i, r := range rows {
		if out[i], err = fromRow(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
