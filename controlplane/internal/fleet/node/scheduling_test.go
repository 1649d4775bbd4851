package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/node"
)

func TestWhatIsTainted(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before, after := at.Add(-time.Second), at.Add(time.Second)
	for name, c := range map[string]struct {
		tainted, clean *time.Time
		want           bool
	}{
		"never used":            {nil, nil, false},
		"never used, looked at": {nil, &at, false},
		"used":                  {&at, nil, true},
		"used and cleaned":      {&at, &after, false},
		"cleaned and used":      {&at, &before, true},
		"both at once":          {&at, &at, true},
	} {
		if got := (node.Node{TaintedAt: c.tainted, CleanAt: c.clean}).Tainted(); got != c.want {
			t.Errorf("%s: tainted is %v", name, got)
		}
	}
}

// walk is a node to which anything may happen, in any order.
type walk struct {
	*world
	t    *testing.T
	node id.Node
	rand *rand.Rand
}

// tx makes one command of a step.
func (w *walk) tx(do func(ctx context.Context, tx pgx.Tx) error) error {
	return w.db.InTx(system(w.t), do)
}

func (w *walk) patch(ch node.Change) error {
	_, err := w.service.Update(system(w.t), w.node, w.read(w.t, w.node).Version, ch)
	return err
}

// step does one thing that somebody may do. Almost all of them can be refused.
func (w *walk) step() (what string, err error) {
	yes, none, why := true, "", "why"
	by := fmt.Sprintf("decommission %d", w.rand.IntN(2))
	switch n := w.rand.IntN(15); n {
	case 0:
		return "patch schedulable", w.patch(node.Change{Schedulable: &yes})
	case 1:
		return "patch no reason", w.patch(node.Change{HoldReason: &none})
	case 2:
		return "patch reason", w.patch(node.Change{HoldReason: &why})
	case 3:
		_, err := w.service.Quarantine(system(w.t), w.node, why)
		return "quarantine", err
	case 4:
		_, err := w.service.ReturnToService(system(w.t), w.node, why)
		return "return to service", err
	case 5:
		return "hold by " + by, w.tx(func(ctx context.Context, tx pgx.Tx) error {
			_,
				err := node.Hold(ctx, tx, w.node, by, why)
			return err
		})
	case 6:
		return "unhold by " + by, w.tx(func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.Unhold(ctx, tx, w.node, by, why)
			return err
		})
	case 7:
		return "taint", w.tx(func(ctx context.Context, tx pgx.Tx) error { return node.Taint(ctx, tx, w.node, why) })
	case 8:
		return "reimaged", w.tx(func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.Reimaged(ctx, tx, w.node, "reimage-1", why)
			return err
		})
	case 9:
		return "keep out", w.tx(func(ctx context.Context, tx pgx.Tx) error {
			_,
				err := node.KeepOut(ctx, tx, w.node, why)
			return err
		})
	case 10:
		at := time.Now().Add(time.Duration(w.rand.IntN(3)-1) * time.Hour)
		return "clean at " + at.String(), w.tx(func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.NoteClean(ctx, tx, w.node, at, why)
			return err
		})
	case 11:
		return "set aside", w.tx(func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.SetAside(ctx, tx, w.node, node.Holding{Kind: node.ForRepair, Owner: "a", Reason: why}, why)
			return err
		})
	case 12:
		return "let back", w.tx(func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.LetBack(ctx, tx, w.node, node.ForRepair, "a", why)
			return err
		})
	default:
		events := node.Lifecycle.Events(w.read(w.t, w.node).Status)
		event := node.Event(events[w.rand.IntN(len(events))])
		if event == node.Abandoned || event == node.Uninstalled {
			return "nothing", nil // otherwise the walk would end here
		}
		return string(event), w.tx(func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.Move(ctx, tx, w.node, event, why)
			return err
		})
	}
}

// Whatever happens in whatever order, a node that a tenant had access to is
// never put into service without proof. Regaining contact only restores what
// was before.
func TestNothingTaintedIsPutIntoService(t *testing.T) {
	w := newWorld(t)
	put := 0 // how often a node came into service again
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			walk := &walk{world: w, t: t, node: w.active(t, fmt.Sprint("n", seed)).node, rand: rand.New(rand.NewPCG(seed, 1))}
			var trail []string
			served := true // in service except for contact
			for range 120 {
				before := w.read(t, walk.node)
				what, err := walk.step()
				after := w.read(t, walk.node)
				trail = append(trail, fmt.Sprintf("%s -> %s held=%q reason=%q tainted=%v schedulable=%v %v",
					what, after.Status, after.HeldBy, after.HoldReason, after.Tainted(), after.Schedulable, err))
				if err != nil && (fault.KindOf(err) != fault.Conflict || after.Version != before.Version) {
					t.Fatalf("%s: %v; the node is %+v", what, err, after)
				}
				free := after.HoldReason == "" && after.HeldBy == ""
				if after.Schedulable != (after.Status == node.Active && free) {
					t.Fatalf("%s leaves %+v", what, after)
				}
				serves := free && after.Status.Is(node.Serving)
				if serves && !served {
					put++
				}
				if serves && !served && after.Tainted() {
					for _, line := range trail {
						t.Log(line)
					}
					t.Fatalf("%s put a tainted node into service", what)
				}
				served = serves
			}
		})
	}
	if put == 0 {
		t.Error("no walk came into service again: they prove nothing")
	}
}

