package allocation_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/work/decommission"
)

// The tests of this file and TestSKUNotFoundWrongShapeCountNotAllowed and
// TestReleaseRetriesExhausted are the failure table of the specification, row by row.
// Rows about virtual machines are tried with what stands for them on a whole node.

func TestNoCapacityInRegion(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 2)
	_, err := w.try(allocation.Ask{Wish: allocation.Wish{Region: "us"}})
	f, _ := fault.As(err)
	if fault.CodeOf(err) != allocation.CodeUnavailable || !strings.Contains(f.Message, "another region") {
		t.Errorf("%v", err)
	}
	if n := w.count(t, `SELECT (SELECT count(*) FROM allocations) + (SELECT count(*) FROM outbox_events
		WHERE aggregate_kind = 'allocation') + (SELECT count(*) FROM allocation_resource_claims)`); n != 0 {
		t.Errorf("a refusal left %d rows", n)
	}
}

// failsAtAccount lets the account fail with a code, and checks that the allocation
// failed with it and that the node is not let before it is proven clean.
func failsAtAccount(t *testing.T, code string) {
	t.Helper()
	w := newWorld(t)
	n := w.node(t, "n1")
	w.agents.fail[n] = map[string]agentwire.TaskError{
		agentwire.TypeProvisionUser: {Code: code, Message: "the agent gave up", Remedy: "ask an operator"},
	}
	a := w.provision(t, w.create(t, allocation.Ask{})[0])
	if a.Status != allocation.Failed || a.Failure.Code != code || a.Failure.Remedy == "" || w.claims(t, a.ID) != 1 {
		t.Fatalf("%+v, %d claims", a.Failure, w.claims(t, a.ID))
	}
	if _, err := w.try(allocation.Ask{}); fault.CodeOf(err) != allocation.CodeUnavailable {
		t.Errorf("a node that was not cleaned was let: %v", err)
	}
	w.clean(t, a)
	w.cleanups.cleaned(t, n)
	if w.claims(t, a.ID) != 0 {
		t.Error("the claim outlived the proof")
	}
	w.agents.fail[n] = nil
	w.active(t, allocation.Ask{})
}

func TestLeaseConflictOnNodeAgent(t *testing.T) { failsAtAccount(t, "lease_conflict") }

func TestImageDownloadOrShaMismatch(t *testing.T) { failsAtAccount(t, "digest_mismatch") }

// What a virtual machine needs of its host, a whole node needs of itself: its GPUs.
func TestVFIOBindRequiredButHostWrong(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	w.agents.unhealthy[n] = "it is bound to another driver"
	a := w.provision(t, w.create(t, allocation.Ask{})[0])
	now, err := node.Get(t.Context(), w.db, n)
	if a.Status != allocation.Failed || w.claims(t, a.ID) != 0 || err != nil || now.Status != node.Quarantined {
		t.Errorf("%+v, node %s, %v", a.Failure, now.Status, err)
	}
}

func TestSSHReadinessTimesOut(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1", `capabilities = '{"agent.handover": "1"}'`) // its agent looks whether one can log in
	w.agents.noLogin = true
	a := w.provision(t, w.create(t, allocation.Ask{})[0])
	if a.Status != allocation.Failed || a.Failure.Code != "login_not_possible" || w.claims(t, a.ID) != 1 {
		t.Fatalf("%s %+v", a.Status, a.Failure)
	}
	w.clean(t, a)
	w.cleanups.cleaned(t, n)
	w.agents.noLogin = false
	w.active(t, allocation.Ask{})
}

func TestGuestReadinessMarkerNeverAppears(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	w.agents.silent = true
	a := w.create(t, allocation.Ask{})[0]
	began := time.Now()
	a = w.provision(t, a, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(w.agents.expire, 3*time.Minute)
	})
	if a.Status != allocation.Failed || a.Failure.Code == "" || a.Failure.Reason == "" {
		t.Errorf("after %s: %s %+v", time.Since(began), a.Status, a.Failure)
	}
}

