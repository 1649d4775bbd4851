package allocation_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/allocation"
)

// cuts counts the tasks that take the account of an allocation away.
func (w *world) cuts(tb testing.TB, a allocation.Allocation) int {
	tb.Helper()
	return w.count(tb, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = $2 AND status = 'queued'
		AND params->>'allocation_id' = $3::text AND params->>'username' = $4`, a.Node, agentwire.TypeDeprovisionUser, a.ID.String(), a.Username)
}

// A tenant with root loses its account with the release, although the reimage of the
// node may wait for a place. One without root loses it by the soft reset, which waits for
// nothing.
func TestATenantWithRootIsCutOffByItsRelease(t *testing.T) {
	for access, want := range map[allocation.Access]int{allocation.RootAccess: 1, allocation.UserAccess: 0} {
		w := newWorld(t)
		w.bind(t, w.node(t, "n1"))
		a := w.active(t, allocation.Ask{Access: access})
		if got := w.cuts(t, a); got != 0 {
			t.Fatalf("%s: %d tasks before the release", access, got)
		}
		w.release(t, a)
		if got := w.cuts(t, a); got != want {
			t.Errorf("%s: %d tasks, want %d", access, got, want)
		}
		w.release(t, a) // again
		if got := w.cuts(t, a); got != want {
			t.Errorf("%s: %d tasks after the second release, want %d", access, got, want)
		}
	}
}

// A tenant that asked for root and was let in before its allocation failed loses the account
// at once: the cleaning of its node may wait for a place.
func TestATenantWithRootIsCutOffWhenItsAllocationFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(t, w.node(t, "n1", tellsOfLogins))
	w.agents.noLogin = true
	a := w.provision(t, w.create(t, allocation.Ask{Access: allocation.RootAccess})[0])
	if a.Status != allocation.Failed {
		t.Fatalf("it is %s", a.Status)
	}
	if got := w.cuts(t, a); got != 1 {
		t.Errorf("%d tasks take the account away", got)
	}
}

// leaver notes which nodes runs were told to leave.
type leaver struct{ left []id.Node }

func (l *leaver) LeaveNode(_ context.Context, _ pgx.Tx, of id.Node, _ string) error {
	l.left = append(l.left, of)
	return nil
}

// An operation that ends an allocation ends what runs there for its tenant, too, and its
// account where it has root.
func TestAnOperationThatEndsAnAllocationEndsItsRuns(t *testing.T) {
	w := newWorld(t)
	w.bind(t, w.node(t, "n1"))
	a := w.active(t, allocation.Ask{Access: allocation.RootAccess})
	runs := &leaver{}
	if err := w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
		return allocation.Tenancies{Runs: runs}.End(ctx, tx, a.Node, id.New[id.Decommission](), "it is wanted elsewhere")
	}); err != nil {
		t.Fatal(err)
	}
	if len(runs.left) != 1 || runs.left[0] != a.Node || w.cuts(t, a) != 1 {
		t.Errorf("runs left %v; %d tasks take the account away", runs.left, w.cuts(t, a))
	}
}
