package operation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation"
)

func TestLifecyclesAreSound(t *testing.T) {
	t.Parallel()
	if err := operation.Lifecycle.Validate(); err != nil {
		t.Error(err)
	}
	if err := operation.TargetLifecycle.Validate(); err != nil {
		t.Error(err)
	}
}

// A run goes through all its nodes by its workflow, ever more at a time, and keeps what
// became of each step.
func TestARunGoesThroughItsNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 7)
	ref := w.define(t, "web.prepare")
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
		Limits: operation.Limits{MaxConcurrency: 4},
	})
	if o.Status != operation.Running || o.Counts[operation.TargetRunning] != 1 {
		t.Fatalf("the first node must have its work with the request: %s %v", o.Status, o.Counts)
	}
	o = w.run(t, o.ID)
	wantStatus(t, o, operation.Succeeded, map[operation.TargetStatus]int32{operation.TargetSucceeded: 7})
	if all := w.steps(t, o.ID); len(all) != 21 || all[0].Status != "succeeded" || all[0].Duration < time.Second/2 {
		t.Errorf("%d steps are kept: %+v", len(all), all)
	}
	for event, n := range map[string]int{
		"operation.requested": 1, "operation.progress": 7, "operation.completed": 1, "operation.failed": 0,
	} {
		if got := w.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = $1`, event); got != n {
			t.Errorf("%d events %s, want %d", got, event, n)
		}
	}
}

// The ramp doubles with what succeeded, and never passes the limit.
func TestTheRampDoubles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare")
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: w.nodes(t, 16)}, Trigger: operation.ByAdmin,
		Limits: operation.Limits{MaxConcurrency: 5},
	})
	var waves []int
	for range 8 {
		waves = append(waves, len(w.fetchAndKeep(t)))
		w.reportKept(t)
		for w.turn(t, o.ID).Moved {
			continue
		}
	}
	if got := waves[:5]; got[0] != 1 || got[1] != 2 || got[2] != 4 || got[3] != 5 {
		t.Errorf("waves are %v, want 1, 2, 4, 5 …", waves)
	}
}

// What a node cannot do is not given to it, and it says why; what no node can do is
// refused.
func TestNodesAreGivenOnlyWhatTheyCanDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good, old := w.node(t, "good"), w.node(t, "old", "health.check")
	ref := w.define(t, "web.prepare", func(d *definition.Definition) {
		d.Requires = map[string]definition.Accepted{"gpu.vendor": {"nvidia"}}
	})
	amd := w.node(t, "amd")
	w.exec(t, `UPDATE nodes SET capabilities = '{"gpu.vendor": "amd"}' WHERE id = $1`, amd)
	p, err := w.service.Plan(w.ctx, operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: []id.Node{good, old, amd}}})
	if err != nil {
		t.Fatal(err)
	}
	if says := strings.Join(p.Says(), "; "); !strings.Contains(says, "1 of 3 nodes") {
		t.Errorf("the plan says: %s", says)
	}
	o := w.settle(t, w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: []id.Node{good, old, amd}}, PlanHash: p.Hash, Trigger: operation.ByAdmin,
	}).ID)
	wantStatus(t, o, operation.Succeeded, map[operation.TargetStatus]int32{
		operation.TargetSucceeded: 1, operation.TargetSkipped: 2,
	})
	for _, target := range w.targets(t, o.ID) {
		if target.Status == operation.TargetSkipped && target.Error.Class != agentwire.FailureCapability {
			t.Errorf("%s was skipped with %+v", target.Hostname, target.Error)
		}
	}
	_, err = w.service.Submit(w.ctx, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: []id.Node{old}}, Trigger: operation.ByAdmin,
	})
	wantCode(t, "no node can do it", err, "operation_no_fitting_target")
	_, err = w.service.Submit(w.ctx, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: []id.Node{good}}, PlanHash: p.Hash, Trigger: operation.ByAdmin,
	})
	wantCode(t, "another plan", err, "operation_plan_stale")
	_, err = w.service.Submit(w.ctx, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: []id.Node{id.New[id.Node]()}}, Trigger: operation.ByAdmin,
	})
	wantCode(t, "a node that is not there", err, "operation_target_not_found")
}

// A resume goes on at the step that failed, on the nodes that did not succeed, and
// repeats nothing that is done.
func TestAResumeGoesOnAtTheFailedStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 3)
	ref := w.define(t, "web.prepare")
	w.failing("two", nodes[1])
	o := w.settle(t, w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
		Limits: operation.Limits{MaxFailures: 1},
	}).ID)
	wantStatus(t, o, operation.Failed, map[operation.TargetStatus]int32{
		operation.TargetSucceeded: 2, operation.TargetFailed: 1,
	})
	if o.ErrorMessage != "1 of 3 targets failed" {
		t.Errorf("it says %q", o.ErrorMessage)
	}
	bad := w.targets(t, o.ID)[1]
	if bad.StepIndex != 1 || bad.Error.Code != "disk_full" || bad.Error.Remedy != "make some" {
		t.Errorf("the target that failed: %+v", bad)
	}
	w.failing("none")
	w.given = nil
	if _, err := w.service.Retry(w.ctx, o.ID, nil, "there is space now"); err != nil {
		t.Fatal(err)
	}
	o = w.settle(t, o.ID)
	wantStatus(t, o, operation.Succeeded, map[operation.TargetStatus]int32{operation.TargetSucceeded: 3})
	if len(w.given) != 1 || w.given[0].Begin != 1 || w.given[0].TargetID != bad.ID.String() {
		t.Errorf("the resume gave %+v", w.given)
	}
	if n := w.count(t, `SELECT count(*) FROM operation_steps WHERE target_id = $1 AND step_id = 'one'`, bad.ID); n != 1 {
		t.Errorf("the step that was done has %d rows", n)
	}
	if _, err := w.service.Retry(w.ctx, o.ID, nil, ""); err == nil {
		t.Error("a run that succeeded cannot be resumed")
	}
}

// A step that failed and was passed over stays failed; one that was resumed and went well
// is not listed as failed any more.
func TestFailedStepsAreThoseOfTheNewestAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 2)
	ref := w.define(t, "web.prepare", func(d *definition.Definition) { d.Steps[0].OnFailure = definition.Continue })
	failed := func(of id.Operation) (all []string) {
		for _, s := range w.stepsThatAre(t, of, agentwire.StepFailed) {
			all = append(all, s.Hostname+" "+s.ID)
		}
		return all
	}
	w.do = func(node id.Node, _ agentwire.OperationRunParams, s agentwire.OperationStep) agentwire.StepOutcome {
		if node == nodes[1] && s.ID != "look" {
			return outcome(s, agentwire.StepFailed)
		}
		return outcome(s, agentwire.StepSucceeded)
	}
	o := w.settle(t, w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
		Limits: operation.Limits{MaxFailures: 1},
	}).ID)
	host := w.targets(t, o.ID)[1].Hostname
	if got := failed(o.ID); !slices.Equal(got, []string{host + " one", host + " two"}) {
		t.Errorf("failed: %q", got)
	}
	w.failing("none")
	if _, err := w.service.Retry(w.ctx, o.ID, nil, "mended"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded, nil)
	if got := failed(o.ID); !slices.Equal(got, []string{host + " one"}) {
		t.Errorf("failed after the resume: %q", got)
	}
}

// When more targets fail than a run may cost, nothing more is handed out until somebody
// decides; and a resume of what is paused takes the failed ones up again.
func TestTooManyFailuresPauseARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 4)
	ref := w.define(t, "web.prepare")
	w.failing("one", nodes[0])
	o := w.settle(t, w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
	}).ID)
	wantStatus(t, o, operation.Running, map[operation.TargetStatus]int32{
		operation.TargetFailed: 1, operation.TargetWaiting: 3,
	})
	if o.Pause.At == nil || !strings.Contains(o.Pause.Reason, "1 node failed") {
		t.Fatalf("it must pause and say why: %+v", o.Pause)
	}
	goesOn, err := w.service.Unpause(w.ctx, o.ID, "only that one is broken")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{auth.From(w.ctx).ID}; !slices.Equal(goesOn.ResumedBy, want) {
		t.Errorf("it answers for %v from now on, want %v, who ended the pause", goesOn.ResumedBy, want)
	}
	o = w.settle(t, o.ID)
	wantStatus(t, o, operation.Failed, map[operation.TargetStatus]int32{
		operation.TargetFailed: 1, operation.TargetSucceeded: 3,
	})

	again, err := w.service.Again(w.ctx, o, "once more")
	if err != nil || again.AgainOf != o.ID || again.ID == o.ID {
		t.Fatalf("run again: %+v, %v", again, err)
	}
	again = w.settle(t, again.ID)
	if again.Pause.At == nil {
		t.Fatal("the new run must pause, too")
	}
	w.failing("none")
	if _, err := w.service.Retry(w.ctx, again.ID, nil, "mended"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, again.ID), operation.Succeeded,
		map[operation.TargetStatus]int32{operation.TargetSucceeded: 4})
}

// A cancel ends what waits at once and asks nodes to stop; what was canceled can be
// resumed where it stopped.
func TestACancelStopsAndCanBeResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 2)
	ref := w.define(t, "web.prepare")
	o := w.submit(t, operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin})
	e := w.fetch(t)[0]
	if _, err := w.service.Cancel(w.ctx, o.ID, "wrong file"); err != nil {
		t.Fatal(err)
	}
	look := w.turn(t, o.ID)
	if look.Done {
		t.Fatal("a node still works on it")
	}
	if n := w.count(t, `SELECT count(*) FROM node_tasks WHERE cancel_requested`); n != 1 {
		t.Errorf("%d nodes are asked to stop, want 1", n)
	}
	all := w.targets(t, o.ID)
	if all[1].Status != operation.TargetCanceled {
		t.Errorf("what waits is %s", all[1].Status)
	}
	w.result(t, e, agentwire.ResultCancelled, agentwire.OperationRunOutput{Steps: []agentwire.StepOutcome{
		{ID: "one", Kind: "file.render", Status: agentwire.StepSucceeded, Changed: true},
		{ID: "two", Kind: "file.render", Status: agentwire.StepCancelled},
	}})
	w.turn(t, o.ID)
	o = w.get(t, o.ID)
	wantStatus(t, o, operation.Canceled, map[operation.TargetStatus]int32{operation.TargetCanceled: 2})
	if got := w.targets(t, o.ID)[0]; got.StepIndex != 1 || !got.Changed {
		t.Errorf("it must say what was done: %+v", got)
	}
	w.given = nil
	if _, err := w.service.Retry(w.ctx, o.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded,
		map[operation.TargetStatus]int32{operation.TargetSucceeded: 2})
	if len(w.given) != 2 || w.given[0].Begin+w.given[1].Begin != 1 {
		t.Errorf("the resume gave %+v", w.given)
	}
}

// A run that must be approved begins only when somebody else with the role says so.
func TestAnApprovalComesFromSomebodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node(t, "n1")
	w.rented(t, n, "ann")
	ref := w.define(t, "web.prepare", func(d *definition.Definition) { d.Approval = string(auth.ProjectAdmin) })
	ann, ben, kim := w.as(t, "ann", auth.ProjectAdmin), w.as(t, "ben", auth.ProjectMember), w.as(t, "kim",
		auth.ProjectAdmin)
	o, err := w.service.Submit(ann, operation.Ask{
		Owner: operation.Owner{Project: w.project}, Ref: ref, Targets: operation.Selector{Nodes: []id.Node{n}},
		Trigger: operation.ByTenant,
	})
	if err != nil {
		t.Fatal(err)
	}
	if o = w.settle(t, o.ID); o.Status != operation.Queued || len(w.given) != 0 {
		t.Fatalf("it must wait: %s, %v", o.Status, w.given)
	}
	_, err = w.service.Approve(ann, o.ID, "")
	wantCode(t, "by whoever asked", err, "operation_own_approval")
	_, err = w.service.Approve(ben, o.ID, "")
	wantCode(t, "by a member", err, "insufficient_permissions")
	_, err = w.service.Approve(w.ctx, o.ID, "")
	wantCode(t, "by an operator of the platform", err, "insufficient_permissions")
	if _, err := w.service.Approve(kim, o.ID, "looks right"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded, nil)

	late, err := w.service.Again(ann, o, "")
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, `UPDATE operations SET approval_expires_at = clock_timestamp() - interval '1 second' WHERE id = $1`, late.ID)
	late = w.settle(t, late.ID)
	if late.Status != operation.Canceled || late.ErrorCode != "operation_approval_expired" {
		t.Errorf("nobody approved it: %s, %s", late.Status, late.ErrorCode)
	}
}

// A run that nobody looks at any more is looked at again.
func TestALostWorkflowIsStartedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare")
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: w.nodes(t, 1)}, Trigger: operation.ByAdmin,
	})
	const signals = `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal'`
	if err := w.service.Tend(w.ctx); err != nil || w.count(t, signals) != 0 {
		t.Fatalf("one that is looked at is left alone: %v", err)
	}
	w.exec(t, `UPDATE operations SET look_again_at = clock_timestamp() - interval '1 hour' WHERE id = $1`, o.ID)
	for range 2 {
		if err := w.service.Tend(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.count(t, signals+` AND aggregate_id = $1 AND envelope->'start' IS NOT NULL`, o.WorkflowID()); n != 1 {
		t.Errorf("its workflow is told %d times, want once", n)
	}
}
