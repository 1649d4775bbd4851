package operation_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation"
)

// A run whose allocation has ended reaches nothing any more: its resume is refused at
// once, and one of several goes on with the others.
func TestAResumeAfterTheAllocationEndedIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 2)
	gone := w.rented(t, nodes[0], "ann")
	w.rented(t, nodes[1], "ann")
	ref, ann := w.define(t, "web.prepare"), w.as(t, "ann", auth.ProjectMember)
	w.failing("two", nodes...)
	ask := w.ask(ref, nodes...)
	ask.Limits.MaxFailures = 2
	o, err := w.service.Submit(ann, ask)
	if err != nil {
		t.Fatal(err)
	}
	w.settle(t, o.ID)
	w.exec(t, `UPDATE allocations SET release_requested_at = clock_timestamp() WHERE id = $1`, gone)
	first := []id.OperationTarget{w.targets(t, o.ID)[0].ID}
	_, err = w.service.Retry(ann, o.ID, first, "")
	wantCode(t, "the one that was released", err, "allocation_ended")
	w.failing("none")
	if _, err := w.service.Retry(ann, o.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Failed, map[operation.TargetStatus]int32{
		operation.TargetFailed: 1, operation.TargetSucceeded: 1,
	})
	if got := w.targets(t, o.ID)[0]; got.Error.Code != "disk_full" || got.Attempt != 1 {
		t.Errorf("what was released still says why it failed: %+v", got)
	}
	_, err = w.service.Retry(ann, o.ID, nil, "")
	wantCode(t, "nothing else is left", err, "allocation_ended")
}

// Somebody who may steer the runs of others, and not use their nodes, cannot have a run
// go on there; whoever resumes a run is asked about from then on.
func TestAttackAResumeUsesTheRightsOfWhoeverResumes(t *testing.T) {
	t.Parallel()
	w, ref, o := failedRunOf(t, "ann")
	steward := auth.With(w.as(t, "eve", auth.ProjectAdmin), &auth.Principal{
		Kind: auth.KindUser, ID: "eve", Name: "eve", Projects: auth.From(w.as(t, "eve", auth.ProjectAdmin)).Projects,
		Scopes: []auth.Permission{auth.OperationRun, auth.OperationManage},
	})
	_, err := w.service.Retry(steward, o.ID, nil, "")
	wantCode(t, "who may not use the node", err, "ownership_required")
	wantStatus(t, w.get(t, o.ID), operation.Failed, map[operation.TargetStatus]int32{operation.TargetFailed: 1})

	w.exec(t, `INSERT INTO operation_policy_overrides (operation_type, scope, enabled, updated_by)
		VALUES ($1, 'global', false, 'root')`, ref.Type)
	_, err = w.service.Retry(w.as(t, "ann", auth.ProjectMember), o.ID, nil, "")
	wantCode(t, "what the policy denies by now", err, "operation_denied_by_policy")
	w.exec(t, `DELETE FROM operation_policy_overrides`)

	boss := w.as(t, "boss", auth.ProjectAdmin)
	if _, err := w.service.Retry(boss, o.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	var asked []string
	service := operation.New(operation.Config{DB: w.db, Tasks: w.tasks, Members: askedAbout{&asked}})
	if _, err := service.Turn(w.ctx, o.ID); err != nil {
		t.Fatal(err)
	}
	for _, who := range asked {
		if who != "boss" {
			t.Errorf("the rights of %s were asked about, want those of boss, who resumed it", who)
		}
	}
	if len(asked) == 0 {
		t.Error("nobody's rights were asked about")
	}
}

type askedAbout struct{ all *[]string }

func (a askedAbout) StillMay(_ context.Context, _ pgx.Tx, who string, _ auth.Permission, _ auth.Target) (bool, error) {
	*a.all = append(*a.all, who)
	return true, nil
}

// failedRunOf is a run of a member on their own node that failed.
func failedRunOf(t *testing.T, who string) (*world, definition.Ref, operation.Operation) {
	t.Helper()
	w := newWorld(t)
	n := w.node(t, "n1")
	w.rented(t, n, who)
	ref := w.define(t, "web.prepare")
	w.failing("two", n)
	o, err := w.service.Submit(w.as(t, who, auth.ProjectMember), w.ask(ref, n))
	if err != nil {
		t.Fatal(err)
	}
	o = w.settle(t, o.ID)
	wantStatus(t, o, operation.Failed, nil)
	w.failing("none")
	return w, ref, o
}

// A node that was asked what is there goes on with the rest only when its run does: a
// pause holds its target, and does not end it.
func TestAFollowUpWaitsForTheEndOfAPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare")
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: w.nodes(t, 1)}, Trigger: operation.ByAdmin,
	})
	for range 3 { // the work was fetched, and nobody heard of it again
		w.fetch(t)
		w.clock.pass(2 * time.Minute)
		if _, err := w.queue.Sweep(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.do = func(_ id.Node, p agentwire.OperationRunParams, s agentwire.OperationStep) agentwire.StepOutcome {
		if p.Plan { // everything that changes the node is done
			out := outcome(s, agentwire.StepPlanned)
			out.Changed = false
			return out
		}
		return outcome(s, agentwire.StepSucceeded)
	}
	w.turn(t, o.ID) // has the node look
	if _, err := w.service.Pause(w.ctx, o.ID, "wait a moment"); err != nil {
		t.Fatal(err)
	}
	o = w.settle(t, o.ID)
	wantStatus(t, o, operation.Running, map[operation.TargetStatus]int32{operation.TargetWaiting: 1})
	if got := w.targets(t, o.ID)[0]; got.FinishedAt != nil || got.Error.Code != "" || got.Probing {
		t.Errorf("while it is paused: %+v", got)
	}
	if _, err := w.service.Unpause(w.ctx, o.ID, ""); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, w.settle(t, o.ID), operation.Succeeded, nil)
	if last := w.given[len(w.given)-1]; last.Plan || last.Begin == 0 {
		t.Errorf("the node was given %+v, want the rest of its steps", last)
	}
}

// A plan that would do nothing anywhere can be named by nobody.
func TestAPlanForNoNodeHasNoHash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare")
	able, unable := w.node(t, "n1"), w.node(t, "n2", "health.check")
	for n, hashed := range map[id.Node]bool{able: true, unable: false} {
		ask := operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: []id.Node{n}}, Trigger: operation.ByAdmin}
		p, err := w.service.Plan(w.ctx, ask)
		if err != nil || (p.Hash != "") != hashed {
			t.Errorf("the plan has the hash %q, %v", p.Hash, err)
		}
		if !hashed {
			ask.PlanHash = "sha256:ab"
			_, err = w.service.Submit(w.ctx, ask)
			wantCode(t, "nothing to do", err, "operation_no_fitting_target")
		}
	}
}
