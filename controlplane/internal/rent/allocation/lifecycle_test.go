package allocation_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

func TestLifecycleIsSound(t *testing.T) {
	for _, err := range allocation.Lifecycle.Validate() {
		t.Error(err)
	}
}

func TestFromRequestToReleased(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	a := w.create(t, allocation.Ask{Name: "training"})[0]
	if a.Status != allocation.Requested || a.Node != n || a.Username != "u20000" || a.Terms.PriceMinor != 350 ||
		w.claims(t, a.ID) != 1 {
		t.Fatalf("%+v", a)
	}
	if a = w.provision(t, a); a.Status != allocation.Active || a.Times.Active == nil || a.WaitingFor != "" {
		t.Fatalf("%+v", a)
	}
	if types := w.given(); types != agentwire.TypeHealthProbe+" "+agentwire.TypeProvisionUser {
		t.Errorf("tasks: %s", types)
	}
	a = w.release(t, a)
	if a.Status != allocation.Releasing || a.Times.ReleaseRequested == nil || len(w.terminals.ended) != 1 {
		t.Fatalf("%+v", a)
	}
	requested := *a.Times.ReleaseRequested
	if again := w.release(t, a); !again.Times.ReleaseRequested.Equal(requested) {
		t.Error("a second release moved the end of what is charged")
	}
	a = w.clean(t, a)
	if len(w.cleanups.asked) != 1 || w.cleanups.asked[0].Mode != decommission.SoftReset ||
		w.cleanups.asked[0].CleanupOf != a.ID ||
		a.Cleanup != w.cleanups.live.ID {
		t.Fatalf("%+v, %+v", w.cleanups.asked, a)
	}
	w.cleanups.cleaned(t, n)
	if a = w.get(t, a.ID); a.Status != allocation.Released || a.Times.Released == nil || w.claims(t, a.ID) != 0 {
		t.Fatalf("%+v", a)
	}
	events := w.count(t, `SELECT count(*) FROM outbox_events WHERE destination = 'nats' AND aggregate_id = $1`,
		a.ID.String())
	if events != 4 { // requested, active, releasing, released
		t.Errorf("%d events", events)
	}
	second := w.active(t, allocation.Ask{})
	if second.Node != n || second.UID == a.UID {
		t.Errorf("the next tenant has the uid of the one before: %+v", second)
	}
}

// given are the types of the tasks that were given.
func (w *world) given() string {
	var types []string
	for _, r := range w.agents.given {
		types = append(types, r.Type)
	}
	return strings.Join(types, " ")
}

func TestRootIsInstalledAnew(t *testing.T) {
	w := newWorld(t)
	w.bind(t, w.node(t, "n1"))
	a := w.active(t, allocation.Ask{Access: allocation.RootAccess})
	w.clean(t, w.release(t, a))
	if got := w.cleanups.asked[0].Mode; got != decommission.Reimage {
		t.Errorf("%s", got)
	}
}

func TestANodeThatIsNotReadyIsQuarantinedAndAnotherTaken(t *testing.T) {
	w := newWorld(t)
	bad, good := w.node(t, "bad"), w.node(t, "good", "clean_at = clock_timestamp()")
	w.agents.unhealthy[bad] = "fell off the bus"
	a := w.provision(t, w.create(t, allocation.Ask{})[0])
	if a.Status != allocation.Active || a.Node != good || a.Placements != 2 || w.claims(t, a.ID) != 1 {
		t.Fatalf("%+v", a)
	}
	n, err := node.Get(t.Context(), w.db, bad)
	if err != nil || n.Status != node.Quarantined {
		t.Errorf("%s, %v", n.Status, err)
	}
}

