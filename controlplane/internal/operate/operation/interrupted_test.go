package operation_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation"
)

// commanded makes the last step a program, whose effect nobody can look for, after one
// that only looks.
func commanded(d *definition.Definition) {
	d.Commands = []agentwire.CommandProfile{{ID: "sync", Command: "/usr/bin/sync", TimeoutSeconds: 10}}
	d.Steps[1], d.Steps[2] = d.Steps[2], definition.Step{
		ID: "command", Kind: agentwire.StepCommandExec, TimeoutSeconds: 30, OnFailure: definition.Stop,
		With: json.RawMessage(`{"profile":"sync"}`),
	}
}

// silence has nodes fetch what they are given, and never answer, until the run moves by
// itself. It gives how long that took.
func (w *world) silence(tb testing.TB, of id.Operation, most time.Duration) time.Duration {
	tb.Helper()
	const pause = 30 * time.Second
	for passed := time.Duration(0); passed < most; passed += pause {
		w.fetch(tb)
		w.clock.pass(pause)
		if _, err := w.queue.Sweep(w.ctx); err != nil {
			tb.Fatal(err)
		}
		if w.turn(tb, of).Done {
			return passed + pause
		}
	}
	tb.Fatalf("the run has not ended after %s of silence: %+v", most, w.targets(tb, of))
	return 0
}

// A node that takes its work and is never heard of again is asked to look, and when it
// is silent about that, too, its target ends: it does not wait for ever.
func TestASilentNodeEndsItsTargetWithinABound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare")
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: w.nodes(t, 1)}, Trigger: operation.ByAdmin,
	})
	// Two tasks of three attempts each, of which every one is given up after two minutes.
	w.silence(t, o.ID, 30*time.Minute)
	o = w.get(t, o.ID)
	wantStatus(t, o, operation.Failed, map[operation.TargetStatus]int32{operation.TargetFailed: 1})
	got := w.targets(t, o.ID)[0]
	if got.Error.Code != "operation_outcome_unknown" || got.Error.Class != agentwire.FailureAmbiguous ||
		got.Error.Remedy == "" || got.StepIndex != 0 {
		t.Errorf("the target: %+v", got)
	}
	if n := w.count(t, `SELECT count(*) FROM node_tasks`); n != 2 {
		t.Errorf("the node was given %d tasks, want the work and one look", n)
	}
	// Somebody has looked at the node, and has it go on.
	if _, err := w.service.Retry(w.ctx, o.ID, nil, "it was switched off"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded, nil)
}

// A node that never came for its work did nothing: nobody has to look, and a resume
// begins where it was.
func TestWorkThatNobodyFetchedWasNotDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare")
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: w.nodes(t, 1)}, Trigger: operation.ByAdmin,
	})
	w.clock.pass(time.Hour)
	if _, err := w.queue.Sweep(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.turn(t, o.ID)
	wantStatus(t, w.get(t, o.ID), operation.Failed, nil)
	if got := w.targets(t, o.ID)[0]; got.Error.Class != agentwire.FailureTransient {
		t.Errorf("the target: %+v", got)
	}
	if _, err := w.service.Retry(w.ctx, o.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded, nil)
	if len(w.given) != 1 || w.given[0].Plan || w.given[0].Begin != 0 {
		t.Errorf("the node was given %+v", w.given)
	}
}

