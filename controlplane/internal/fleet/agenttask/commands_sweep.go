package agenttask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
)

const sweepBite = 500

// Sweep takes tasks back from nodes that fell silent, and ends tasks that can
// no longer be carried out. It returns how many it changed. Several processes
// may sweep at once; only one of them changes a given task.
func (q *Queue) Sweep(ctx context.Context) (int, error) {
	ctx = auth.With(ctx, auth.System("node-task-sweeper"))
	changed := 0
	var failures []error
	for {
		now := q.cfg.Clock()
		due, err := agenttaskdb.New(q.cfg.DB).Overdue(ctx,
			agenttaskdb.OverdueParams{Now: now, OverrunBefore: now.Add(-overtime), BatchSize: sweepBite})
		if err != nil {
			return changed, fmt.Errorf("look for overdue tasks: %w", err)
		}
		before := changed
		for _, task := range due {
			did, err := q.sweepOne(ctx, task)
			switch {
			case err != nil:
				failures = append(failures, err) // a task that cannot be ended does not stop the others
			case did:
				changed++
			}
		}
		if len(due) < sweepBite || changed == before {
			return changed, errors.Join(failures...)
		}
	}
}

func (q *Queue) sweepOne(ctx context.Context, task id.NodeTask) (changed bool, err error) {
	err = q.cfg.DB.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		changed = false
		db := agenttaskdb.New(tx)
		row, err := db.LockOverdue(ctx, task)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // another transaction has the task
		}
		t, err := found(row.NodeTask, err, task)
		if err != nil {
			return err
		}
		now := q.cfg.Clock()
		fate := fateOf(t, row.Superseded, now)
		ctx = causeOf(ctx, t)
		if fate.event == "" {
			return nil // the task changed before we had the lock
		}
		changed = true
		if fate.event == Requeue {
			if _, err := Lifecycle.Next(t.Status, Requeue); err != nil {
				return err
			}
			if err := db.Requeue(ctx, t.ID); err != nil {
				return fmt.Errorf("requeue task %s: %w", t.ID, err)
			}
			return postgres.Notify(ctx, tx, channel, t.Node.String())
		}
		_, err = finish(ctx, tx, t, now, fate)
		return err
	})
	return changed, err
}

// fateOf decides what becomes of a task that may be overdue. It returns no
// event if the task is not overdue.
func fateOf(t Task, superseded bool, now time.Time) ending {
	silent := t.Status == Dispatched && !now.Before(*t.LeaseExpiresAt)
	late := !now.Before(t.DeadlineAt)
	switch {
	case t.Status.Ended():
		return ending{}
	case superseded:
		return ending{event: Cancel, void: true, err: agentwire.TaskError{
			Code:    CodeSuperseded,
			Message: "the node was taken over or removed; what it was asked before is void",
		}}
	case silent && t.CancelRequested:
		return ending{event: Cancel, err: agentwire.TaskError{
			Code:    CodeCancelled,
			Message: "its node fell silent before it could stop it; the effect is unknown",
		}}
	case silent && (late || t.Attempt >= t.MaxAttempts):
		return ending{event: Expire, err: agentwire.TaskError{
			Code: CodeSilent, Message: fmt.Sprintf("the node gave no sign of life during %d attempts; the effect is unknown",
				t.Attempt),
			Remedy: "see why the node is silent, look at its state, then ask again",
		}}
	case silent:
		return ending{event: Requeue}
	case t.Status == Dispatched && t.hopeless(now):
		e := ending{event: Expire, err: agentwire.TaskError{
			Code: CodeOverran, Message: "its node gives signs of life, but did not end it long after its time was over; the " +
				"effect is unknown",
			Remedy: "look at the node and at the log of its agent, then ask again",
		}}
		if t.CancelRequested {
			e.event, e.err.Code = Cancel, CodeCancelled
		}
		return e
	case t.Status == Queued && late && t.Attempt == 0:
		return ending{event: Expire, err: agentwire.TaskError{
			Code: CodeNotFetched, Message: "the node did not come for it in time; nothing was done",
			Remedy: "see why the node does not poll, or what it is busy with, then ask again",
		}}
	case t.Status == Queued && late:
		return ending{event: Expire, err: agentwire.TaskError{
			Code: CodeSilent, Message: fmt.Sprintf("the node had it %d times, fell silent, and did not come for it again; the "+
				"effect is unknown", t.Attempt),
			Remedy: "see why the node is silent, look at its state, then ask again",
		}}
	}
	return ending{}
}

// overtime is how long a node may go on with a task after its time is over, at
// least. Then nobody waits for it any more: an agent that hangs, or lies, renews its
// lease for ever, and whoever it let in meanwhile has the node for nothing.
const overtime = 15 * time.Minute

// hopeless reports whether a node that gives signs of life will not end a task any
// more.
func (t Task) hopeless(now time.Time) bool {
	return t.DispatchedAt != nil && !now.Before(t.expiry(*t.DispatchedAt).Add(t.patienceAfter()))
}

// patienceAfter is how long a node may go on after the time of a task is over. A
// disk that is being erased cannot be interrupted, and neither can some steps of
// operations: agents of earlier versions finish them, however little time is left.
func (t Task) patienceAfter() time.Duration {
	patience := overtime
	if spec, _ := agentwire.Lookup(t.Type); spec.Destroys != "" {
		patience = max(patience, t.Window)
	}
	var p agentwire.OperationRunParams
	if t.Type != agentwire.TypeOperationRun || json.Unmarshal(t.Params, &p) != nil {
		return patience
	}
	for _, s := range p.Steps {
		if kind, _ := agentwire.LookupStep(s.Kind); !kind.Interruptible {
			patience = max(patience, time.Duration(s.TimeoutSeconds)*time.Second+time.Minute)
		}
	}
	return patience
}
