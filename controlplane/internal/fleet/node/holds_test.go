package node_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/node"
)

func contains(b []byte, s string) bool { return bytes.Contains(b, []byte(s)) }

const reset = "decommission 1"

func TestAHeldNodeIsNotScheduled(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.hold(t, a.node, reset)
	held := w.read(t, a.node)
	if held.Schedulable || held.HeldBy != reset || held.Status != node.Active {
		t.Fatalf("%+v", held)
	}
	w.hold(t, a.node, reset)
	if again := w.read(t, a.node); again.Version != held.Version {
		t.Error("to hold it again changed it")
	}
	err := w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.Hold(ctx, tx, a.node, "decommission 2", "x")
		return err
	})
	wantCode(t, err, fault.Conflict, "node_held")
	if err == nil || !contains([]byte(err.Error()), reset) {
		t.Errorf("%v does not name the holder", err)
	}
	if err := w.unhold(t, a.node, "decommission 2"); err != nil || w.read(t, a.node).HeldBy != reset {
		t.Errorf("another than the holder let go: %v", err)
	}
	for range 2 {
		if err := w.unhold(t, a.node, reset); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.read(t, a.node); !n.Schedulable || n.HeldBy != "" || n.Version != held.Version+1 {
		t.Errorf("%+v", n)
	}
	for _, event := range []string{"hold", "unhold"} {
		if w.audited(t, a.node, "node."+event) != 1 {
			t.Errorf("%s is not audited once", event)
		}
		if n := w.count(t,
			`SELECT count(*) FROM node_events WHERE event = $1 AND cause = 'it is reset' AND snapshot ? 'status'`,
			event); n != 1 {
			t.Errorf("%s is in the history %d times", event, n)
		}
	}
	// Two operations want it at the same moment. One gets it.
	results := make(chan error, 2)
	for _, by := range []string{"decommission 3", "decommission 4"} {
		go func() {
			results <- w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
				_, err := node.Hold(ctx, tx, a.node, by, "x")
				return err
			})
		}()
	}
	if first, second := <-results, <-results; (first == nil) == (second == nil) {
		t.Errorf("both are told the same: %v %v", first, second)
	}
}

func TestOnlyItsHolderHoldsAndNothingHoldsWhatIsGone(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	hold := func(n id.Node, by string) error {
		return w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.Hold(ctx, tx, n, by, "x")
			return err
		})
	}
	if err := hold(a.node, ""); err == nil {
		t.Error("nobody holds the node")
	}
	wantCode(t, hold(id.New[id.Node](), reset), fault.NotFound, "node_not_found")
	w.drive(t, a.node, node.Drain, node.Drained, node.Remove, node.Uninstalled)
	wantCode(t, hold(a.node, reset), fault.Conflict, "node_deleted")
}

func TestAnOperatorCannotLiftTheHoldOfAnOperation(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	path := "/" + a.node.String()
	w.hold(t, a.node, reset)
	patch := func(body object) httpapitest.Answer {
		return w.call(t, http.MethodPatch, path, `"`+itoa(w.read(t, a.node).Version)+`"`, body)
	}
	got := patch(object{"schedulable": true})
	got.Wants(t, 409, "node_held")
	if !contains(got.Body, reset) {
		t.Errorf("the holder is not named in %s", got.Body)
	}
	patch(object{"held_by": ""}).Wants(t, 422, "validation_error")
	patch(object{"hold_reason": "fan"}).Wants(t, 200, "")
	patch(object{"hold_reason": ""}).Wants(t, 200, "")
	if n := w.read(t, a.node); n.HeldBy != reset || n.Schedulable {
		t.Errorf("%+v", n)
	}
	if _, err := w.owner.Exec(t.Context(), `UPDATE nodes SET schedulable = true WHERE id = $1`, a.node); err == nil {
		t.Error("the database lets a held node be schedulable")
	}
	// The operator's own reason outlives the operation.
	patch(object{"hold_reason": "fan"}).Wants(t, 200, "")
	if err := w.unhold(t, a.node, reset); err != nil {
		t.Fatal(err)
	}
	if n := w.read(t, a.node); n.Schedulable || n.HoldReason != "fan" {
		t.Errorf("%+v", n)
	}
}

func TestProofOfCleannessIsNewerThanTheTaint(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	looked := time.Now()
	w.taint(t, a.node)
	note := func(at time.Time) (n node.Node) {
		t.Helper()
		w.in(t, func(ctx context.Context, tx pgx.Tx) (err error) {
			n, err = node.NoteClean(ctx, tx, a.node, at, "nothing was found")
			return err
		})
		return n
	}
	if n := w.read(t, a.node); !n.Tainted() || !n.Schedulable {
		t.Errorf("in use, the node is %+v", n)
	}
	if n := note(looked.Add(-time.Hour)); !n.Tainted() {
		t.Error("a look before the tenant came covers what it left")
	}
	n := note(time.Now().Add(time.Hour))
	if n.Tainted() || n.CleanAt.After(time.Now().Add(time.Minute)) {
		t.Errorf("clean at %s", n.CleanAt)
	}
	if again := note(looked); !again.CleanAt.Equal(*n.CleanAt) || again.Version != n.Version {
		t.Error("an older look changed it")
	}
	w.taint(t, a.node)
	if !w.read(t, a.node).Tainted() {
		t.Error("a tenant that came after the look is covered by it")
	}
	if w.audited(t, a.node, "node.taint") != 2 || w.audited(t, a.node, "node.clean") != 2 {
		t.Error("not everything is audited")
	}
	var v struct {
		Tainted   bool      `json:"tainted"`
		TaintedAt time.Time `json:"tainted_at"`
		CleanAt   time.Time `json:"clean_at"`
		HeldBy    *string   `json:"held_by"`
	}
	w.call(t, http.MethodGet, "/"+a.node.String(), "", nil).Decode(t, &v)
	if !v.Tainted || v.TaintedAt.IsZero() || v.CleanAt.IsZero() || v.HeldBy == nil {
		t.Errorf("shown as %+v", v)
	}
	then, err := w.service.NodeAt(t.Context(), a.node, v.CleanAt.Add(-time.Nanosecond))
	if err != nil || then.CleanAt == nil || !then.Tainted() {
		t.Errorf("as it was: %+v %v", then, err)
	}
}

func TestWhatIsKeptOutComesBackByProof(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	keep := func() {
		t.Helper()
		w.in(t, func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.KeepOut(ctx, tx, a.node, "its reset was stopped")
			return err
		})
	}
	w.taint(t, a.node)
	w.hold(t, a.node, reset)
	keep()
	kept := w.read(t, a.node)
	keep()
	if n := w.read(t, a.node); kept.HoldReason == "" || n.Version != kept.Version ||
		w.audited(t, a.node, "node.keep_out") != 1 {
		t.Errorf("kept out again: %+v", n)
	}
	if err := w.unhold(t, a.node, reset); err != nil || w.read(t, a.node).Schedulable {
		t.Errorf("the operation cannot let go of what is kept out: %v", err)
	}
	w.clean(t, a.node)
	if n := w.read(t, a.node); !n.Schedulable || n.HoldReason != "" {
		t.Errorf("proven clean, it is %+v", n)
	}
	w.reason(t, a.node, "broken fan")
	keep()
	w.clean(t, a.node)
	if n := w.read(t, a.node); n.HoldReason != "broken fan" {
		t.Errorf("the reason of an operator became %q", n.HoldReason)
	}
}
