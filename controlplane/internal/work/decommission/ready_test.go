package decommission_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
)

// leaving is a node whose tenant gives it back, and the cleanup that its release asks for.
func (y *yard) leaving(tb testing.TB, l *landlord) (id.Node, decommission.Request) {
	tb.Helper()
	n := y.node(tb, node.Active, true)
	cleanup := asked(decommission.SoftReset)
	cleanup.CleanupOf = l.rent(n, "releasing", false)
	return n, cleanup
}

func (y *yard) ready(tb testing.TB, of id.Node, r decommission.Request) postgres.TxFunc {
	tb.Helper()
	begin, err := y.service.Ready(y.ctx, of, r)
	if err != nil || begin == nil {
		tb.Fatalf("the cleanup is not ready: %v", err)
	}
	return begin
}

// hasBegun checks how many cleanups a node has, and that each has its workflow and its
// line in the audit log.
func (y *yard) hasBegun(tb testing.TB, when string, of id.Node, want int) {
	tb.Helper()
	for what, query := range map[string]string{
		"operations": `SELECT count(*) FROM node_decommissions WHERE node_id = $1 AND admitted_at IS NOT NULL`,
		"workflows": `SELECT count(*) FROM outbox_events e JOIN node_decommissions d ON e.aggregate_id = 'decommission-' || d.id
			WHERE d.node_id = $1 AND e.destination = 'temporal'`,
		"entries": `SELECT count(*) FROM audit_logs WHERE action = 'decommission.request' AND metadata->>'node_id' = $1::uuid::text`,
	} {
		if got := y.count(tb, query, of); got != want {
			tb.Errorf("%s: there are %d %s, want %d", when, got, what, want)
		}
	}
	if left := y.count(tb, `SELECT count(*) FROM outbox_events e WHERE e.destination = 'temporal' AND NOT EXISTS (
		SELECT FROM node_decommissions d WHERE e.aggregate_id = 'decommission-' || d.id)`); left != 0 {
		tb.Errorf("%s: %d workflows begin without an operation", when, left)
	}
}

// A cleanup that begins in the transaction of a release shares its fate: it is there once
// if that commits, and leaves nothing if it does not, so that it can begin again.
func TestACleanupSharesTheFateOfTheRelease(t *testing.T) {
	t.Parallel()
	l := &landlord{}
	y := newYard(t, renting(l))
	n, cleanup := y.leaving(t, l)
	begin := y.ready(t, n, cleanup)
	y.hasBegun(t, "before the release", n, 0)

	boom := errors.New("the release failed after all")
	if err := y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := begin(ctx, tx); err != nil {
			return err
		}
		return boom
	}); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	y.hasBegun(t, "after a rollback", n, 0)

	l.has[n].Cleanup = id.Decommission{} // as the rollback left it
	if err := y.db.InTx(y.ctx, begin); err != nil {
		t.Fatalf("it does not begin when the release is tried again: %v", err)
	}
	y.hasBegun(t, "after the release", n, 1)

	if err := y.db.InTx(y.ctx, begin); err == nil {
		t.Error("it began a second time")
	}
	y.hasBegun(t, "after it was begun again", n, 1)
	if again, err := y.service.Ready(y.ctx, n, cleanup); err != nil || again != nil {
		t.Errorf("another would begin beside it: %t, %v", again != nil, err)
	}
	d, made, err := y.service.Request(y.ctx, n, cleanup)
	if err != nil || made || d.ID != l.has[n].Cleanup {
		t.Errorf("who asks for it gets %s (made %t, %v), want %s", d.ID, made, err, l.has[n].Cleanup)
	}
	if got := y.count(t, `SELECT count(*) FROM node_decommissions WHERE node_id = $1`, n); got != 1 {
		t.Errorf("the node has %d operations", got)
	}
}

// Of two that are ready for the same node, one begins.
func TestOfTwoCleanupsThatAreReadyOneBegins(t *testing.T) {
	t.Parallel()
	l := &landlord{}
	y := newYard(t, renting(l))
	n, cleanup := y.leaving(t, l)
	both := []postgres.TxFunc{y.ready(t, n, cleanup), y.ready(t, n, cleanup)}
	failed := make([]error, len(both))
	var all sync.WaitGroup
	for i, begin := range both {
		all.Go(func() { failed[i] = y.db.InTx(y.ctx, begin) })
	}
	all.Wait()
	if (failed[0] == nil) == (failed[1] == nil) {
		t.Errorf("they ended with %v and %v", failed[0], failed[1])
	}
	y.hasBegun(t, "after both", n, 1)
}

// What was ready does not begin on a node that has become something else.
func TestACleanupDoesNotBeginOnANodeThatChanged(t *testing.T) {
	t.Parallel()
	l := &landlord{}
	y := newYard(t, renting(l))
	n, cleanup := y.leaving(t, l)
	begin := y.ready(t, n, cleanup)
	y.exec(t, `UPDATE nodes SET generation = generation + 1 WHERE id = $1`, n)
	wantCode(t, y.db.InTx(y.ctx, begin), fault.Conflict, decommission.CodePlanStale)
	y.hasBegun(t, "after the refusal", n, 0)
}
