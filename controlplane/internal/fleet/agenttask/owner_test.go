package agenttask_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// row is an owner that accepts everything, or refuses everything.
type row struct{ refuses error }

func (r row) Owns(context.Context, pgx.Tx, id.Node, string) error { return r.refuses }

// The command itself refuses, whoever calls it: workflows and activities run as
// the system, which may do everything else.
func TestAttackNobodyGivesAReservedTaskWithoutItsRow(t *testing.T) {
	w := newWorld(t)
	ctx := auth.With(w.ctx, auth.System("workflow:forged"))
	ended := errors.New("the row has ended")
	for typ, params := range map[string]any{
		agentwire.TypeProvisionUser:   params[agentwire.TypeProvisionUser],
		agentwire.TypeRevokeUser:      params[agentwire.TypeDeprovisionUser],
		agentwire.TypeUpdateVerifiers: agentwire.UpdateVerifiersParams{Set: w.signer.trusted},
		agentwire.TypeTerminalOpen: agentwire.TerminalOpenParams{
			SessionID: "00000000-0000-4000-8000-000000000001", Username: "u1", GatewayURL: "wss://attacker.example:8443",
			Columns: 80, Rows: 24, IdleSeconds: 600, TotalSeconds: 3600,
		},
	} {
		n := w.node(t)
		r := agenttask.Request{Node: n, Type: typ, Params: params, IdempotencyKey: "k", Reason: "test"}
		if _, err := w.enqueue(ctx, r); fault.CodeOf(err) != "node_task_type_reserved" {
			t.Errorf("%s without a row: %v", typ, err)
		}
		err := w.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := w.commands.EnqueueForFleet(ctx, tx, r)
			return err
		})
		if fault.CodeOf(err) != "node_task_type_reserved" {
			t.Errorf("%s for the fleet without a row: %v", typ, err)
		}
		r.Owner = row{ended}
		if _, err := w.enqueue(ctx, r); !errors.Is(err, ended) {
			t.Errorf("%s for a row that ended: %v", typ, err)
		}
		if e := w.poll(t, n); e != nil {
			t.Errorf("the node is given %s", e.Type)
		}
	}
}

// A workflow that already waits must not wait for ever because another one asks
// for the same task.
func TestATaskThatIsAwaitedIsNotTakenOver(t *testing.T) {
	w := newWorld(t)
	n := w.node(t)
	r := agenttask.Request{Node: n, Type: agentwire.TypeDrain, IdempotencyKey: "once", AwaitWorkflow: "an-earlier-one"}
	task, err := w.enqueue(w.ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	other := r
	other.AwaitWorkflow = "a-later-one"
	if _, err := w.enqueue(w.ctx, other); fault.CodeOf(err) != "node_task_awaited" || fault.KindOf(err) != fault.Conflict {
		t.Fatalf("another asks the same: %v", err)
	}
	if _, err := w.enqueue(w.ctx, r); err != nil {
		t.Errorf("the earlier one asks again: %v", err)
	}
	w.fetch(t, task)
	if err := w.queue.Result(t.Context(), n, task.ID, succeeded(t, 1, agentwire.DrainOutput{Draining: true})); err != nil {
		t.Fatal(err)
	}
	told := w.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal'
		AND aggregate_id = 'an-earlier-one' AND envelope->>'name' = $1`, agenttask.SignalName(task.ID))
	if told != 1 {
		t.Errorf("the workflow that waits is told %d times", told)
	}
	if task, err := w.enqueue(w.ctx, other); err != nil || task.Status != agenttask.Succeeded {
		t.Errorf("after its end: %+v, %v", task, err)
	}
}
