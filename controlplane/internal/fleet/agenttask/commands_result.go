package agenttask

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"gpuaas/contract/agentwire"
	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
	"gpuaas/controlplane/internal/fleet/node"
)

// Result ends a task with what its node reports. The node may send the same
// result again; a different result for a task that has ended is a conflict.
func (q *Queue) Result(ctx context.Context, node id.Node, task id.NodeTask, r agentwire.ResultRequest) error {
	return q.onBehalf(ctx, node, task, func(ctx context.Context, tx pgx.Tx, t Task) error {
		end, err := endingOf(t, r)
		switch {
		case err != nil:
			return err
		case t.Status.Ended() && end.same(t):
			return nil
		}
		if err := live(t, r.Attempt); err != nil {
			return err
		}
		if end.refused {
			// If a node refuses a task, somebody attacked it or the control
			// plane is at fault. People must find out either way.
			if err := record(ctx, tx, "node_task.refuse", t, audit.Denied, end.err.Code,
				map[string]any{"detail": end.err.Message}); err != nil {
				return err
			}
		}
		if t, err = finish(ctx, tx, t, q.cfg.Clock(), end); err != nil {
			return err
		}
		return amend(ctx, tx, t, r.Amends)
	})
}

// amend stores what a successful task changed of the installation of its node.
// It refuses and audits a change that a task of this type cannot have made.
func amend(ctx context.Context, tx pgx.Tx, t Task, a *agentwire.Amendment) error {
	if a == nil || t.Status != Succeeded {
		return nil
	}
	if err := a.Validate(t.Type); err != nil {
		return record(ctx, tx, "node_task.amend_baseline", t, audit.Denied, "baseline_amendment_refused",
			map[string]any{"detail": err.Error()})
	}
	return node.AmendBaseline(ctx, tx, t.Node, t.ID, t.Type, a.Serial, *a)
}

// Progress renews the lease of a task and stores the steps that its agent
// reports. Steps that are stored already stay as they are.
func (q *Queue) Progress(ctx context.Context, node id.Node, task id.NodeTask, r agentwire.ProgressRequest) (
	agentwire.ProgressResponse, error,
) {
	var out agentwire.ProgressResponse
	err := q.onBehalf(ctx, node, task, func(ctx context.Context, tx pgx.Tx, t Task) error {
		if err := live(t, r.Attempt); err != nil {
			return err
		}
		db, now := agenttaskdb.New(tx), q.cfg.Clock()
		out = agentwire.ProgressResponse{LeaseExpiresAt: now.Add(agentwire.Lease).UTC(), Cancel: t.CancelRequested ||
			t.overran(now)}
		if err := db.RenewLease(ctx, agenttaskdb.RenewLeaseParams{ID: task, LeaseExpiresAt: out.LeaseExpiresAt}); err != nil {
			return fmt.Errorf("renew lease of task %s: %w", task, err)
		}
		return insertSteps(ctx, db, task, r)
	})
	return out, err
}

// Bound returns the task that a node works on now: handed to this node, in this
// attempt, with a live lease. Credentials are given out only for such a task.
func (q *Queue) Bound(ctx context.Context, node id.Node, task id.NodeTask, attempt int) (Task, error) {
	var bound Task
	err := q.onBehalf(ctx, node, task, func(_ context.Context, _ pgx.Tx, t Task) error {
		if err := live(t, attempt); err != nil {
			return err
		}
		if t.Status != Dispatched || t.Attempt != attempt || !q.cfg.Clock().Before(*t.LeaseExpiresAt) {
			return fault.New(fault.Conflict, "node_task_not_held",
				"task %s is %s in attempt %d; attempt %d does not hold it now", task, t.Status, t.Attempt, attempt)
		}
		bound = t
		return nil
	})
	return bound, err
}

// WorksOn lists the tasks of a type that a node works on now.
func (q *Queue) WorksOn(ctx context.Context, n id.Node, taskType string) ([]Task, error) {
	rows, err := agenttaskdb.New(q.cfg.DB).WorkedOn(ctx, agenttaskdb.WorkedOnParams{
		NodeID: n, Type: taskType, Now: q.cfg.Clock(),
	})
	if err != nil {
		return nil, fmt.Errorf("read what node %s works on: %w", n, err)
	}
	out := make([]Task, len(rows))
	for i, row := range rows {
		if out[i], err = fromRow(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// onBehalf does something to a task for its node, in one transaction. For any
// other node the task does not exist, and its attempt is audited.
func (q *Queue) onBehalf(ctx context.Context, node id.Node, task id.NodeTask,
	do func(context.Context, pgx.Tx, Task) error,
) error {
	ctx = auth.With(ctx, auth.Node(node))
	var foreign Task
	err := q.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		row, err := agenttaskdb.New(tx).Held(ctx, task)
		t, err := found(row.NodeTask, err, task)
		switch {
		case fault.KindOf(err) == fault.NotFound:
			return notYours(node, task)
		case err != nil:
			return err
		case t.Node != node:
			foreign = t
			return notYours(node, task)
		case row.Superseded && !t.Status.Ended():
			return fault.New(fault.Conflict, agentwire.CodeTaskFinal,
				"task %s belongs to an earlier generation of node %s and is void", task, node)
		}
		return do(causeOf(ctx, t), tx, t)
	})
	if foreign.ID.IsZero() {
		return err
	}
	return errors.Join(err, q.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return record(ctx, tx, "node_task.touch", foreign, audit.Denied, agentwire.CodeTaskNotYours,
			map[string]any{"by_node_id": node.String()})
	}))
}

