package agenttask_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
)

func (w *world) tainted(tb testing.TB, n id.Node) bool {
	tb.Helper()
	found, err := node.Get(tb.Context(), w.db, n)
	if err != nil {
		tb.Fatal(err)
	}
	return found.Tainted()
}

func (w *world) provenClean(tb testing.TB, n id.Node) {
	tb.Helper()
	err := w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.NoteClean(ctx, tx, n, time.Now().Add(time.Minute), "nothing was found")
		return err
	})
	if err != nil || w.tainted(tb, n) {
		tb.Fatalf("the node is not clean: %v", err)
	}
}

var terminalParams = agentwire.TerminalOpenParams{
	SessionID: "00000000-0000-4000-8000-000000000001", Username: "u1", GatewayURL: "wss://gateway.example:8443",
	Columns: 80, Rows: 24, IdleSeconds: 600, TotalSeconds: 3600,
}

// A terminal that its node refused let nobody in. Whatever is not proven to be
// such a refusal taints the node.
func TestATerminalTaintsUnlessItsNodeRefusedIt(t *testing.T) {
	failed := func(code string) agentwire.ResultRequest {
		return agentwire.ResultRequest{Status: "failed", Attempt: 1, Error: &agentwire.TaskError{Code: code, Message: "no"}}
	}
	for name, c := range map[string]struct {
		result agentwire.ResultRequest
		want   bool
	}{
		"opened":       {succeeded(t, 1, agentwire.TerminalOpenOutput{SessionID: terminalParams.SessionID}), true},
		"no such user": {failed("user_not_provisioned"), false},
		"the task was refused": {agentwire.ResultRequest{
			Status: "refused", Attempt: 1,
			Error: &agentwire.TaskError{Code: "bad_signature"},
		}, false},
		"the shell broke": {failed("terminal_shell_failed"), true},
		"an unknown code": {failed("something_else"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.node(t)
			ask := func() agenttask.Task {
				task, err := w.enqueue(w.ctx, agenttask.Request{
					Node: n, Type: agentwire.TypeTerminalOpen, Params: terminalParams,
					Owner: row{}, Reason: "test",
				})
				if err != nil {
					t.Fatal(err)
				}
				w.fetch(t, task)
				return task
			}
			task := ask()
			if err := w.queue.Result(t.Context(), n, task.ID, c.result); err != nil || w.tainted(t, n) != c.want {
				t.Errorf("tainted is not %v: %v", c.want, err)
			}
			w.provenClean(t, n)
			again := ask()
			w.exec(t, `UPDATE node_tasks SET attempt = 2, max_attempts = 2 WHERE id = $1`, again.ID)
			c.result.Attempt = 2
			if err := w.queue.Result(t.Context(), n, again.ID, c.result); err != nil || !w.tainted(t, n) {
				t.Errorf("nobody knows what became of the first attempt, and the node counts as clean: %v", err)
			}
		})
	}
}

func TestLettingATenantInTaintsTheNode(t *testing.T) {
	w := newWorld(t)
	for typ, want := range map[string]bool{
		agentwire.TypeProvisionUser: true, agentwire.TypeTerminalOpen: false, // see below
		agentwire.TypeDeprovisionUser: false, agentwire.TypeValidateClean: false, agentwire.TypeDrain: false,
	} {
		n := w.node(t)
		r := agenttask.Request{Node: n, Type: typ, Params: params[typ], IdempotencyKey: "k", Owner: row{}, Reason: "test"}
		if typ == agentwire.TypeTerminalOpen {
			r.Params = terminalParams
		}
		if _, err := w.enqueue(w.ctx, r); err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		if got := w.tainted(t, n); got != want {
			t.Errorf("%s: tainted is %v", typ, got)
		}
		w.provenClean(t, n)
		if _, err := w.enqueue(w.ctx, r); err != nil {
			t.Fatal(err)
		}
		if w.tainted(t, n) {
			t.Errorf("%s: the task that was there already tainted the node", typ)
		}
	}
}

// A task can wait in the queue while its node is cleaned. What counts is when
// the node got it.
func TestATaskThatWaitedDuringTheCleaningTaintsTheNode(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, w *world, task agenttask.Task){
		"it succeeds": func(t *testing.T, w *world, task agenttask.Task) {
			if err := w.queue.Result(t.Context(), task.Node, task.ID,
				succeeded(t, 1, agentwire.ProvisionUserOutput{})); err != nil {
				t.Fatal(err)
			}
		},
		"its node falls silent": func(t *testing.T, w *world, task agenttask.Task) {
			w.exec(t, `UPDATE node_tasks SET attempt = max_attempts`)
			w.clock.pass(agentwire.Lease)
			w.sweep(t, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.node(t)
			task := w.ask(t, n, agentwire.TypeProvisionUser)
			w.provenClean(t, n)
			w.fetch(t, task)
			end(t, w, task)
			if !w.tainted(t, n) {
				t.Error("a tenant is in, and the node counts as clean")
			}
		})
	}
}

// Only the control plane knows that a task is void. A node that says so of a task
// that it was given keeps whomever it let in.
func TestAttackANodeCallsTheTaskVoidThatLetSomebodyIn(t *testing.T) {
	w := newWorld(t)
	n := w.node(t)
	task := w.ask(t, n, agentwire.TypeProvisionUser)
	w.provenClean(t, n)
	w.fetch(t, task)
	if err := w.queue.Result(t.Context(), n, task.ID, agentwire.ResultRequest{
		Attempt: 1, Status: agentwire.ResultFailed,
		Error: &agentwire.TaskError{Code: agenttask.CodeSuperseded, Message: "void"},
	}); err != nil {
		t.Fatal(err)
	}
	if !w.tainted(t, n) {
		t.Error("a tenant may be in, and the node counts as clean")
	}
}

