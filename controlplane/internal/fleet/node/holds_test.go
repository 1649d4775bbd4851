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

// holds says what holds a node, as the API shows it.
func (w *world) holds(tb testing.TB, n id.Node) map[string]string {
	tb.Helper()
	var v struct {
		Holds []struct {
			Kind, Reason, By string
			ID               string `json:"hold_id"`
		} `json:"holds"`
	}
	w.call(tb, http.MethodGet, "/"+n.String(), "", nil).Decode(tb, &v)
	out := map[string]string{}
	for _, h := range v.Holds {
		if h.By == "" {
			tb.Errorf("nobody holds it for %s", h.Kind)
		}
		out[h.Reason] = h.ID
	}
	return out
}

func (w *world) aside(tb testing.TB, n id.Node, kind node.HoldKind, owner, reason string) {
	tb.Helper()
	w.in(tb, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.SetAside(ctx, tx, n, node.Holding{Kind: kind, Owner: owner, Reason: reason}, "because")
		return err
	})
}

// Everybody who holds a node has a hold of their own: whoever lets go leaves those of
// the others.
func TestOneHoldPerReason(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	path := "/" + a.node.String()
	w.aside(t, a.node, node.ForRepair, "a1", "repair of a1")
	w.aside(t, a.node, node.ForComplaint, "a1", "GPU 3 is slow")
	w.aside(t, a.node, node.ForComplaint, "a2", "GPU 4 is slow")
	w.hold(t, a.node, reset)
	w.call(t, http.MethodPost, path+"/holds", "", object{"reason": "fan"}).Wants(t, 201, "")
	w.call(t, http.MethodPost, path+"/holds", "", object{"reason": "cable"}).Wants(t, 201, "")
	version := w.read(t, a.node).Version
	w.aside(t, a.node, node.ForRepair, "a1", "another text")
	if n := w.read(t, a.node); n.Version != version || n.HeldBy != reset ||
		n.HoldReason != "repair of a1; GPU 3 is slow; GPU 4 is slow; fan; cable" {
		t.Errorf("held by %q because %q", n.HeldBy, n.HoldReason)
	}
	lift := func(reason, code string, status int) {
		t.Helper()
		of, known := w.holds(t, a.node)[reason]
		if !known {
			t.Fatalf("nothing holds it for %q: %v", reason, w.holds(t, a.node))
		}
		w.call(t, http.MethodPost, path+"/holds/"+of+"/lift", "", object{"reason": "it is done"}).Wants(t, status, code)
	}
	// Whoever does not say which of several ends, ends none.
	etag := `"` + itoa(w.read(t, a.node).Version) + `"`
	w.call(t, http.MethodPatch, path, etag, object{"hold_reason": ""}).Wants(t, 409, "node_holds_several")
	lift("it is reset", "node_held", 409)
	lift("fan", "", 200)
	if err := w.unhold(t, a.node, reset); err != nil {
		t.Fatal(err)
	}
	w.in(t, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.LetBack(ctx, tx, a.node, node.ForComplaint, "a2", "it is fine")
		return err
	})
	if got := w.holds(t, a.node); len(got) != 3 || got["repair of a1"] == "" || got["GPU 3 is slow"] == "" ||
		got["cable"] == "" {
		t.Errorf("what was not lifted: %v", got)
	}
	lift("GPU 3 is slow", "", 200)
	lift("repair of a1", "", 200)
	if n := w.read(t, a.node); n.Schedulable || n.HoldReason != "cable" {
		t.Errorf("%q, schedulable %t", n.HoldReason, n.Schedulable)
	}
	lift("cable", "", 200)
	if n := w.read(t, a.node); !n.Schedulable || n.HoldReason != "" {
		t.Errorf("%q, schedulable %t", n.HoldReason, n.Schedulable)
	}
	w.call(t, http.MethodPost, path+"/holds/"+id.NewString()+"/lift", "", object{"reason": "x"}).
		Wants(t, 404, "node_hold_not_found")
	w.call(t, http.MethodPost, "/"+id.NewString()+"/holds", "", object{"reason": "x"}).Wants(t, 404, "node_not_found")
	w.callAs(t, "auditor", http.MethodPost, path+"/holds", "", object{"reason": "x"}).Wants(t, 403,
		"insufficient_permissions")
	if w.audited(t, a.node, "node.hold_added") != 2 || w.audited(t, a.node, "node.hold_lifted") != 4 {
		t.Error("not everything is audited")
	}
}

// That a node is not proven clean is a hold beside the others, and only proof ends it.
func TestANodeThatIsNotCleanIsHeldForThatToo(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	path := "/" + a.node.String()
	w.aside(t, a.node, node.ForRepair, "a1", "repair")
	w.taint(t, a.node)
	keep := func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.KeepOut(ctx, tx, a.node, "its reset was stopped")
		return err
	}
	w.in(t, keep)
	w.in(t, keep)
	const unclean = "not proven clean since a tenant had access"
	held := w.holds(t, a.node)
	if len(held) != 2 || held[unclean] == "" {
		t.Fatalf("%v", held)
	}
	w.call(t, http.MethodPost, path+"/holds/"+held[unclean]+"/lift", "", object{"reason": "I say so"}).
		Wants(t, 409, "node_tainted")
	etag := `"` + itoa(w.read(t, a.node).Version) + `"`
	w.call(t, http.MethodPatch, path, etag, object{"schedulable": true}).Wants(t, 409, "node_tainted")
	w.call(t, http.MethodPatch, path, etag, object{"hold_reason": ""}).Wants(t, 200, "")
	if n := w.read(t, a.node); n.Schedulable || !n.HeldUnclean || n.HoldReason != unclean {
		t.Errorf("%+v", n)
	}
	w.aside(t, a.node, node.ForRepair, "a1", "repair")
	if w.read(t, a.node).HeldUnclean {
		t.Error("a node that is repaired too is held for nothing but that it is not clean")
	}
	w.clean(t, a.node)
	if n := w.read(t, a.node); n.Schedulable || n.HoldReason != "repair" {
		t.Errorf("proven clean, it is held for %q", n.HoldReason)
	}
}

// What a replica of the release before wrote into the row alone counts.
func TestHoldsOfTheReleaseBefore(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	w.exec(t, `UPDATE nodes SET hold_reason = 'fan', schedulable = false WHERE id = $1`, a.node)
	w.aside(t, a.node, node.ForRepair, "a1", "repair")
	if n := w.read(t, a.node); n.HoldReason != "fan; repair" {
		t.Errorf("%q", n.HoldReason)
	}
	w.exec(t, `UPDATE nodes SET hold_reason = '', schedulable = true WHERE id = $1`, a.node)
	w.hold(t, a.node, reset)
	if err := w.unhold(t, a.node, reset); err != nil {
		t.Fatal(err)
	}
	if n := w.read(t, a.node); !n.Schedulable || w.count(t, `SELECT count(*) FROM node_holds`) != 0 {
		t.Errorf("%+v", n)
	}
}

// The database refuses holds that the node itself does not tell of.
func TestHoldsAndNodesAgree(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	_, err := w.owner.Exec(t.Context(), `INSERT INTO node_holds (id, node_id, kind, reason)
		VALUES (gen_random_uuid(), $1, 'operator', 'x')`, a.node)
	if err == nil {
		t.Error("a node is schedulable that is held")
	}
}
