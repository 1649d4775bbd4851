package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

const reimage = "decommission-1"

func (w *world) reimaged(tb testing.TB, n id.Node, workflow string) (after node.Node, err error) {
	tb.Helper()
	err = w.db.InTx(system(tb), func(ctx context.Context, tx pgx.Tx) error {
		after, err = node.Reimaged(ctx, tx, n, workflow, "it is reimaged")
		return err
	})
	return after, err
}

func TestAReimagedNodeIsTheSameNodeWithAnotherIdentity(t *testing.T) {
	w := newWorld(t)
	old, first := w.onboard(t, "m1")
	old.arrive(t, first)
	old.polls(t)
	w.drive(t, old.node, node.Enrolled)
	w.taint(t, old.node)
	w.hold(t, old.node, reset)
	recovery, _, err := w.service.IssueToken(system(t), old.node, node.Recovery, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.reimaged(t, old.node, reimage)
	wantCode(t, err, fault.Conflict, "node_state_conflict")
	old.polls(t) // a refused command changed nothing
	w.drive(t, old.node, node.Drain)
	old.polls(t) // it must fetch its drain

	before := w.read(t, old.node)
	after, err := w.reimaged(t, old.node, reimage)
	if err != nil || after.ID != old.node || after.Status != node.Enrolling || after.Generation != before.Generation+1 {
		t.Fatalf("%+v %v", after, err)
	}
	if after.AgentInstance != "" || after.FirstPollAt != nil || after.CertificateNotAfter != nil ||
		after.AwaitedBy != reimage || after.HeldBy != reset || !after.Tainted() {
		t.Errorf("%+v", after)
	}
	again, err := w.reimaged(t, old.node, reimage)
	if err != nil || again.Version != after.Version {
		t.Errorf("once more: %+v %v", again, err)
	}
	_, err = w.reimaged(t, old.node, "another")
	wantCode(t, err, fault.Conflict, "node_state_conflict")

	wantCode(t, old.poll(t, "s"), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	wantCode(t, old.begin(t, first), fault.Unauthenticated, agentwire.CodeTokenInvalid)
	wantCode(t, old.begin(t, recovery), fault.Unauthenticated, agentwire.CodeTokenInvalid)

	token, _, err := w.service.IssueToken(system(t), old.node, node.Bootstrap, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	fresh := &agent{
		w: w, node: old.node, key: "fresh",
		Presented: node.Presented{Node: old.node, Instance: old.Instance, Session: "after the reimage"},
	}
	told := len(w.signals(t))
	fresh.arrive(t, token)
	if n := w.read(t, old.node); n.Generation != after.Generation {
		t.Errorf("generation %d: what was queued for the node since its reimage is void", n.Generation)
	}
	fresh.polls(t)
	signals := w.signals(t)
	if len(signals) != told+1 || signals[told].WorkflowID != reimage {
		t.Errorf("workflows were told %+v", signals)
	}
	wantCode(t, old.poll(t, "s"), fault.Unauthenticated, agentwire.CodeCertificateRevoked)

	w.drive(t, old.node, node.Enrolled)
	if n := w.read(t, old.node); n.Status != node.Active || n.Schedulable || n.HoldReason != "" {
		t.Errorf("the operation has still to prove it clean: %+v", n)
	}
	wantCode(t, w.unhold(t, old.node, reset), fault.Conflict, "node_tainted")
	w.clean(t, old.node)
	if err := w.unhold(t, old.node, reset); err != nil || !w.read(t, old.node).Schedulable {
		t.Errorf("proven clean, it is not scheduled: %v", err)
	}
}

// The workflow that awaits a node decides about it, even if the node was once
// added by hand.
func TestTheWorkflowCompletesTheEnrolmentOfWhatItReimaged(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "by-hand")
	w.drive(t, a.node, node.Drain)
	if _, err := w.reimaged(t, a.node, reimage); err != nil {
		t.Fatal(err)
	}
	token, _, err := w.service.IssueToken(system(t), a.node, node.Bootstrap, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	a.key = "fresh"
	a.arrive(t, token)
	a.polls(t)
	a.polls(t)
	if n := w.read(t, a.node); n.Status != node.Enrolling || n.FirstPollAt == nil {
		t.Errorf("%+v", n)
	}
	if told := w.signals(t); len(told) != 1 || told[0].WorkflowID != reimage {
		t.Errorf("workflows were told %+v", told)
	}
}

func TestARemovedNodeIsGoneAndItsNameIsFree(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	remove := func() (after node.Node, err error) {
		err = w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
			after, err = node.Removed(ctx, tx, a.node, "it is uninstalled")
			return err
		})
		return after, err
	}
	for _, event := range []node.Event{node.Drain, node.Drained, node.Remove} {
		_, err := remove()
		wantCode(t, err, fault.Conflict, "node_state_conflict")
		w.drive(t, a.node, event)
	}
	a.polls(t) // it must fetch its uninstall; a refused command changed nothing
	gone, err := remove()
	if err != nil || gone.Status != node.Deleted || gone.CertificateNotAfter != nil {
		t.Fatalf("%+v %v", gone, err)
	}
	again, err := remove()
	if err != nil || again.Version != gone.Version {
		t.Errorf("once more: %+v %v", again, err)
	}
	wantCode(t, a.poll(t, a.Session), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	for _, purpose := range []node.Purpose{node.Bootstrap, node.Recovery} {
		_, _, err := w.service.IssueToken(system(t), a.node, purpose, 0)
		wantCode(t, err, fault.Conflict, "node_state_conflict")
	}
	for _, event := range node.Lifecycle.AllEvents() {
		wantCode(t, w.try(t, a.node, event), fault.Conflict, "node_state_conflict")
	}
	err = w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.CreateInTx(ctx, tx, node.NewNode{ID: a.node, Hostname: "b", SKU: someSKU, RegionCode: "eu-1"})
		return err
	})
	wantCode(t, err, fault.Conflict, "node_exists")
	if made, _ := w.make(t, "a"); made.ID == a.node {
		t.Error("the id is used again")
	}
	if entries, err := w.service.History(t.Context(), a.node, 0, nil, 100); err != nil || len(entries) < 5 {
		t.Errorf("%d entries of its history are left: %v", len(entries), err)
	}
}