func notYours(node id.Node, task id.NodeTask) error {
	return fault.New(fault.NotFound, agentwire.CodeTaskNotYours, "node %s has no task %s", node, task)
}

// live refuses a report that comes too late, or about a task that was never
// handed out.
func live(t Task, attempt int) error {
	switch {
	case t.Status.Ended():
		return fault.New(fault.Conflict, agentwire.CodeTaskFinal, "task %s is %s, which is final", t.ID, t.Status)
	case attempt < 1 || attempt > t.Attempt:
		return fault.New(fault.Conflict, "node_task_attempt_unknown",
			"task %s was handed out %d times; there is no attempt %d", t.ID, t.Attempt, attempt)
	}
	return nil
}

// finish is the only function that ends a task. In the same transaction it
// signals the workflow that waits for the task and publishes the event.
func finish(ctx context.Context, tx pgx.Tx, t Task, now time.Time, e ending) (Task, error) {
	next, err := Lifecycle.Next(t.Status, e.event)
	if err != nil {
		return t, err
	}
	q := agenttaskdb.New(tx)
	row, err := q.Finish(ctx, agenttaskdb.FinishParams{
		ID: t.ID, Status: string(next), FinishedAt: now, Output: e.output, ErrorCode: e.err.Code, ErrorMessage: e.err.Message,
		ErrorRemedy: e.err.Remedy, AgentVersion: e.agent, StartedAt: e.startedAt,
	})
	if err != nil {
		return t, fmt.Errorf("move task %s to %s: %w", t.ID, next, err)
	}
	held := t.Status == Dispatched
	if t, err = fromRow(row); err != nil {
		return t, err
	}
	measure(ctx, t, e)
	if t.opens() && t.Attempt > 0 && !e.void && !t.provenOut(e) {
		// Taint the node again: it may have been proven clean while the task
		// was queued.
		if err := t.taints(ctx, tx); err != nil {
			return t, err
		}
	}
	if t.AwaitWorkflow != "" {
		err := outbox.SignalWorkflow(ctx, tx, outbox.WorkflowSignal{
			WorkflowID: t.AwaitWorkflow, Name: cmp.Or(t.AwaitSignal, SignalName(t.ID)),
			Payload: map[string]string{"task_id": t.ID.String(), "status": string(t.Status)},
		})
		if err != nil {
			return t, err
		}
	}
	if err := announce(ctx, tx, eventwire.NodeTaskFinished, t); err != nil {
		return t, err
	}
	if !held || t.Class == agentwire.ClassConcurrent {
		return t, nil
	}
	return t, postgres.Notify(ctx, tx, channel, t.Node.String()) // tasks that waited for this one may start
}

// taints records whom a task let in, and with which rights.
func (t Task) taints(ctx context.Context, tx pgx.Tx) error {
	if by := t.givesRoot(); by != "" {
		return node.TaintRoot(ctx, tx, t.Node, by, t.entry())
	}
	return node.Entered(ctx, tx, t.Node, t.entry())
}

const (
	maxSteps       = 1000
	maxStepName    = 100
	maxStepMessage = 1000
)

var stepStatuses = map[string]bool{"started": true, "succeeded": true, "failed": true, "skipped": true}

// insertSteps stores the valid steps and drops the others. Steps are messages
// to people; a bad one is no reason to lose the lease.
func insertSteps(ctx context.Context, db *agenttaskdb.Queries, task id.NodeTask, r agentwire.ProgressRequest) error {
	var keep []agentwire.Step
	for _, s := range r.Steps {
		s.Name, s.Message = stored(s.Name, maxStepName), stored(s.Message, maxStepMessage)
		if s.Percent != nil && (*s.Percent < 0 || *s.Percent > 100) {
			s.Percent = nil
		}
		if s.Seq >= 1 && s.Seq <= maxSteps && s.Name != "" && stepStatuses[s.Status] {
			keep = append(keep, s)
		}
	}
	if len(keep) == 0 {
		return nil
	}
	encoded, err := json.Marshal(keep)
	if err != nil {
		return fmt.Errorf("encode steps of task %s: %w", task, err)
	}
	err = db.InsertSteps(ctx, agenttaskdb.InsertStepsParams{TaskID: task, Attempt: int32(r.Attempt), Steps: encoded}) //nolint:gosec // not above the attempts of the task
	if err != nil {
		return fmt.Errorf("insert steps of task %s: %w", task, err)
	}
	return nil
}

// causeOf makes whoever asked for a task the actor of what its end causes.
func causeOf(ctx context.Context, t Task) context.Context {
	ctx = telemetry.WithCorrelation(ctx, t.Correlation)
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{eventwire.HeaderTraceParent: t.TraceParent})
}