// Each way into service, tried on a tainted node.
func TestTheWaysBackIntoService(t *testing.T) {
	w := newWorld(t)
	yes, none := true, ""
	const by = "decommission 1"
	for name, c := range map[string]struct {
		put      func(t *testing.T, n id.Node) // out of service
		back     func(n id.Node) error
		refused  bool
		reason   string // the hold reason if it is not refused
		schedule bool
	}{
		"return to service": {
			put:     func(t *testing.T, n id.Node) { w.drive(t, n, node.Quarantine) },
			back:    func(n id.Node) error { _, err := w.service.ReturnToService(system(t), n, "fine"); return err },
			refused: true,
		},
		"reactivate": {
			put:     func(t *testing.T, n id.Node) { w.drive(t, n, node.Drain, node.Drained) },
			back:    func(n id.Node) error { return w.try(t, n, node.Reactivate) },
			refused: true,
		},
		"patch schedulable": {
			put: func(t *testing.T, n id.Node) { w.reason(t, n, "fan") },
			back: func(n id.Node) error {
				_, err := w.service.Update(system(t), n, w.read(t, n).Version, node.Change{Schedulable: &yes})
				return err
			},
			refused: true,
		},
		"patch the reason while offline": {
			put: func(t *testing.T, n id.Node) { w.reason(t, n, "fan"); w.drive(t, n, node.LoseContact) },
			back: func(n id.Node) error {
				_, err := w.service.Update(system(t), n, w.read(t, n).Version, node.Change{HoldReason: &none})
				return err
			},
			refused: true,
		},
		"unhold": {
			put:     func(t *testing.T, n id.Node) { w.hold(t, n, by) },
			back:    func(n id.Node) error { return w.unhold(t, n, by) },
			refused: true,
		},
		"unhold while offline": {
			put:    func(t *testing.T, n id.Node) { w.hold(t, n, by); w.drive(t, n, node.LoseContact) },
			back:   func(n id.Node) error { return w.unhold(t, n, by) },
			reason: "not proven clean since a tenant had access",
		},
		"failed drain": {
			put:    func(t *testing.T, n id.Node) { w.drive(t, n, node.Drain) },
			back:   func(n id.Node) error { return w.try(t, n, node.DrainFailed) },
			reason: "not proven clean since a tenant had access",
		},
		"enrolled anew": {
			put:    func(t *testing.T, n id.Node) { w.drive(t, n, node.Drain, node.Reimage) },
			back:   func(n id.Node) error { return w.try(t, n, node.Enrolled) },
			reason: "not proven clean since a tenant had access",
		},
		"regained contact restores what was": {
			put:      func(t *testing.T, n id.Node) { w.drive(t, n, node.LoseContact) },
			back:     func(n id.Node) error { return w.try(t, n, node.RegainContact) },
			schedule: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := w.active(t, "n-"+id.NewString()).node
			w.taint(t, n)
			c.put(t, n)
			before := w.read(t, n)
			err := c.back(n)
			after := w.read(t, n)
			if c.refused {
				wantCode(t, err, fault.Conflict, "node_tainted")
				if after.Version != before.Version {
					t.Error("what was refused changed the node")
				}
			} else if err != nil || after.HoldReason != c.reason {
				t.Errorf("held by %q, want %q: %v", after.HoldReason, c.reason, err)
			}
			if after.Schedulable != c.schedule {
				t.Errorf("schedulable is %v", after.Schedulable)
			}
			w.clean(t, n)
			if c.refused {
				if err := c.back(n); err != nil {
					t.Errorf("proven clean, it is refused still: %v", err)
				}
			}
			if after := w.read(t, n); after.Tainted() || after.HoldReason != "" ||
				after.Schedulable != (after.Status == node.Active) {
				t.Errorf("proven clean, the node is %+v", after)
			}
		})
	}
}

func (w *world) try(tb testing.TB, n id.Node, event node.Event) error {
	tb.Helper()
	return w.db.InTx(system(tb), func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.Move(ctx, tx, n, event, "because")
		return err
	})
}