func TestANodeThatIsNotReadyFailsWhereThereIsNoOther(t *testing.T) {
	w := newWorld(t)
	bad := w.node(t, "bad")
	w.agents.unhealthy[bad] = "fell off the bus"
	a := w.provision(t, w.create(t, allocation.Ask{})[0])
	if a.Status != allocation.Failed || a.Failure.Code != "node_not_ready" ||
		!strings.Contains(a.Failure.Reason, "fell off the bus") ||
		w.claims(t, a.ID) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestAnAccountThatCannotBeMadeFailsAndTheNodeIsCleaned(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	w.agents.fail[n] = map[string]agentwire.TaskError{agentwire.TypeProvisionUser: {
		Code:    "no_space",
		Message: "disk full",
	}}
	a := w.provision(t, w.create(t, allocation.Ask{})[0])
	if a.Status != allocation.Failed || a.Failure.Code != "no_space" || w.claims(t, a.ID) != 1 {
		t.Fatalf("%+v", a)
	}
	w.clean(t, a)
	if w.claims(t, a.ID) != 1 {
		t.Error("the claim ended without a proof")
	}
	w.cleanups.cleaned(t, n)
	if now := w.get(t, a.ID); now.Status != allocation.Failed || w.claims(t, a.ID) != 0 {
		t.Errorf("%+v", now)
	}
}

func TestAReleaseBeforeItIsActiveIsAcceptedAndEndsAsFailed(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.release(t, w.create(t, allocation.Ask{})[0])
	if a.Status != allocation.Requested {
		t.Fatalf("%+v", a)
	}
	a = w.provision(t, a)
	if a.Status != allocation.Failed || a.Failure.Code != allocation.CodeCancelled || w.claims(t, a.ID) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestAnAgentThatDoesNotFetchIsNotWaitedForForEver(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	w.agents.silent = true
	a := w.provision(t, w.create(t, allocation.Ask{})[0], func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	})
	if a.Status != allocation.Failed {
		t.Errorf("%+v", a)
	}
}

func TestReleaseRetriesExhausted(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	a := w.clean(t, w.release(t, w.active(t, allocation.Ask{})))
	w.cleanups.in(t, func(ctx context.Context, tx pgx.Tx) error {
		return allocation.Tenancies{}.Parked(ctx, tx, n, w.cleanups.live.ID, "a disk does not answer")
	})
	if a = w.get(t, a.ID); a.Status != allocation.ReleaseFailed || a.Release.Failed != "a disk does not answer" ||
		w.claims(t, a.ID) != 1 {
		t.Fatalf("%+v", a)
	}
	w.cleanups.live.Phase = job.Parked
	if a = w.clean(t, w.release(t, a)); a.Status != allocation.Releasing || len(w.cleanups.acted) != 1 ||
		w.cleanups.started != 1 {
		t.Fatalf("a retry must let the same operation go on: %+v, %+v", a, w.cleanups)
	}
	w.cleanups.cleaned(t, n)
	if a = w.get(t, a.ID); a.Status != allocation.Released {
		t.Errorf("%+v", a)
	}
}

func TestAProtectedAllocationIsNotReleased(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{Protected: true})
	if _, err := w.service.Release(w.ctx, a.ID,
		allocation.Leaving{Cause: allocation.ByTenant}); fault.CodeOf(err) != "allocation_protected" {
		t.Errorf("%v", err)
	}
	if now, err := w.service.ForceRelease(w.ctx, a.ID, "contract ended"); err != nil ||
		now.Status != allocation.Releasing {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestAComplaintHoldsTheNode(t *testing.T) {
	w := newWorld(t)
	at := w.node(t, "n1")
	a := w.active(t, allocation.Ask{})
	_, err := w.service.Release(w.ctx, a.ID, allocation.Leaving{
		Cause: allocation.ByTenant, Complaint: &allocation.Complaint{Category: "gpu", Text: "GPU 3 is slow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.clean(t, a)
	w.cleanups.cleaned(t, at)
	n, err := node.Get(t.Context(), w.db, at)
	if err != nil || n.Schedulable || !strings.Contains(n.HoldReason, "GPU 3 is slow") || n.Status != node.Active {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestAnOperationThatTakesTheNodeIsItsCleanup(t *testing.T) {
	for name, before := range map[string]func(*world, *testing.T) allocation.Allocation{
		"requested": func(w *world, t *testing.T) allocation.Allocation { return w.create(t, allocation.Ask{})[0] },
		"active":    func(w *world, t *testing.T) allocation.Allocation { return w.active(t, allocation.Ask{}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.node(t, "n1")
			a := before(w, t)
			if _, _, err := w.cleanups.Request(w.ctx, n, decommission.Request{Reason: "fire"}); err != nil {
				t.Fatal(err)
			}
			w.clean(t, a) // the workflow of a release that was asked for at the same moment
			if w.cleanups.started != 1 {
				t.Errorf("%d operations on one node", w.cleanups.started)
			}
			w.cleanups.cleaned(t, n)
			want := map[string]allocation.Status{"requested": allocation.Failed, "active": allocation.Released}[name]
			if now := w.get(t, a.ID); now.Status != want || w.claims(t, a.ID) != 0 {
				t.Errorf("%+v", now)
			}
		})
	}
}

func TestExpiryReleases(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 2)
	short, long := w.active(t, allocation.Ask{ExpiresIn: time.Hour}), w.active(t, allocation.Ask{})
	w.exec(t, `UPDATE allocations SET expires_at = clock_timestamp() WHERE id = $1`, short.ID)
	if n, err := w.service.Expire(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if a := w.get(t, short.ID); a.Status != allocation.Releasing || a.Release.Cause != allocation.ByExpiry {
		t.Errorf("%+v", a)
	}
	if a := w.get(t, long.ID); a.Status != allocation.Active {
		t.Errorf("%+v", a)
	}
	end := time.Now().Add(time.Hour)
	if _, err := w.service.Change(w.ctx, short.ID,
		allocation.Terms{ExpiresAt: &end}); fault.CodeOf(err) != "allocation_state_conflict" {
		t.Errorf("extended after the end: %v", err)
	}
}

func TestForceCleanupNeedsSomebodyWhoLooked(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.create(t, allocation.Ask{})[0]
	if _, err := w.service.ForceCleanup(w.ctx, a.ID, false, "stuck"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("%v", err)
	}
	now, err := w.service.ForceCleanup(w.ctx, a.ID, true, "stuck")
	if err != nil || now.Status != allocation.Failed || w.claims(t, a.ID) != 0 {
		t.Errorf("%+v, %v", now, err)
	}
}
