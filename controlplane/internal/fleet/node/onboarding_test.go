package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/node"
)

const job = "onboarding-1"

// onboard adds a node that a workflow onboards, with a token for its machine.
func (w *world) onboard(tb testing.TB, hostname string) (*agent, redact.Secret) {
	tb.Helper()
	want := id.New[id.Node]()
	n := node.NewNode{ID: want, Hostname: hostname, SKU: someSKU, RegionCode: "eu-1", Mode: node.MAAS, AwaitedBy: job}
	w.in(tb, func(ctx context.Context, tx pgx.Tx) error {
		made, err := node.CreateInTx(ctx, tx, n)
		if made.ID != want || made.Status != node.Enrolling {
			tb.Errorf("made %+v", made)
		}
		return err
	})
	token, _, err := w.service.IssueToken(system(tb), want, node.Bootstrap, time.Hour)
	if err != nil {
		tb.Fatal(err)
	}
	return &agent{
		w: w, node: want, key: "k-" + hostname,
		Presented: node.Presented{Node: want, Instance: "m-" + hostname, Session: "s"},
	}, token
}

func (a *agent) arrive(tb testing.TB, token redact.Secret) {
	tb.Helper()
	if err := a.begin(tb, token); err != nil {
		tb.Fatal(err)
	}
	a.certify(tb, false)
}

func (a *agent) polls(tb testing.TB) {
	tb.Helper()
	if err := a.poll(tb, a.Session); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) in(tb testing.TB, fn func(ctx context.Context, tx pgx.Tx) error) {
	tb.Helper()
	if err := w.db.InTx(system(tb), fn); err != nil {
		tb.Fatal(err)
	}
}

