package decommission_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// patient lets tasks wait for their nodes, so that a workflow that waits is
// seldom woken in the time that tests skip.
func patient(c *decommission.Config) { c.AgentPatience = 12 * time.Hour }

// Resuming a drain or a removal whose task is queued or being worked at waits
// for that task; one that expired is given anew.
func TestResumeNeverGivesATaskTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode  decommission.Mode
		from  node.Status
		typ   string
		state string
	}{
		{decommission.Drain, node.Active, agentwire.TypeDrain, "draining held"},
		{decommission.Remove, node.Retired, agentwire.TypeUninstall, "removing held"},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			y := newYard(t, patient)
			n := y.node(t, c.from, false)
			d := y.request(t, n, c.mode)
			y.agent.set(false, true) // nobody fetches it
			y.agent.on(c.typ, keeps)
			check := func(when string, tasks int) func(*testsuite.TestWorkflowEnvironment) {
				return func(*testsuite.TestWorkflowEnvironment) {
					if got := y.tasksOf(t, n, c.typ); got != tasks {
						t.Errorf("%s: %d tasks, want %d", when, got, tasks)
					}
					if got := y.stands(t, n); got != c.state {
						t.Errorf("%s: the node is %s", when, got)
					}
				}
			}
			end := y.run(t, d.ID,
				check("queued", 1), y.act(t, d.ID, job.MarkManual), y.act(t, d.ID, job.Resume), check("resumed while queued", 1),
				y.act(t, d.ID, job.MarkManual), y.act(t, d.ID, job.RetryStage, func() {
					y.agent.set(false, false)
				}), check("retried while dispatched", 1),
				y.again(t, n, c.mode), check("asked again", 1),
				y.act(t, d.ID, job.MarkManual),
				y.act(t, d.ID, job.Resume, func() {
					if err := y.agent.pass(y.ctx, 26*time.Hour); err != nil {
						t.Error(err)
					}
					wellAgain(y)
				}),
			)
			if end.Status != job.Completed {
				t.Errorf("it is %s at %s: %s", end.Status, end.Stage, end.ErrorMessage)
			}
			if got := y.tasksOf(t, n, c.typ); got != 2 {
				t.Errorf("%d tasks: the one that expired, and another", got)
			}
		})
	}
}

// again asks for what is being done.
func (y *yard) again(t *testing.T, n id.Node, mode decommission.Mode) func(*testsuite.TestWorkflowEnvironment) {
	t.Helper()
	return func(env *testsuite.TestWorkflowEnvironment) {
		if _, made, err := y.service.Continue(y.ctx, n, asked(mode)); err != nil || made {
			t.Errorf("asked again: made %t, %v", made, err)
		}
		env.SignalWorkflow(durable.ActSignal, nil)
	}
}

// A drain that was given up in the middle is not taken for the task that lifts
// the drain: both are of one type.
func TestADrainThatWasPassedOverIsNotItsEnd(t *testing.T) {
	t.Parallel()
	y := newYard(t, patient)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.SoftReset)
	y.agent.set(false, true)
	y.before = func(call durable.StageCall) error {
		if call.Stage == decommission.StageStorage {
			y.agent.set(false, false)
		}
		return nil
	}
	wait := func(*testsuite.TestWorkflowEnvironment) {}
	end := y.run(t, d.ID, y.act(t, d.ID, job.MarkManual), y.override(t, d.ID, decommission.StageDrain), wait, wait, wait)
	wants(t, end, job.Completed, decommission.StageEnable, "")
	if got := y.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = 'node.drain' AND status = 'succeeded' AND params ->> 'resume' = 'true'`, n); got != 1 {
		t.Errorf("the drain was lifted %d times", got)
	}
	if got := y.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = 'node.drain' AND status = 'cancelled'`, n); got != 1 {
		t.Errorf("%d drains were given up", got)
	}
}