// A program whose effect nobody can look for is not run again by itself, also if steps
// that only look come before it.
func TestAProgramIsNotRunAgainAfterSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare", commanded)
	n := w.node(t, "n1", "file.render", "health.check", agentwire.StepCommandExec)
	o := w.submit(t, operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: []id.Node{n}}, Trigger: operation.ByAdmin})
	for range 3 {
		w.fetch(t)
		w.clock.pass(2 * time.Minute)
		if _, err := w.queue.Sweep(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.do = func(_ id.Node, _ agentwire.OperationRunParams, s agentwire.OperationStep) agentwire.StepOutcome {
		out := outcome(s, agentwire.StepPlanned)
		out.Changed = s.Kind == agentwire.StepCommandExec // it always says so
		return out
	}
	o = w.settle(t, o.ID)
	wantStatus(t, o, operation.Failed, nil)
	for _, p := range w.given {
		if !p.Plan {
			t.Errorf("the node was told to do it again: %+v", p)
		}
	}
	got := w.targets(t, o.ID)[0]
	if got.StepIndex != 1 || got.Error.Class != agentwire.FailureAmbiguous ||
		!strings.Contains(got.Error.Message, "command") {
		t.Errorf("the target: %+v", got)
	}
}

// restarted is the world after its control plane was killed: nothing is left but the rows.
func (w *world) restarted() *world {
	return &world{
		db: w.db, owner: w.owner, tasks: w.tasks, queue: w.queue, clock: w.clock, org: w.org, project: w.project, ctx: w.ctx,
		service: operation.New(operation.Config{
			DB: w.db, Tasks: w.tasks, Linger: 50 * time.Millisecond,
			CheckInputs: func(_ definition.Version, in json.RawMessage) (json.RawMessage, error) { return in, nil },
		}),
	}
}

// What was canceled, and what the control plane lost sight of when it was killed, goes
// on at the step where it stood; only steps that are marked are done again.
func TestResumeAfterCancelAndCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 3)
	ref := w.define(t, "web.prepare", func(d *definition.Definition) { d.Steps[0].Repeat = true })
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
		Limits: operation.Limits{NoRamp: true, MaxConcurrency: 3},
	})
	all := w.fetch(t)
	if len(all) != 3 {
		t.Fatalf("%d nodes have work", len(all))
	}
	// One node is done, one stops at its second step, one answers after the crash.
	done := func(statuses ...string) (out agentwire.OperationRunOutput) {
		for i, status := range statuses {
			s := agentwire.OperationStep{ID: []string{"one", "two", "look"}[i], Kind: "file.render"}
			out.Steps = append(out.Steps, outcome(s, status))
		}
		return out
	}
	w.result(t, all[0], agentwire.ResultSucceeded, done("succeeded", "succeeded", "succeeded"))
	if _, err := w.service.Cancel(w.ctx, o.ID, "not now"); err != nil {
		t.Fatal(err)
	}
	w.turn(t, o.ID)
	w.result(t, all[1], agentwire.ResultCancelled, done("succeeded", "cancelled"))
	w.result(t, all[2], agentwire.ResultCancelled, done("succeeded", "succeeded", "cancelled"))

	after := w.restarted()
	o = after.run(t, o.ID)
	wantStatus(t, o, operation.Canceled, map[operation.TargetStatus]int32{
		operation.TargetSucceeded: 1, operation.TargetCanceled: 2,
	})
	if _, err := after.service.Retry(w.ctx, o.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	// The control plane is killed when the first of them has its work.
	for after.turn(t, o.ID).Moved {
		continue
	}
	again := w.restarted()
	w.exec(t, `UPDATE operations SET look_again_at = clock_timestamp() - interval '1 hour' WHERE id = $1`, o.ID)
	if err := again.service.Tend(w.ctx); err != nil {
		t.Fatal(err)
	}
	o = again.run(t, o.ID)
	wantStatus(t, o, operation.Succeeded, map[operation.TargetStatus]int32{operation.TargetSucceeded: 3})
	var given []string
	for _, p := range again.given {
		var steps []string
		for _, s := range p.Steps[p.Begin:] {
			steps = append(steps, s.ID)
		}
		given = append(given, strings.Join(steps, " "))
	}
	slices.Sort(given)
	if !slices.Equal(given, []string{"one look", "one two look"}) {
		t.Errorf("the resume did %q", given)
	}
	for step, want := range map[string]int{"one": 5, "two": 3, "look": 3} {
		if n := w.count(t, `SELECT count(*) FROM operation_steps WHERE operation_id = $1 AND step_id = $2 AND status = 'succeeded'`,
			o.ID, step); n != want {
			t.Errorf("step %s was done %d times, want %d", step, n, want)
		}
	}
}

// A node that falls silent while it shall stop leaves its target canceled, and says
// that nobody knows how far it came.
func TestACancelOfASilentNodeSaysThatNobodyKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare")
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: w.nodes(t, 1)}, Trigger: operation.ByAdmin,
	})
	w.fetch(t)
	if _, err := w.service.Cancel(w.ctx, o.ID, "not now"); err != nil {
		t.Fatal(err)
	}
	w.turn(t, o.ID)
	w.silence(t, o.ID, 15*time.Minute)
	wantStatus(t, w.get(t, o.ID), operation.Canceled, nil)
	if got := w.targets(t, o.ID)[0]; got.Error.Class != agentwire.FailureAmbiguous || got.Error.Remedy == "" {
		t.Errorf("the target: %+v", got)
	}
}