// signals lists what workflows were told.
func (w *world) signals(tb testing.TB) (out []outbox.WorkflowSignal) {
	tb.Helper()
	rows, err := w.owner.Query(tb.Context(),
		`SELECT envelope FROM outbox_events WHERE event_type = 'workflow.signal' ORDER BY seq`)
	if err != nil {
		tb.Fatal(err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
	if err != nil {
		tb.Fatal(err)
	}
	for _, b := range bodies {
		s, err := outbox.Message{Body: b}.WorkflowSignal()
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func TestTheFirstPollIsToldToTheWorkflowThatAwaitsIt(t *testing.T) {
	w := newWorld(t)
	a, token := w.onboard(t, "m1")
	a.arrive(t, token)
	if n := w.read(t, a.node); n.FirstPollAt != nil || n.AwaitedBy != job {
		t.Fatalf("before the poll %+v", n)
	}
	for range 3 {
		a.polls(t)
	}
	n := w.read(t, a.node)
	if n.Status != node.Enrolling || n.Schedulable || n.FirstPollAt == nil {
		t.Errorf("after the poll %+v: the workflow decides what becomes of it", n)
	}
	told := w.signals(t)
	if len(told) != 1 || told[0].WorkflowID != job || told[0].Name != node.EnrolledSignal || told[0].Start != nil {
		t.Errorf("workflows were told %+v", told)
	}
	if got := w.audited(t, a.node, "node.first_poll"); got != 1 {
		t.Errorf("%d audit entries", got)
	}
	// Another workflow awaits the node: an agent that already runs answers.
	w.in(t, func(ctx context.Context, tx pgx.Tx) error { return node.Await(ctx, tx, a.node, "reimage-1") })
	if n := w.read(t, a.node); n.FirstPollAt != nil || n.AwaitedBy != "reimage-1" {
		t.Errorf("awaited anew %+v", n)
	}
	before := w.count(t, `SELECT count(*) FROM node_events`)
	w.in(t, func(ctx context.Context, tx pgx.Tx) error { return node.Await(ctx, tx, a.node, "reimage-1") })
	if w.count(t, `SELECT count(*) FROM node_events`) != before {
		t.Error("to await what is awaited already left a trace")
	}
	a.polls(t)
	if told := w.signals(t); len(told) != 2 || told[1].WorkflowID != "reimage-1" {
		t.Errorf("workflows were told %+v", told)
	}
}

func TestAPollBelongsToAnIdentity(t *testing.T) {
	w := newWorld(t)
	a, token := w.onboard(t, "m1")
	a.arrive(t, token)
	a.polls(t)
	w.drive(t, a.node, node.Enrolled)
	recovery, _, err := w.service.IssueToken(system(t), a.node, node.Recovery, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.key = "another"
	a.arrive(t, recovery)
	if n := w.read(t, a.node); n.FirstPollAt != nil {
		t.Errorf("a new identity has polled at %s", n.FirstPollAt)
	}
	a.polls(t)
	if n := w.read(t, a.node); n.FirstPollAt == nil || n.Status != node.Active {
		t.Errorf("after its poll %+v", n)
	}
	if told := w.signals(t); len(told) != 1 {
		t.Errorf("nobody awaits an active node, yet workflows were told %+v", told)
	}
	w.drive(t, a.node, node.Drain, node.Reimage)
	if n := w.read(t, a.node); n.FirstPollAt != nil {
		t.Error("a reimaged node has polled")
	}
}

func TestATokenThatTheMachineHasLivesLonger(t *testing.T) {
	w := newWorld(t)
	a, token := w.onboard(t, "m1")
	w.later(2 * time.Hour)
	wantCode(t, a.begin(t, token), fault.Unauthenticated, agentwire.CodeTokenExpired)
	until, extended, err := w.service.ExtendToken(system(t), a.node, time.Hour)
	if err != nil || !extended || until.Before(w.now().Add(59*time.Minute)) {
		t.Fatalf("extended %v until %s: %v", extended, until, err)
	}
	if again, _, err := w.service.ExtendToken(system(t), a.node, time.Minute); err != nil || !again.Equal(until) {
		t.Errorf("a shorter life cut it to %s: %v", again, err)
	}
	if got := w.audited(t, a.node, "node.extend_token"); got != 2 {
		t.Errorf("%d audit entries", got)
	}
	a.arrive(t, token)
	if _, extended, err := w.service.ExtendToken(system(t), a.node, time.Hour); err != nil || extended {
		t.Errorf("a token that was used was extended: %v %v", extended, err)
	}
	_, _, err = w.service.ExtendToken(system(t), a.node, 8*24*time.Hour)
	wantCode(t, err, fault.Invalid, "node_token_ttl")
	_, _, err = w.service.ExtendToken(system(t), id.New[id.Node](), time.Hour)
	wantCode(t, err, fault.NotFound, "node_not_found")
	w.drive(t, a.node, node.Enrolled)
	_, _, err = w.service.ExtendToken(system(t), a.node, time.Hour)
	wantCode(t, err, fault.Conflict, "node_state_conflict")
}

func TestARevokedTokenIsNotExtended(t *testing.T) {
	w := newWorld(t)
	a, older := w.onboard(t, "m1")
	newer, _, err := w.service.IssueToken(system(t), a.node, node.Bootstrap, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, extended, err := w.service.ExtendToken(system(t), a.node, 2*time.Hour); err != nil || !extended {
		t.Fatal(extended, err)
	}
	wantCode(t, a.begin(t, older), fault.Unauthenticated, agentwire.CodeTokenInvalid)
	if err := a.begin(t, newer); err != nil {
		t.Error(err)
	}
}

func TestAnAbandonedNodeIsGoneAndItsNameIsFree(t *testing.T) {
	w := newWorld(t)
	a, token := w.onboard(t, "m1")
	a.arrive(t, token)
	a.polls(t)
	abandon := func(n id.Node) (after node.Node, err error) {
		err = w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
			after, err = node.Abandon(ctx, tx, n, "the onboarding was cancelled")
			return err
		})
		return after, err
	}
	after, err := abandon(a.node)
	if err != nil || after.Status != node.Deleted || after.CertificateNotAfter != nil {
		t.Fatalf("%+v %v", after, err)
	}
	wantCode(t, a.poll(t, "s"), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	wantCode(t, a.begin(t, token), fault.Unauthenticated, agentwire.CodeTokenInvalid)
	_, err = abandon(a.node)
	wantCode(t, err, fault.Conflict, "node_state_conflict")
	err = w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.CreateInTx(ctx, tx, node.NewNode{ID: a.node, Hostname: "m2", SKU: someSKU, RegionCode: "eu-1"})
		return err
	})
	wantCode(t, err, fault.Conflict, "node_exists")
	w.onboard(t, "m1")
	waiting, _ := w.make(t, "never-came")
	if after, err := abandon(waiting.ID); err != nil || after.Status != node.Deleted {
		t.Errorf("%+v %v", after, err)
	}
	serving := w.active(t, "serving")
	_, err = abandon(serving.node)
	wantCode(t, err, fault.Conflict, "node_state_conflict")
	if err := serving.poll(t, serving.Session); err != nil {
		t.Errorf("a refused abandonment revoked the identity: %v", err)
	}
}

func TestWhereANodeIsReached(t *testing.T) {
	w := newWorld(t)
	a, _ := w.onboard(t, "m1")
	before := w.read(t, a.node)
	for range 2 {
		w.in(t, func(ctx context.Context, tx pgx.Tx) error {
			return node.SetHost(ctx, tx, a.node, "10.0.0.9", "its address became known")
		})
	}
	if n := w.read(t, a.node); n.Host != "10.0.0.9" || n.Version != before.Version+1 {
		t.Errorf("%+v", n)
	}
	stop := errors.New("stop")
	for _, host := range []string{"", "a b", "x;y"} {
		err := w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
			wantCode(t, node.SetHost(ctx, tx, a.node, host, ""), fault.Invalid, "node_host_invalid")
			return stop
		})
		if !errors.Is(err, stop) {
			t.Error(err)
		}
	}
}