// A decision to go on without a stage holds for that once: whoever goes back
// to the stage gets it carried out.
func TestAStageThatIsGoneBackToIsNotPassedOver(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.SoftReset)
	y.agent.on(agentwire.TypeDrain, fails("broken", "it broke"))
	y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()), succeeds(clean(agentwire.TypeValidateClean)))
	end := y.run(t, d.ID, y.override(t, d.ID, decommission.StageDrain), y.act(t, d.ID, job.Resume, func() {
		y.agent.on(agentwire.TypeDrain)
	}))
	wants(t, end, job.Completed, decommission.StageEnable, "")
	if !slices.Contains(y.kinds(t, d.ID), decommission.EvidenceDrain) {
		t.Error("the node was never drained")
	}
}

// Wherever an operation is cancelled, its node ends in a state that needs no
// owner, is held by nobody, and is not schedulable unless it is proven clean.
func TestCancelAtEveryStage(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	starts := map[decommission.Mode]node.Status{decommission.Reactivate: node.Retired, decommission.Remove: node.Retired}
	for _, mode := range decommission.Modes() {
		for _, s := range decommission.TableOf(mode) {
			if s.Pseudo || s.Detour {
				continue
			}
			t.Run(string(mode)+"/"+s.Name, func(t *testing.T) {
				wellAgain(y)
				from := node.Active
				if start, other := starts[mode]; other {
					from = start
				}
				n := y.node(t, from, mode == decommission.Reimage || mode == decommission.FullDecommission)
				d := y.request(t, n, mode)
				y.before = func(call durable.StageCall) error {
					if call.Job == d.ID.String() && call.Stage == s.Name {
						if _, err := y.service.Act(y.ctx, d.ID, job.Cancel, "because of the test"); err != nil &&
							fault.KindOf(err) != fault.Conflict {
							return err
						}
					}
					return nil
				}
				end, want := y.run(t, d.ID), job.Cancelled
				table := decommission.TableOf(mode)
				at, _ := table.Number(s.Name)
				if removed, _ := table.Number(decommission.StageRemove); removed > 0 && at > removed { // the node is deleted
					want = job.Completed
				}
				if end.Status != want {
					t.Fatalf("it is %s at %s: %s", end.Status, end.Stage, end.ErrorMessage)
				}
				y.sound(t, end)
			})
		}
	}
}

// sound checks what must be so at any time.
func (y *yard) sound(tb testing.TB, d decommission.Decommission) {
	tb.Helper()
	n := y.see(tb, d.Node)
	y.watch(y.ctx, d.Node)
	live := d.CompletedAt == nil
	if !live && (n.Status == node.Draining || n.Status == node.Removing) {
		tb.Errorf("the node is %s and nobody owns it", n.Status)
	}
	if !live && n.HeldBy != "" && n.Status != node.Deleted {
		tb.Errorf("the node is %s and held by %s, which has ended", n.Status, n.HeldBy)
	}
	if d.Parked() {
		if legal := decommission.LegalActions(d); !slices.Contains(legal, decommission.Recommended(d)) {
			tb.Errorf("parked at %s with %s: recommended is %q of %v", d.Stage, d.ErrorCode, decommission.Recommended(d), legal)
		}
	}
	twice := y.count(tb, `SELECT count(*) FROM (SELECT 1 FROM node_tasks WHERE node_id = $1 AND status IN ('queued', 'dispatched') AND NOT cancel_requested
		GROUP BY type, params HAVING count(*) > 1) AS twice`, d.Node)
	if twice > 0 {
		tb.Error("a task was given twice")
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.unproven) > 0 {
		tb.Fatalf("became schedulable while tainted: %v", y.unproven)
	}
}

// Whatever agents, MAAS and operators do in whatever order: the node has an
// owner or needs none, never serves unproven, and no task is given twice.
func TestNothingLeavesANodeWithoutAnOwner(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			wellAgain(y)
			p := player{yard: y, t: t, dice: rand.New(rand.NewPCG(seed, 1)), env: activities(y)}
			p.play()
		})
	}
}

func activities(y *yard) *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(y.service.NextTurn)
	env.RegisterActivity(y.service.RunOne)
	return env
}

// player does anything to an operation.
type player struct {
	*yard
	t    *testing.T
	dice *rand.Rand
	env  *testsuite.TestActivityEnvironment
	node id.Node
	d    decommission.Decommission
}

func pick[T any](dice *rand.Rand, list []T) T { return list[dice.IntN(len(list))] }