// A node that was added by hand and never came into service can be removed
// wherever it is stuck.
func TestWhatWasAddedByHandCanBeAbandoned(t *testing.T) {
	w := newWorld(t)
	waiting, token := w.make(t, "never-came")
	stuck := w.enrol(t, "never-polled")
	for _, n := range []id.Node{waiting.ID, stuck.node} {
		w.in(t, func(ctx context.Context, tx pgx.Tx) error {
			after, err := node.Abandon(ctx, tx, n, "it never came")
			if after.Status != node.Deleted || after.CertificateNotAfter != nil {
				t.Errorf("%+v", after)
			}
			return err
		})
	}
	wantCode(t, stuck.poll(t, "s"), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	late := &agent{
		w: w, node: waiting.ID, key: "k",
		Presented: node.Presented{Node: waiting.ID, Instance: "m", Session: "s"},
	}
	wantCode(t, late.begin(t, token), fault.Unauthenticated, agentwire.CodeTokenInvalid)
}

// While a node is retired its agent is refused. After reactivation the same
// agent works on, without anybody touching the machine.
func TestAReactivatedNodePollsAgain(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.taint(t, a.node)
	w.drive(t, a.node, node.Drain)
	a.polls(t)
	w.drive(t, a.node, node.Drained)
	wantCode(t, a.poll(t, a.Session), fault.Forbidden, agentwire.CodeNodeFenced)
	wantCode(t, w.try(t, a.node, node.Reactivate), fault.Conflict, "node_tainted")
	w.hold(t, a.node, reset)
	w.drive(t, a.node, node.Reactivate)
	if n := w.read(t, a.node); n.Status != node.Active || n.Schedulable {
		t.Errorf("%+v", n)
	}
	a.polls(t)
	wantCode(t, w.unhold(t, a.node, reset), fault.Conflict, "node_tainted")
	w.clean(t, a.node)
	if err := w.unhold(t, a.node, reset); err != nil || !w.read(t, a.node).Schedulable {
		t.Error(err)
	}
}

// An operation owns the state of a node that is drained, removed or reimaged:
// silence does not change it. A held active node becomes offline when it is
// silent, and is still held when it comes back.
func TestSilenceDuringAnOperation(t *testing.T) {
	w := newWorld(t)
	for _, events := range [][]node.Event{
		{node.Drain},
		{node.Drain, node.Drained},
		{node.Drain, node.Drained, node.Remove},
		{node.Drain, node.Reimage},
		{node.Quarantine},
	} {
		w.drive(t, w.active(t, "n-"+id.NewString()).node, events...)
	}
	w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '1 hour'`)
	w.listens(t)
	w.exec(t, `UPDATE node_contacts SET last_contact_at = clock_timestamp() - interval '1 hour'`)
	if n := w.sweep(t); n != 0 {
		t.Errorf("%d nodes changed", n)
	}
	a := w.active(t, "held")
	w.taint(t, a.node)
	w.hold(t, a.node, reset)
	w.exec(t, `UPDATE nodes SET status_changed_at = clock_timestamp() - interval '1 hour' WHERE id = $1`, a.node)
	w.silent(t, a.node, 60)
	if n := w.sweep(t); n != 1 || w.read(t, a.node).Status != node.Offline {
		t.Errorf("%d nodes changed; it is %+v", n, w.read(t, a.node))
	}
	a.polls(t)
	if err := w.service.Contacts().Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.sweep(t); n != 1 {
		t.Errorf("%d nodes changed", n)
	}
	if n := w.read(t, a.node); n.Status != node.Active || n.Schedulable || n.HeldBy != reset {
		t.Errorf("%+v", n)
	}
}