func (w *world) reason(tb testing.TB, n id.Node, why string) {
	tb.Helper()
	if _, err := w.service.Update(system(tb), n, w.read(tb, n).Version, node.Change{HoldReason: &why}); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) hold(tb testing.TB, n id.Node, by string) {
	tb.Helper()
	w.in(tb, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.Hold(ctx, tx, n, by, "it is reset")
		return err
	})
}

func (w *world) unhold(tb testing.TB, n id.Node, by string) error {
	tb.Helper()
	return w.db.InTx(system(tb), func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.Unhold(ctx, tx, n, by, "it is reset")
		return err
	})
}

func (w *world) taint(tb testing.TB, n id.Node) {
	tb.Helper()
	w.in(tb, func(ctx context.Context, tx pgx.Tx) error { return node.Taint(ctx, tx, n, "a tenant came") })
}

func (w *world) clean(tb testing.TB, n id.Node) {
	tb.Helper()
	w.in(tb, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.NoteClean(ctx, tx, n, time.Now().Add(time.Minute), "nothing was found")
		return err
	})
}

func TestPlainActions(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	path := "/" + a.node.String()
	quarantine := func() httpapitest.Answer {
		return w.call(t, http.MethodPost, path+"/quarantine", "", object{"reason": "flaky NVLink"})
	}
	back := func() httpapitest.Answer {
		return w.call(t, http.MethodPost, path+"/return-to-service", "", object{"reason": "NVLink replaced"})
	}
	w.call(t, http.MethodPost, path+"/quarantine", "", object{"reason": ""}).Wants(t, 422, "validation_error",
		"body.reason")
	w.call(t, http.MethodPost, "/"+id.NewString()+"/quarantine", "", object{"reason": "x"}).Wants(t, 404, "node_not_found")
	w.callAs(t, "auditor", http.MethodPost, path+"/quarantine", "", object{"reason": "x"}).Wants(t, 403,
		"insufficient_permissions")
	for range 2 {
		got := quarantine()
		got.Wants(t, 200, "")
		var v struct {
			Status      string
			Schedulable bool
			Version     int64
		}
		got.Decode(t, &v)
		if v.Status != "quarantined" || v.Schedulable || got.Header.Get("ETag") != `"`+itoa(v.Version)+`"` {
			t.Errorf("%s %s", got.Body, got.Header.Get("ETag"))
		}
	}
	if w.audited(t, a.node, "node.quarantine") != 1 {
		t.Error("what happened once is audited otherwise")
	}
	if n := w.count(t,
		`SELECT count(*) FROM audit_logs WHERE action = 'node.quarantine' AND reason = 'flaky NVLink' AND actor_id = 'user:root'`); n != 1 {
		t.Error("the reason and who gave it are not audited")
	}
	back().Wants(t, 200, "")
	back().Wants(t, 200, "")
	if n := w.read(t, a.node); n.Status != node.Active || !n.Schedulable {
		t.Errorf("%+v", n)
	}
	// A refusal because of the state says what is allowed.
	w.drive(t, a.node, node.LoseContact)
	got := back()
	got.Wants(t, 409, "node_state_conflict")
	for _, legal := range []string{"regain_contact", "quarantine", "drain"} {
		if !contains(got.Body, legal) {
			t.Errorf("%s is not in %s", legal, got.Body)
		}
	}
	w.drive(t, a.node, node.RegainContact)
	w.taint(t, a.node)
	quarantine().Wants(t, 200, "")
	got = back()
	got.Wants(t, 409, "node_tainted")
	if !contains(got.Body, "gpuaas node reset a") {
		t.Errorf("no remedy in %s", got.Body)
	}
}

func TestAnOperationOwnsItsNode(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	path := "/" + a.node.String()
	w.hold(t, a.node, "decommission 7")
	owned := func(action, owner string) {
		t.Helper()
		got := w.call(t, http.MethodPost, path+"/"+action, "", object{"reason": "x"})
		got.Wants(t, 409, "node_owned")
		if !contains(got.Body, owner) {
			t.Errorf("%s is not named in %s", owner, got.Body)
		}
	}
	owned("quarantine", "decommission 7")
	w.drive(t, a.node, node.Quarantine)
	owned("return-to-service", "decommission 7")
	w.drive(t, a.node, node.Drain)
	owned("quarantine", "decommission 7")
	if err := w.unhold(t, a.node, "decommission 7"); err != nil {
		t.Fatal(err)
	}
	owned("quarantine", "drains it")
	owned("return-to-service", "drains it")
	w.drive(t, a.node, node.Drained, node.Remove)
	owned("quarantine", "removes it")
}
