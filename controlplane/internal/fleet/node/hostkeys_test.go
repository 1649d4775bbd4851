package node_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// hostKey is a line of a host key that differs by its number.
func hostKey(n int) string {
	return fmt.Sprintf("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA%02dAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", n)
}

// shows is an agent that says which host keys its machine has.
func (w *world) shows(tb testing.TB, n id.Node, keys ...string) {
	tb.Helper()
	if err := w.service.KeepHostKeys(tb.Context(), n, agentwire.HostKeysRequest{Keys: keys}); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) hostKeys(tb testing.TB, n id.Node) node.HostKeys {
	tb.Helper()
	all, err := node.HostKeysOf(tb.Context(), w.db, n)
	if err != nil {
		tb.Fatal(err)
	}
	return all[n]
}

func wantHostKeys(tb testing.TB, what string, got node.HostKeys, changed bool, want ...string) {
	tb.Helper()
	var lines []string
	for _, k := range got.Keys {
		lines = append(lines, k.Line)
	}
	if !slices.Equal(lines, want) || (got.ChangedAt != nil) != changed {
		tb.Errorf("%s: people are told %q, changed %v; want %q, changed %v", what, lines, got.ChangedAt, want, changed)
	}
}

func TestHostKeysAreBelievedUntilSomebodyHasAccess(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	wantHostKeys(t, "before the agent said", w.hostKeys(t, a.node), false)
	w.shows(t, a.node, hostKey(1), hostKey(2))
	w.shows(t, a.node, hostKey(1), hostKey(2))
	wantHostKeys(t, "first", w.hostKeys(t, a.node), false, hostKey(1), hostKey(2))
	if got := w.audited(t, a.node, "node.host_keys"); got != 1 {
		t.Errorf("saying the same twice was written down %d times", got)
	}
	w.shows(t, a.node, hostKey(3))
	wantHostKeys(t, "an operator renewed them", w.hostKeys(t, a.node), false, hostKey(3))
	w.taint(t, a.node)
	w.shows(t, a.node, hostKey(3))
	wantHostKeys(t, "the same with a tenant", w.hostKeys(t, a.node), false, hostKey(3))
	if got := w.told(t, a.node, "node.host_keys_changed"); got != 0 || w.read(t, a.node).Access() != node.UserAccess {
		t.Errorf("told of a change %d times, access %q", got, w.read(t, a.node).Access())
	}
}

// Whoever gets between a tenant and its node, or has root on it, must not have the
// control plane vouch for other keys.
func TestAttackHostKeysOfARentedNodeAreNotReplaced(t *testing.T) {
	w := newWorld(t)
	var heard []node.HostKeys
	w.onHostKeys = func(_ context.Context, _ pgx.Tx, _ id.Node, keys node.HostKeys) error {
		heard = append(heard, keys)
		return nil
	}
	a := w.active(t, "m1")
	w.shows(t, a.node, hostKey(1), hostKey(2))
	w.taint(t, a.node)
	w.shows(t, a.node, hostKey(1))
	wantHostKeys(t, "one key less", w.hostKeys(t, a.node), false, hostKey(1), hostKey(2))

	w.shows(t, a.node, hostKey(1), hostKey(3))
	got := w.hostKeys(t, a.node)
	wantHostKeys(t, "another key", got, true, hostKey(1), hostKey(2))
	if len(got.Reported) != 2 || got.Reported[1].Line != hostKey(3) || got.Reported[1].Fingerprint == "" {
		t.Errorf("it shows %+v", got.Reported)
	}
	told := w.told(t, a.node, "node.host_keys_changed")
	if access := w.read(t, a.node).Access(); access != node.RootAccess || told != 1 || len(heard) != 1 {
		t.Errorf("access %q, told %d, heard %d", access, told, len(heard))
	}
	wantCode(t, w.says(t, a.node), fault.Conflict, node.CodeRoot)

	w.shows(t, a.node, hostKey(1), hostKey(2))
	wantHostKeys(t, "put back", w.hostKeys(t, a.node), false, hostKey(1), hostKey(2))
	w.shows(t, a.node, hostKey(3))
	wantHostKeys(t, "and taken again", w.hostKeys(t, a.node), true, hostKey(1), hostKey(2))
}

// The next installation has keys of its own, and is believed as the first one was.
func TestHostKeysEndWithTheInstallation(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	w.shows(t, a.node, hostKey(1))
	w.taint(t, a.node)
	w.shows(t, a.node, hostKey(2))
	wantHostKeys(t, "changed", w.hostKeys(t, a.node), true, hostKey(1))
	w.exec(t, `INSERT INTO node_host_keys (node_id, generation) SELECT id, generation + 1 FROM nodes WHERE id = $1`, a.node)
	wantHostKeys(t, "installed anew", w.hostKeys(t, a.node), false)
	w.shows(t, a.node, hostKey(3))
	w.shows(t, a.node, hostKey(4)) // its first boot goes on after it enrolled
	wantHostKeys(t, "its own", w.hostKeys(t, a.node), false, hostKey(4))
}

// A node that enrolled before host keys were kept has them once its agent says so,
// also while it is rented; from then on they stand.
func TestHostKeysOfANodeThatEnrolledBefore(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	w.exec(t, `DELETE FROM node_host_keys`)
	w.taint(t, a.node)
	w.shows(t, a.node, hostKey(1))
	wantHostKeys(t, "first", w.hostKeys(t, a.node), false, hostKey(1))
	w.shows(t, a.node, hostKey(2))
	wantHostKeys(t, "changed", w.hostKeys(t, a.node), true, hostKey(1))
	// Somebody accepts the risk in words, and the node is proven clean as it is.
	w.exec(t, `UPDATE nodes SET onboarding_mode = 'manual' WHERE id = $1`, a.node)
	err := w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.AcceptRoot(ctx, tx, a.node, *w.read(t, a.node).Root.At, "little", "Ada", "it is ours")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.says(t, a.node); err != nil {
		t.Fatal(err)
	}
	wantHostKeys(t, "proven clean", w.hostKeys(t, a.node), false, hostKey(2))
}

func TestWhatIsNoHostKeyIsNotKept(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "m1")
	err := w.service.KeepHostKeys(t.Context(), a.node, agentwire.HostKeysRequest{Keys: []string{hostKey(1) + "\n* x"}})
	wantCode(t, err, fault.Invalid, "validation_error")
	wantHostKeys(t, "nothing", w.hostKeys(t, a.node), false)
}
