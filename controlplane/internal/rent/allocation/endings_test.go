package allocation_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// An account that was asked for and not made yet must not be made once its
// allocation has ended: the node may be another tenant's by then.
func TestAttackALateAccountIsNotMadeOnTheNodeOfTheNextTenant(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	queue := w.realTasks(0)
	go queue.Run(t.Context())
	var generation int64
	if err := w.owner.QueryRow(t.Context(), `SELECT generation FROM nodes WHERE id = $1`,
		n).Scan(&generation); err != nil {
		t.Fatal(err)
	}
	a := w.create(t, allocation.Ask{})[0]
	go func() { // the agent answers the probe, and is away then
		e, err := queue.Wait(t.Context(), n, generation, 20*time.Second)
		if err != nil || e == nil {
			t.Errorf("probe: %v, %v", e, err)
			return
		}
		out, err := json.Marshal(agentwire.HealthProbeOutput{
			Healthy: true, Checks: []agentwire.HealthCheck{{Name: "disk", Status: "ok"}},
		})
		task, parse := id.Parse[id.NodeTask](e.TaskID)
		if err != nil || parse != nil {
			t.Error(err, parse)
			return
		}
		if err := queue.Result(t.Context(), n, task, agentwire.ResultRequest{
			Attempt: e.Attempt, Status: "succeeded", Output: out,
		}); err != nil {
			t.Error(err)
		}
	}()
	a = w.provision(t, a, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			w.release(t, a)
			env.CancelWorkflow()
		}, 20*time.Second)
	})
	if a.Status != allocation.Failed || w.claims(t, a.ID) != 1 {
		t.Fatalf("%+v", a)
	}
	live := w.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND status IN ('queued', 'dispatched')`, n)
	made := w.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = 'allocation.provision_user'`, n)
	if live != 0 || made != 1 {
		t.Errorf("%d of %d tasks that let somebody in outlive the allocation", live, made)
	}
}

// realTasks gives the world the real queue of tasks, with agents that a test plays.
func (w *world) realTasks(patience time.Duration) *agenttask.Queue {
	w.service = allocation.New(allocation.Config{
		DB: w.db, Tasks: agenttask.Commands{DB: w.db}, Cleanups: w.cleanups, Terminals: w.terminals, Patience: patience,
	})
	return agenttask.New(agenttask.QueueConfig{DB: w.db, Signer: signer{}})
}

type signer struct{}

func (signer) SignEnvelope(_ context.Context, e *agentwire.Envelope) error {
	e.SignerVersion = "v1"
	return nil
}

func TestAttackWhatIsBeingCleanedCountsAgainstTheQuota(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 3)
	for range 3 { // as somebody does who cancels as soon as the account is being made
		a := w.create(t, allocation.Ask{})[0]
		w.agents.fail[a.Node] = map[string]agentwire.TaskError{agentwire.TypeProvisionUser: {Code: "x", Message: "x"}}
		w.provision(t, a)
	}
	if held := w.held(t); held != 3 {
		t.Errorf("%d nodes count while 3 are claimed", held)
	}
}

func TestAttackRootThatStopsItsCleaningCountsAgainstTheQuota(t *testing.T) {
	for access, want := range map[allocation.Access]int32{allocation.RootAccess: 1, allocation.UserAccess: 0} {
		t.Run(string(access), func(t *testing.T) {
			w := newWorld(t)
			n := w.node(t, "n1")
			w.bind(t, n)
			w.clean(t, w.release(t, w.active(t, allocation.Ask{Access: access})))
			w.cleanups.in(t, func(ctx context.Context, tx pgx.Tx) error {
				return allocation.Tenancies{}.Parked(ctx, tx, n, w.cleanups.live.ID, "the agent does not answer")
			})
			if held := w.held(t); held != want {
				t.Errorf("%d nodes count", held)
			}
		})
	}
}

func (w *world) held(tb testing.TB) (nodes int32) {
	tb.Helper()
	w.cleanups.in(tb, func(ctx context.Context, tx pgx.Tx) (err error) {
		_, nodes, err = allocation.Holdings{}.Held(ctx, tx, w.org, id.Project{}, "")
		return err
	})
	return nodes
}

func TestANodeThatNobodyCouldAskStaysInService(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 2)
	w.realTasks(50 * time.Millisecond) // the signer or the listener of nodes is away
	a := w.provision(t, w.create(t, allocation.Ask{})[0])
	if a.Status != allocation.Failed || a.Placements != 2 || w.claims(t, a.ID) != 0 {
		t.Fatalf("%+v", a)
	}
	if n := w.count(t, `SELECT count(*) FROM nodes WHERE status <> 'active'`); n != 0 {
		t.Errorf("%d healthy nodes were taken out of service", n)
	}
}

func TestExpiryDoesNotEndWhatWasJustExtended(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 2)
	a := w.active(t, allocation.Ask{ExpiresIn: time.Hour})
	// Expiry found it due; the extension was faster.
	now, err := w.service.Release(w.ctx, a.ID, allocation.Leaving{Cause: allocation.ByExpiry})
	if err != nil || now.Status != allocation.Active || now.Times.ReleaseRequested != nil {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestOneThatCannotExpireDoesNotKeepTheOthers(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 2)
	bad, good := w.active(t, allocation.Ask{ExpiresIn: time.Hour}), w.active(t, allocation.Ask{ExpiresIn: time.Hour})
	w.exec(t, `UPDATE allocations SET expires_at = clock_timestamp() - interval '1 h', sku_terms = '[]' WHERE id = $1`,
		bad.ID)
	w.exec(t, `UPDATE allocations SET expires_at = clock_timestamp() WHERE id = $1`, good.ID)
	if n, err := w.service.Expire(t.Context()); err == nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if a := w.get(t, good.ID); a.Status != allocation.Releasing {
		t.Errorf("%+v", a)
	}
}

func TestARequestThatTheNodeOutranIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	w.cleanups.refuse = fault.New(fault.Conflict, decommission.CodePlanStale, "node n1 became offline meanwhile")
	w.cleanups.refusals = 2
	if a := w.clean(t, w.release(t, w.active(t, allocation.Ask{}))); a.Status != allocation.Releasing ||
		w.cleanups.started != 1 {
		t.Errorf("%+v", a)
	}
}

func TestForceReleaseStartsALostCleaningAgain(t *testing.T) {
	starts := `SELECT count(*) FROM outbox_events WHERE event_type = 'ReleaseAllocation'`
	t.Run("releasing", func(t *testing.T) {
		w := newWorld(t)
		w.node(t, "n1")
		a := w.release(t, w.active(t, allocation.Ask{}))
		before := w.count(t, starts)
		if now, err := w.service.ForceRelease(w.ctx, a.ID, "its workflow is lost"); err != nil ||
			now.Status != allocation.Releasing || w.count(t, starts) != before+1 {
			t.Errorf("%+v, %v, %d starts", now, err, w.count(t, starts))
		}
	})
	t.Run("failed", func(t *testing.T) {
		w := newWorld(t)
		n := w.node(t, "n1")
		w.agents.fail[n] = map[string]agentwire.TaskError{agentwire.TypeProvisionUser: {Code: "x", Message: "x"}}
		a := w.provision(t, w.create(t, allocation.Ask{})[0])
		before := w.count(t, starts)
		if now, err := w.service.ForceRelease(w.ctx, a.ID, "its cleaning stopped"); err != nil ||
			now.Status != allocation.Failed || w.count(t, starts) != before+1 {
			t.Errorf("%+v, %v, %d starts", now, err, w.count(t, starts))
		}
	})
}

func TestLabelsThatAreChangedHaveLimits(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.create(t, allocation.Ask{})[0]
	for _, labels := range []map[string]string{
		{strings.Repeat("k", 64): "v"},
		{"k": strings.Repeat("v", 201)},
		{"": "v"},
	} {
		if _, err := w.service.Change(w.ctx, a.ID, allocation.Terms{Labels: labels}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.80v: %v", labels, err)
		}
	}
}

func TestWhyCleaningStoppedIsForgottenWhenItSucceeds(t *testing.T) {
	w := newWorld(t)
	n := w.node(t, "n1")
	a := w.clean(t, w.release(t, w.active(t, allocation.Ask{})))
	w.cleanups.in(t, func(ctx context.Context, tx pgx.Tx) error {
		return allocation.Tenancies{}.Parked(ctx, tx, n, w.cleanups.live.ID, "a disk does not answer")
	})
	w.cleanups.cleaned(t, n)
	if a = w.get(t, a.ID); a.Status != allocation.Released || a.Release.Failed != "" {
		t.Errorf("%+v", a)
	}
	if n, err := node.Get(t.Context(), w.db, n); err != nil || !n.Schedulable {
		t.Errorf("%+v, %v", n, err)
	}
}

// A release that is asked for again goes on with a cleaning that stopped: where it
// stopped, or from its beginning where its proof does not hold any more. What an
// operator stopped or leads, an operator goes on with.
func TestAReleaseAgainGoesOnWithWhatStopped(t *testing.T) {
	for name, c := range map[string]struct {
		code    string
		leading bool
		want    []job.Trigger
	}{
		"by itself":                {"agent_unreachable", false, []job.Trigger{job.Resume}},
		"after somebody came in":   {"node_tainted", false, []job.Trigger{job.Rerun}},
		"an operator stopped it":   {job.CodeMarked, false, nil},
		"an operator's operation":  {"agent_unreachable", true, nil},
		"an operator's, came late": {"node_tainted", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			n := w.node(t, "n1")
			a := w.active(t, allocation.Ask{})
			if c.leading {
				w.cleanups.live.ID = id.New[id.Decommission]()
				w.cleanups.in(t, func(ctx context.Context, tx pgx.Tx) error {
					return allocation.Tenancies{}.End(ctx, tx, n, w.cleanups.live.ID, "the rack moves")
				})
			} else {
				w.clean(t, w.release(t, a))
			}
			w.cleanups.live.Phase, w.cleanups.live.ErrorCode = job.Parked, c.code
			w.cleanups.in(t, func(ctx context.Context, tx pgx.Tx) error {
				return allocation.Tenancies{}.Parked(ctx, tx, n, w.cleanups.live.ID, "it stopped")
			})
			before := w.get(t, a.ID).Release
			w.clean(t, w.release(t, a))
			now := w.get(t, a.ID)
			if !slices.Equal(w.cleanups.acted, c.want) {
				t.Errorf("done to the cleaning: %v, not %v", w.cleanups.acted, c.want)
			}
			if c.want == nil && (now.Status != allocation.ReleaseFailed ||
				!strings.Contains(now.Release.Failed, "an operator")) {
				t.Errorf("%s: %q", now.Status, now.Release.Failed)
			}
			if now.Release.Cause != before.Cause || now.Release.Reason != before.Reason {
				t.Errorf("the second request changed who ended it and why: %+v, not %+v", now.Release, before)
			}
		})
	}
}
