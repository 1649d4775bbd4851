package node_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

type tx = pgx.Tx

func (w *world) inTx(tb testing.TB, fn func(ctx context.Context, c tx) error) {
	tb.Helper()
	if err := w.db.InTx(system(tb), func(ctx context.Context, c pgx.Tx) error { return fn(ctx, c) }); err != nil {
		tb.Fatal(err)
	}
}

// drive moves a node along.
func (w *world) drive(tb testing.TB, n id.Node, events ...node.Event) {
	tb.Helper()
	for _, e := range events {
		w.inTx(tb, func(ctx context.Context, c tx) error {
			_, err := node.Move(ctx, c, n, e, "the test wants it")
			return err
		})
	}
}

func TestCallersThatAreRefused(t *testing.T) {
	w := newWorld(t)
	a, b := w.active(t, "a"), w.active(t, "b")
	try := func(change func(p *node.Presented)) error {
		p := a.Presented
		change(&p)
		_, err := w.service.Authorize(t.Context(), p)
		return err
	}
	wantCode(t, try(func(p *node.Presented) { p.Serial = "00" }), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	wantCode(t, try(func(p *node.Presented) { p.Serial = b.Serial }), fault.Unauthenticated,
		agentwire.CodeCertificateRevoked)
	wantCode(t, try(func(p *node.Presented) { p.Node = b.node }), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	wantCode(t, try(func(p *node.Presented) { p.Session = "" }), fault.Invalid, "agent_session_missing")
	for range 3 {
		wantCode(t, try(func(p *node.Presented) { p.Instance = "clone" }), fault.Conflict, agentwire.CodeIdentityInUse)
	}
	wantCode(t, try(func(p *node.Presented) { p.Instance = "" }), fault.Conflict, agentwire.CodeIdentityInUse)
	if told, audited := w.told(t, a.node, "node.identity_conflict"),
		w.audited(t, a.node, "node.identity_conflict"); told != 2 || audited != 2 {
		t.Errorf("two foreign machines were told %d times, audited %d times", told, audited)
	}
	if err := try(func(*node.Presented) {}); err != nil {
		t.Errorf("the true one: %v", err)
	}
}

func TestFencedStatesKeepTheAgentOutAndSayWhy(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	allowed := func(status node.Status) {
		t.Helper()
		who, err := w.service.Authorize(t.Context(), a.Presented)
		if err != nil || who.Status != status || who.Generation != 1 || who.OnboardingMode != node.Manual {
			t.Errorf("%s: %+v %v", status, who, err)
		}
	}
	fenced := func() {
		t.Helper()
		_, err := w.service.Authorize(t.Context(), a.Presented)
		wantCode(t, err, fault.Forbidden, agentwire.CodeNodeFenced)
	}
	allowed(node.Active)
	w.drive(t, a.node, node.Quarantine)
	allowed(node.Quarantined)
	w.drive(t, a.node, node.Drain)
	allowed(node.Draining)
	w.drive(t, a.node, node.Drained)
	fenced()
	w.drive(t, a.node, node.Remove)
	allowed(node.Removing) // otherwise it could not be told to uninstall itself
	w.drive(t, a.node, node.Uninstalled)
	fenced()
}

func TestARestartedAgentDisplacesItsPredecessor(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	for _, session := range []string{"second", "third", "third"} {
		if err := a.poll(t, session); err != nil {
			t.Fatalf("%s: %v", session, err)
		}
	}
	if n := w.read(t, a.node); n.HoldReason != "" || w.told(t, a.node, "node.identity_conflict") != 0 {
		t.Errorf("a restart is taken for a conflict: %+v", n)
	}
}

func TestOfTwoAgentsWithOneIdentityTheFirstKeepsIt(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	if err := a.poll(t, "clone"); err != nil {
		t.Fatal(err) // it could be a restart
	}
	for range 3 {
		if err := a.poll(t, "first"); err != nil {
			t.Fatalf("the first: %v", err)
		}
		wantCode(t, a.poll(t, "clone"), fault.Conflict, agentwire.CodeIdentityInUse)
	}
	n := w.read(t, a.node)
	if n.Status != node.Active || n.Schedulable || n.HoldReason == "" {
		t.Errorf("the node is %+v", n)
	}
	if told := w.told(t, a.node, "node.identity_conflict"); told != 1 {
		t.Errorf("told %d times", told)
	}
	// Starting the clone again does not admit it while the first one calls.
	wantCode(t, a.poll(t, "clone again"), fault.Conflict, agentwire.CodeIdentityInUse)
	if err := a.poll(t, "first"); err != nil {
		t.Fatalf("the first: %v", err)
	}
	// When the first one has fallen silent, another may have the identity.
	w.exec(t, `UPDATE node_contacts SET last_contact_at = clock_timestamp() - interval '3 minutes'`)
	if err := a.poll(t, "successor"); err != nil {
		t.Fatalf("the successor: %v", err)
	}
	// The operator has looked into it and releases the node: restarts count as
	// restarts again.
	free := true
	if _, err := w.service.Update(system(t), a.node, n.Version, node.Change{Schedulable: &free}); err != nil {
		t.Fatal(err)
	}
	if err := a.poll(t, "restarted"); err != nil {
		t.Fatalf("after the conflict: %v", err)
	}
	if n := w.read(t, a.node); !n.Schedulable || n.HoldReason != "" {
		t.Errorf("the node is %+v", n)
	}
}

// The normal case is one query and no write. Each session is written once.
func TestAuthorizationWritesNothingWhenNothingIsNew(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	before := w.versions(t)
	for range 20 {
		if err := a.poll(t, "first"); err != nil {
			t.Fatal(err)
		}
	}
	if after := w.versions(t); after != before {
		t.Errorf("rows were written: %s, before %s", after, before)
	}
}

// versions changes whenever any row of the slice is written.
func (w *world) versions(tb testing.TB) (s string) {
	tb.Helper()
	err := w.owner.QueryRow(tb.Context(), `SELECT
		(SELECT string_agg(xmin::text, ',' ORDER BY id) FROM nodes) || ' ' ||
		(SELECT string_agg(xmin::text, ',' ORDER BY node_id) FROM node_contacts) || ' ' ||
		(SELECT count(*) FROM node_events) || ' ' || (SELECT count(*) FROM outbox_events)`).Scan(&s)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
