package decommission_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// cleanSince makes a node one that is proven clean.
func (y *yard) cleanSince(tb testing.TB, of id.Node) {
	tb.Helper()
	y.exec(tb, `UPDATE nodes SET clean_at = clock_timestamp() WHERE id = $1`, of)
}

func (y *yard) plan(tb testing.TB, of id.Node, mode decommission.Mode) decommission.Plan {
	tb.Helper()
	p, err := y.service.Plan(y.ctx, of, decommission.Request{Mode: mode})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func destroys(p decommission.Plan) bool {
	return strings.Contains(strings.Join(p.Effects, "; "), "DESTROYS")
}

func goesThrough(p decommission.Plan, stage string) bool {
	return slices.ContainsFunc(p.Stages, func(s decommission.PlannedStage) bool { return s.Name == stage })
}

// A node that was put aside as it was returns only cleaned.
func TestADrainedNodeIsCleanedBeforeItServesAgain(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	wants(t, y.run(t, y.request(t, n, decommission.Drain).ID), job.Completed, decommission.StageRetire, "")
	p := y.plan(t, n, decommission.Reactivate)
	if !destroys(p) || p.StorageCleanup != decommission.CleanupLocal || !goesThrough(p, decommission.StageScrub) {
		t.Errorf("the plan does not say that it cleans: %+v", p)
	}
	y.agent.asked = nil
	d := y.run(t, y.request(t, n, decommission.Reactivate).ID)
	wants(t, d, job.Completed, decommission.StageEnable, "")
	same(t, "tasks", y.agent.asked, []string{
		agentwire.TypeDrain, agentwire.TypeStorageCleanup, agentwire.TypeGPUScrub, agentwire.TypeValidateClean,
		agentwire.TypeDrain,
	})
	if now := y.see(t, n); !now.Schedulable || now.Tainted() {
		t.Errorf("it is %+v", now)
	}
}

// A retired node that was proven clean keeps what is on it.
func TestReactivatingACleanNodeDestroysNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Retired, false)
	y.cleanSince(t, n)
	p := y.plan(t, n, decommission.Reactivate)
	if destroys(p) || p.StorageCleanup != decommission.CleanupNone || goesThrough(p, decommission.StageStorage) {
		t.Errorf("the plan says that it cleans: %+v", p)
	}
	d := y.run(t, y.request(t, n, decommission.Reactivate).ID)
	wants(t, d, job.Completed, decommission.StageEnable, "")
	same(t, "tasks", y.agent.asked, []string{agentwire.TypeValidateClean, agentwire.TypeDrain})
	same(t, "evidence", y.kinds(t, d.ID), []string{"not_applicable", "not_applicable", "not_applicable", "validate_clean"})
	if now := y.see(t, n); !now.Schedulable {
		t.Errorf("it is %+v", now)
	}
}

// What a reactivation finds, it cleans when it is resumed: nothing of it is
// passed over, because no paper would tell.
func TestAReactivationThatFindsSomethingCleansIt(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Retired, false)
	y.cleanSince(t, n)
	y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()), obeys)
	d := y.request(t, n, decommission.Reactivate)
	d = y.run(t, d.ID, y.act(t, d.ID, job.Resume))
	wants(t, d, job.Completed, decommission.StageEnable, "")
	if !slices.Contains(y.agent.asked, agentwire.TypeGPUScrub) ||
		!slices.Contains(y.agent.asked, agentwire.TypeStorageCleanup) {
		t.Errorf("asked for %v", y.agent.asked)
	}
	for _, s := range decommission.TableOf(decommission.Reactivate) {
		if s.Overridable {
			t.Errorf("%s can be passed over", s.Name)
		}
	}
}

// A validation sees neither the memory of GPUs nor the free space of disks.
func TestAStorageCleanupProvesNothingAboutATaintedNode(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	if p := y.plan(t, n, decommission.StorageCleanup); !strings.Contains(p.Ends, "gpuaas node reset") {
		t.Errorf("the plan promises %q", p.Ends)
	}
	d := y.run(t, y.request(t, n, decommission.StorageCleanup).ID)
	wants(t, d, job.Completed, decommission.StageEnable, "")
	now := y.see(t, n)
	if now.Schedulable || !now.Tainted() || !now.HeldUnclean || now.HeldBy != "" || now.CleanAt != nil {
		t.Errorf("it is %+v", now)
	}
	if len(d.FollowUps) != 1 || !strings.Contains(d.FollowUps[0].Command, "gpuaas node reset") {
		t.Errorf("left to be done: %+v", d.FollowUps)
	}
	wants(t, y.run(t, y.request(t, n, decommission.SoftReset).ID), job.Completed, decommission.StageEnable, "")
	if now := y.see(t, n); !now.Schedulable || now.HoldReason != "" {
		t.Errorf("reset, it is %+v", now)
	}
	if p := y.plan(t, n, decommission.StorageCleanup); strings.Contains(p.Ends, "held") {
		t.Errorf("the plan of a clean node says %q", p.Ends)
	}
	d = y.run(t, y.request(t, n, decommission.StorageCleanup).ID)
	if now := y.see(t, n); !now.Schedulable || len(d.FollowUps) != 0 {
		t.Errorf("clean before, it is %+v, and left is %v", now, d.FollowUps)
	}
}