func TestATaskThatTheNodeNeverHadTaintsNothing(t *testing.T) {
	w := newWorld(t)
	n := w.node(t)
	queued := w.ask(t, n, agentwire.TypeProvisionUser)
	w.provenClean(t, n)
	if _, err := w.commands.Cancel(w.ctx, queued.ID, "nobody comes"); err != nil || w.tainted(t, n) {
		t.Errorf("cancelled before it was fetched: %v", err)
	}
	// After a reimage it is another machine than the one that got the task.
	had := w.ask(t, n, agentwire.TypeProvisionUser)
	w.fetch(t, had)
	w.exec(t, `UPDATE nodes SET generation = generation + 1 WHERE id = $1`, n)
	w.provenClean(t, n)
	w.sweep(t, 1)
	w.wants(t, had, agenttask.Cancelled, agenttask.CodeSuperseded)
	if w.tainted(t, n) {
		t.Error("a task of the earlier machine taints the new one")
	}
}

// An operation that cleans the node holds it. Nobody gets in meanwhile, neither
// by a new request nor by an earlier one that was not carried out yet.
func TestNobodyGetsInWhileAnOperationHoldsTheNode(t *testing.T) {
	w := newWorld(t)
	n := w.node(t)
	waits := w.ask(t, n, agentwire.TypeProvisionUser)
	hold := func(by string) { w.exec(t, `UPDATE nodes SET held_by = $2, schedulable = false WHERE id = $1`, n, by) }
	hold("decommission 1")
	w.provenClean(t, n)
	for _, typ := range []string{agentwire.TypeProvisionUser, agentwire.TypeTerminalOpen} {
		r := agenttask.Request{Node: n, Type: typ, Params: params[typ], Owner: row{}, Reason: "test"}
		if typ == agentwire.TypeTerminalOpen {
			r.Params = terminalParams
		}
		_, err := w.enqueue(w.ctx, r)
		if fault.CodeOf(err) != "node_held" || !strings.Contains(err.Error(), "decommission 1") {
			t.Errorf("%s: %v", typ, err)
		}
	}
	if e := w.poll(t, n); e != nil {
		t.Errorf("the node is given %s", e.Type)
	}
	drain := w.ask(t, n, agentwire.TypeDrain) // a task of the operation itself
	w.fetch(t, drain)
	if w.tainted(t, n) {
		t.Error("a tenant that was refused taints the node")
	}
	if err := w.queue.Result(t.Context(), n, drain.ID, succeeded(t, 1, agentwire.DrainOutput{})); err != nil {
		t.Fatal(err)
	}
	hold("")
	w.fetch(t, waits)
}

// A tenant who comes and goes on a node in service leaves one record. An entry
// behind the back of an operation is one more: it outdates the proof.
func TestATenantTaintsTheNodeOnce(t *testing.T) {
	w := newWorld(t)
	n := w.node(t)
	records := func() int {
		t.Helper()
		return w.count(t, `SELECT count(*) FROM node_events WHERE node_id = $1 AND event = 'taint'`, n)
	}
	enter := func() agenttask.Task {
		t.Helper()
		task, err := w.enqueue(w.ctx, agenttask.Request{
			Node: n, Type: agentwire.TypeTerminalOpen, Params: terminalParams, Owner: row{}, Reason: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		w.fetch(t, task)
		return task
	}
	end := func(task agenttask.Task) {
		t.Helper()
		if err := w.queue.Result(t.Context(), n, task.ID, succeeded(t, 1, agentwire.TerminalOpenOutput{})); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		end(enter())
	}
	if count := records(); count != 1 {
		t.Errorf("three visits left %d records", count)
	}
	late := enter()
	w.exec(t, `UPDATE nodes SET held_by = 'decommission 1', schedulable = false WHERE id = $1`, n)
	w.exec(t, `UPDATE nodes SET tainted_at = now() - interval '1 hour' WHERE id = $1`, n)
	end(late)
	stale := w.count(t, `SELECT count(*) FROM nodes WHERE id = $1 AND tainted_at < now() - interval '30 minutes'`, n)
	if count := records(); count != 2 || stale != 0 {
		t.Errorf("a visit during an operation left %d records; the last one counts: %t", count, stale == 0)
	}
}

// Whoever is given sudo has root from the moment of the request, and nothing
// later undoes that.
func TestAttackSudoIsNotedAsRoot(t *testing.T) {
	w := newWorld(t)
	n := w.node(t)
	has := func() node.Access {
		found, err := node.Get(t.Context(), w.db, n)
		if err != nil {
			t.Fatal(err)
		}
		return found.Access()
	}
	given := agentwire.ProvisionUserParams{
		AllocationID: "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c", Username: "mallory", UID: 20100, GID: 20100,
		AuthorizedKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1t8Zq0 mallory@example"},
	}
	for i, c := range []struct {
		sudo bool
		want node.Access
	}{{false, node.UserAccess}, {true, node.RootAccess}, {false, node.RootAccess}} {
		given.Sudo = c.sudo
		task, err := w.enqueue(w.ctx, agenttask.Request{
			Node: n, Type: agentwire.TypeProvisionUser, Params: given, Owner: row{}, Reason: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := has(); got != c.want {
			t.Errorf("%d: asked for, it has %q", i, got)
		}
		w.fetch(t, task)
		if err := w.queue.Result(t.Context(), n, task.ID, succeeded(t, 1, agentwire.ProvisionUserOutput{})); err != nil {
			t.Fatal(err)
		}
		if got := has(); got != c.want {
			t.Errorf("%d: provisioned, it has %q", i, got)
		}
	}
}