// A node that nobody can reach is installed anew: that ends the tenant's work as hard
// as it can be, and the allocation with it.
func TestReleaseSSHUnreachableHardDestroySucceeds(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	a := w.clean(t, w.release(t, w.active(t, allocation.Ask{})))
	w.cleanups.in(t, func(ctx context.Context, tx pgx.Tx) error {
		return allocation.Tenancies{}.Parked(ctx, tx, n, w.cleanups.live.ID, "its agent does not answer")
	})
	if _, _, err := w.cleanups.Request(w.ctx, n, decommission.Request{
		Mode: decommission.Reimage, Reason: "nobody reaches it",
	}); err != nil {
		t.Fatal(err)
	}
	w.cleanups.cleaned(t, n)
	if a = w.get(t, a.ID); a.Status != allocation.Released || w.claims(t, a.ID) != 0 || a.Cleanup != w.cleanups.live.ID {
		t.Errorf("%+v", a)
	}
}

// mishap makes stages go wrong once.
type mishap struct {
	at   allocation.Stage
	then error
	do   func()
}

func (m *mishap) Around(ctx context.Context, _ id.Allocation, at allocation.Stage,
	stage func(context.Context) error,
) error {
	if at != m.at {
		return stage(ctx)
	}
	m.at = ""
	if m.do != nil {
		m.do()
	}
	if err := stage(ctx); err != nil {
		return err
	}
	return m.then
}

// Whatever stage loses its connection in the moment of its commit: the node is not to
// blame, and nothing is given up.
func TestAnUnknownOutcomeIsTriedAgain(t *testing.T) {
	for _, at := range []allocation.Stage{
		allocation.StageBegin, allocation.StageProbe, allocation.StageAccount, allocation.StageSettle,
	} {
		t.Run(string(at), func(t *testing.T) {
			w := newWorld(t)
			w.mischief.Mischief = &mishap{at: at, then: fault.New(fault.Ambiguous, "commit_outcome_unknown", "who knows")}
			n := w.node(t, "n1")
			if a := w.provision(t, w.create(t, allocation.Ask{})[0]); a.Status != allocation.Active || a.Placements != 1 {
				t.Errorf("%s %+v", a.Status, a.Failure)
			}
			if now, err := node.Get(t.Context(), w.db, n); err != nil || now.Status != node.Active {
				t.Errorf("the node is %s, %v", now.Status, err)
			}
		})
	}
}

// A node that an operator takes out of service while it is being provisioned is not
// handed over; while nobody was let in, another one takes its place.
func TestANodeTakenOutOfServiceMeanwhileIsNotHandedOver(t *testing.T) {
	for at, want := range map[allocation.Stage]allocation.Status{
		allocation.StageProbe: allocation.Active, allocation.StageAccount: allocation.Active,
		allocation.StageSettle: allocation.Failed,
	} {
		t.Run(string(at), func(t *testing.T) {
			w := newWorld(t)
			n := w.node(t, "n1")
			w.node(t, "n2", "clean_at = clock_timestamp()")
			w.mischief.Mischief = &mishap{at: at, do: func() {
				w.cleanups.in(t, func(ctx context.Context, tx pgx.Tx) error {
					_, err := node.Move(ctx, tx, n, node.Quarantine, "an operator does not trust it")
					return err
				})
			}}
			a := w.provision(t, w.create(t, allocation.Ask{})[0])
			if a.Status != want || want == allocation.Active && a.Node == n {
				t.Errorf("%s on %s: %+v", a.Status, a.Hostname, a.Failure)
			}
			if held := w.claims(t, a.ID); held != 1 { // the tenant's, or until it is clean
				t.Errorf("%d claims", held)
			}
		})
	}
}

// Every stage that the page lists can go wrong, and no other.
func TestThePageListsEveryStage(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	var met stagesMet
	w.mischief.Mischief = &met
	a := w.active(t, allocation.Ask{})
	w.clean(t, w.release(t, a))
	w.cleanups.cleaned(t, n)
	page := allocation.StagesPage()
	if len(met) != strings.Count(page, "\n## ") {
		t.Errorf("stages %v, and the page\n%s", met, page)
	}
	for _, at := range met {
		if !strings.Contains(page, "(`"+string(at)+"`)\n") {
			t.Errorf("the page does not tell of %s", at)
		}
	}
}

type stagesMet []allocation.Stage

func (m *stagesMet) Around(ctx context.Context, _ id.Allocation, at allocation.Stage,
	stage func(context.Context) error,
) error {
	if !slices.Contains(*m, at) {
		*m = append(*m, at)
	}
	return stage(ctx)
}