// meanwhile begins something that must wait for a row which is changed in
// another transaction, and lets that transaction end when it does.
func (y *yard) meanwhile(t *testing.T, begin func() error, change func(ctx context.Context, tx pgx.Tx) error,
	then func(),
) error {
	t.Helper()
	done := make(chan error, 1)
	err := y.owner.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := change(ctx, tx); err != nil {
			return err
		}
		go func() { done <- begin() }()
		for end := time.Now().Add(20 * time.Second); y.count(t, `SELECT count(*) FROM pg_locks WHERE NOT granted`) == 0; {
			if time.Now().After(end) {
				t.Fatal("nobody waits for the row")
			}
		}
		if then != nil {
			then()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return <-done
}

// Between the look at a node and the row of its operation anything may change.
func TestAProfileThatChangesWhileARequestIsTakenMakesItStale(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for name, planned := range map[string]bool{"with a plan": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			n := y.node(t, node.Active, true)
			r := asked(decommission.FullDecommission)
			if planned {
				r.PlanHash = y.plan(t, n, r.Mode).Hash
			}
			err := y.meanwhile(t, func() error { _, _, err := y.service.Request(y.ctx, n, r); return err },
				func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, `SELECT 1 FROM nodes WHERE id = $1 FOR UPDATE`, n)
					return err
				},
				func() {
					now, err := y.sites.Profile(y.ctx, y.site.ID, y.profile)
					if err != nil {
						t.Fatal(err)
					}
					flip := !now.Policy.RemoveMAASRecord
					if _, err := y.sites.UpdateProfile(y.ctx, y.site.ID, y.profile, now.Version,
						site.ProfileChange{Policy: site.PolicyChange{RemoveMAASRecord: &flip}}); err != nil {
						t.Fatal(err)
					}
				})
			wantCode(t, err, fault.Conflict, "plan_stale")
			if rows := y.count(t, `SELECT count(*) FROM node_decommissions WHERE node_id = $1`, n); rows != 0 {
				t.Errorf("%d rows", rows)
			}
		})
	}
}

// A job that is being cancelled while a place is given out gets none, and the place
// is not lost.
func TestAPlaceIsNotLostToOneThatIsCancelled(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := batchOf(y.fleet(t, 3)...)
	n.MaxParallel, n.MaxFailures = 1, 1
	b, _, err := y.service.RequestBatch(y.ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	first := y.begins(t, b.ID, 1, 2)[0]
	_, waiting := y.members(t, b.ID)
	slices.SortFunc(waiting, func(a, b decommission.Decommission) int {
		return strings.Compare(a.ID.String(), b.ID.String())
	})
	if err := y.owner.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error { // somebody is about to cancel the next one
		if _, err := tx.Exec(ctx, `SELECT 1 FROM jobs WHERE id = $1 FOR NO KEY UPDATE`, waiting[0].ID); err != nil {
			return err
		}
		wants(t, y.run(t, first.ID), job.Completed, decommission.StageEnable, "")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	y.begins(t, b.ID, 0, 2)
	if _, err := y.service.Act(y.ctx, waiting[0].ID, job.Cancel, "because"); err != nil {
		t.Fatal(err)
	}
	if now := y.begins(t, b.ID, 1, 0); len(now) == 1 && now[0].ID != waiting[1].ID {
		t.Errorf("%s has the place", now[0].ID)
	}
}

// To retry what is parked is a decision of an operator, who need not wait for a
// place; nothing further is begun until there is one again.
func TestAnActionOnAParkedMemberTakesAPlaceRegardless(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := batchOf(y.fleet(t, 3)...)
	n.MaxParallel, n.MaxFailures = 1, 1
	b, _, err := y.service.RequestBatch(y.ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	parked := y.begins(t, b.ID, 1, 2)[0]
	y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()))
	y.run(t, parked.ID)
	wellAgain(y)
	y.begins(t, b.ID, 1, 1)
	if _, err := y.service.Act(y.ctx, parked.ID, job.Resume, "because"); err != nil {
		t.Fatal(err)
	}
	now := y.begins(t, b.ID, 2, 1)
	y.run(t, now[0].ID)
	y.begins(t, b.ID, 1, 1)
}

func TestANodeThatIsNamedTwiceIsOfABatchOnce(t *testing.T) {
	y := newYard(t)
	nodes := y.fleet(t, 2)
	b, _, err := y.service.RequestBatch(y.ctx, batchOf(nodes[0], nodes[1], nodes[0]))
	if err != nil || b.Total != 2 || len(b.Selector.Nodes) != 2 {
		t.Errorf("%+v, %v", b, err)
	}
}
