package node_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
)

// Every edge of the lifecycle can be taken and leaves its trace. An event that
// is no edge changes nothing.
func TestEveryEdgeLeavesItsTrace(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	put := func(status node.Status) {
		w.exec(t, `UPDATE nodes SET status = $1, schedulable = false`, string(status))
	}
	for _, from := range node.Lifecycle.States {
		for _, event := range node.Lifecycle.AllEvents() {
			put(from.Name)
			before := w.read(t, a.node)
			edge, known := edgeOf(from.Name, event)
			err := w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
				_, err := node.Move(ctx, tx, a.node, event, "because")
				return err
			})
			after := w.read(t, a.node)
			if !known {
				wantCode(t, err, fault.Conflict, "node_state_conflict")
				if after.Version != before.Version {
					t.Errorf("%s in %s was refused and changed the node", event, from.Name)
				}
				continue
			}
			if err != nil || after.Status != edge.To || edge.Owner == "" || after.Schedulable != (edge.To == node.Active) {
				t.Errorf("%s in %s, owned by %q: %+v %v", event, from.Name, edge.Owner, after, err)
			}
			if want := before.Generation + map[bool]int64{true: 1}[event == node.Reimage]; after.Generation != want {
				t.Errorf("%s in %s: generation %d, want %d", event, from.Name, after.Generation, want)
			}
			entries, err := w.service.History(t.Context(), a.node, 0, nil, 1)
			if err != nil {
				t.Fatal(err)
			}
			e := entries[0]
			if e.Kind != node.KindStateChanged || e.Event != string(event) || e.From != from.Name || e.To != edge.To ||
				e.Cause != "because" ||
				e.ActorID != "system:test" || e.CorrelationID != "test" {
				t.Errorf("%s in %s: history says %+v", event, from.Name, e)
			}
		}
	}
	edges := int64(len(node.Lifecycle.Edges))
	if told := w.told(t, a.node, "node.state_changed"); told != edges+2 {
		t.Errorf("%d changes were told, want one per edge", told)
	}
}

func edgeOf(from node.Status, event node.Event) (found struct {
	To    node.Status
	Owner string
}, known bool,
) {
	for _, e := range node.Lifecycle.Edges {
		if e.From == from && e.Event == event {
			found.To, found.Owner, known = e.To, e.Owner, true
		}
	}
	return found, known
}

func TestAHeldNodeReturnsHeld(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	why := "broken fan"
	n, err := w.service.Update(system(t), a.node, w.read(t, a.node).Version, node.Change{HoldReason: &why})
	if err != nil || n.Schedulable || n.Status != node.Active {
		t.Fatalf("%+v %v", n, err)
	}
	w.drive(t, a.node, node.LoseContact, node.RegainContact)
	if n := w.read(t, a.node); n.Schedulable || n.HoldReason != why {
		t.Errorf("the node is %+v", n)
	}
}