func (p *player) play() {
	mode := pick(p.dice, decommission.Modes())
	from := pick(p.dice, slices.DeleteFunc(slices.Clone(decommission.From(mode)), func(s node.Status) bool {
		return s == node.Draining || s == node.Removing || s == node.Enrolling
	}))
	managed := mode == decommission.Reimage || from != node.BootstrapIssued && p.dice.IntN(2) == 0
	p.node = p.yard.node(p.t, from, managed)
	p.d = p.request(p.t, p.node, mode)
	for range 40 {
		if p.d.CompletedAt != nil {
			break
		}
		p.weather()
		if p.d.Parked() || p.dice.IntN(5) == 0 {
			p.operate()
		} else {
			p.step()
		}
		p.look()
	}
	wellAgain(p.yard)
	for range 60 { // it can always be brought to an end
		if p.d.CompletedAt != nil {
			return
		}
		if p.d.Status != job.Compensating {
			p.must(p.service.Act(p.ctx, p.d.ID, job.Cancel, "enough"))
			if p.read(p.t, p.d.ID).Parked() { // a deleted node is seen through
				p.must(p.service.Act(p.ctx, p.d.ID, job.Resume, "enough"))
			}
		}
		p.step()
		p.look()
	}
	p.t.Errorf("never ended: %s at %s: %s", p.d.Status, p.d.Stage, p.d.ErrorMessage)
}

func (p *player) look() {
	p.t.Helper()
	p.d = p.read(p.t, p.d.ID)
	p.sound(p.t, p.d)
	if p.t.Failed() {
		p.t.Fatalf("%s of a node that was %s, at %s, %s: %v", p.d.Mode, p.d.Origin, p.d.Stage, p.d.Status,
			p.ledger(p.t, p.d.ID))
	}
}

// weather is how agents and MAAS are for a while.
func (p *player) weather() {
	wellAgain(p.yard)
	switch p.dice.IntN(8) {
	case 0:
		p.agent.set(true, false)
	case 1:
		p.agent.set(false, true)
	case 2:
		p.agent.on(agentwire.TypeValidateClean, succeeds(dirty()))
	case 3:
		p.agent.on(pick(p.dice, []string{agentwire.TypeDrain, agentwire.TypeUninstall, agentwire.TypeStorageCleanup}),
			fails("broken", "it broke"))
	case 4:
		p.agent.on(pick(p.dice, []string{agentwire.TypeDrain, agentwire.TypeUninstall, agentwire.TypeGPUScrub}), keeps)
	case 5:
		p.agent.on(pick(p.dice, []string{agentwire.TypeDrain, agentwire.TypeUninstall}), expires)
	case 6:
		p.script.fails(always, pick(p.dice, machineStages), failure(pick(p.dice, bringup.FailureClasses), "made_up"))
	}
}

func (p *player) operate() {
	if p.dice.IntN(4) == 0 {
		p.must(p.service.Override(p.ctx, p.d.ID, p.d.Stage, "because", "some"))
		return
	}
	if p.dice.IntN(6) == 0 {
		d, _, err := p.service.Continue(p.ctx, p.node, asked(p.d.Mode))
		p.must(d, err)
		return
	}
	p.must(p.service.Act(p.ctx, p.d.ID, pick(p.dice, job.Parking.AllActions()), "because"))
}

// must accepts what operators are refused.
func (p *player) must(_ decommission.Decommission, err error) {
	p.t.Helper()
	if err != nil && fault.KindOf(err) != fault.Conflict {
		p.t.Fatalf("%v", err)
	}
}

// step carries out what comes next.
func (p *player) step() {
	value, err := p.env.ExecuteActivity(p.service.NextTurn, p.d.ID.String())
	var turn durable.Turn
	if err == nil {
		err = value.Get(&turn)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if turn.Do != durable.TurnRun {
		return
	}
	_, err = p.env.ExecuteActivity(p.service.RunOne,
		durable.StageCall{Job: p.d.ID.String(), Stage: turn.Stage, Attempt: turn.Attempt, Epoch: turn.Epoch})
	if err != nil && fault.CodeOf(durable.FromTemporal(err)) != durable.CodeSuperseded {
		p.t.Fatal(errors.Join(err, fmt.Errorf("at %s", turn.Stage)))
	}
}
