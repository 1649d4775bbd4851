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

// A project reaches a node only through its own allocation that is in use: whatever
// else is named is as if it were not there, and nothing is dispatched.
func TestAProjectReachesOnlyWhatItRents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, theirs := id.New[id.Org](), id.New[id.Project]()
	w.exec(t, `INSERT INTO organizations (id, slug, name) VALUES ($1, 'evil', 'Evil')`, other)
	w.exec(t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'p', 'P')`, theirs, other)
	sibling := id.New[id.Project]()
	w.exec(t, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, 'sib', 'Sibling')`, sibling, w.org)
	own, colleague, foreign, near, free := w.node(t, "own"), w.node(t, "colleague"), w.node(t, "foreign"), w.node(t,
		"near"),
		w.node(t, "free")
	mine := w.rented(t, own, "ann")
	w.rented(t, colleague, "ben")
	foreignOne := w.rentedIn(t, foreign, "eve", other, theirs)
	w.rentedIn(t, near, "ann", w.org, sibling)
	leaving := w.node(t, "leaving")
	gone := w.rented(t, leaving, "ann")
	w.exec(t, `UPDATE allocations SET release_requested_at = clock_timestamp() WHERE id = $1`, gone)
	ref := w.define(t, "web.prepare")
	ann, boss := w.as(t, "ann", auth.ProjectMember), w.as(t, "boss", auth.ProjectAdmin)
	cases := []struct {
		name string
		by   context.Context //nolint:containedctx // who asks
		of   operation.Selector
		code string
		on   int
	}{
		{"her own node", ann, operation.Selector{Nodes: []id.Node{own}}, "", 1},
		{"her own allocation", ann, operation.Selector{Allocations: []id.Allocation{mine}}, "", 1},
		{"all that she has", ann, operation.Selector{Where: &operation.Where{}}, "", 1},
		{"all of the project", boss, operation.Selector{Where: &operation.Where{}}, "", 2},
		{"a colleague's", ann, operation.Selector{Nodes: []id.Node{own, colleague}}, "ownership_required", 0},
		{"a colleague's, by an administrator", boss, operation.Selector{Nodes: []id.Node{colleague}}, "", 1},
		{"another tenant's node", boss, operation.Selector{Nodes: []id.Node{foreign}}, "operation_target_not_found", 0},
		{
			"another tenant's allocation", boss,
			operation.Selector{Allocations: []id.Allocation{foreignOne}},
			"operation_target_not_found", 0,
		},
		{"her node in another project", ann, operation.Selector{Nodes: []id.Node{near}}, "operation_target_not_found", 0},
		{"a node that nobody has", boss, operation.Selector{Nodes: []id.Node{free}}, "operation_target_not_found", 0},
		{"what she is leaving", ann, operation.Selector{Allocations: []id.Allocation{gone}}, "operation_target_not_found", 0},
		{"a mixture", boss, operation.Selector{Nodes: []id.Node{own, foreign}}, "operation_target_not_found", 0},
		{"nothing", boss, operation.Selector{}, "validation_failed", 0},
	}
	for _, c := range cases {
		ask := operation.Ask{
			Owner: operation.Owner{Project: w.project}, Ref: ref, Targets: c.of, Trigger: operation.ByTenant,
		}
		p, err := w.service.Plan(c.by, ask)
		wantCode(t, c.name+", planned", err, c.code)
		if err == nil && len(p.Targets) != c.on {
			t.Errorf("%s: %d targets, want %d", c.name, len(p.Targets), c.on)
		}
		if c.code == "" {
			continue
		}
		_, err = w.service.Submit(c.by, ask)
		wantCode(t, c.name, err, c.code)
	}
	if n := w.count(t, `SELECT count(*) FROM node_tasks`); n != 0 {
		t.Errorf("%d tasks were given", n)
	}
}

// Who is on a node decides whether the platform may work on it, and whether a project
// may run a definition at all.
func TestSafetyDecidesWhoMayBeOnTheNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free, taken := w.node(t, "free"), w.node(t, "taken")
	w.rented(t, taken, "ann")
	for _, c := range []struct {
		safety            definition.Safety
		free, taken, mine string // the code; empty: it may
	}{
		{definition.Safety{Rented: definition.RentedNone}, "", "node_rented", "operation_not_for_tenants"},
		{definition.Safety{Rented: definition.RentedProject}, "", "node_rented", ""},
		{definition.Safety{Rented: definition.RentedAny}, "", "", ""},
		{definition.Safety{Rented: definition.RentedAny, IdleOnly: true}, "", "node_rented", ""},
		{
			definition.Safety{Rented: definition.RentedAny, AfterDrain: true},
			"node_not_drained", "node_not_drained",
			"node_not_drained",
		},
	} {
		ref := w.define(t, "web.n"+string(rune('a'+w.count(t, `SELECT count(*) FROM operation_definitions`))),
			func(d *definition.Definition) { d.Safety = c.safety })
		first := func(ctx context.Context, owner operation.Owner, n id.Node) string {
			p, err := w.service.Plan(ctx, operation.Ask{
				Owner: owner, Ref: ref,
				Targets: operation.Selector{Nodes: []id.Node{n}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Targets[0].Troubles) == 0 {
				return ""
			}
			return p.Targets[0].Troubles[0].Code
		}
		if got := first(w.ctx, operation.Owner{}, free); got != c.free {
			t.Errorf("%+v on a free node: %q, want %q", c.safety, got, c.free)
		}
		if got := first(w.ctx, operation.Owner{}, taken); got != c.taken {
			t.Errorf("%+v on a rented node: %q, want %q", c.safety, got, c.taken)
		}
		ann := w.as(t, "ann", auth.ProjectMember)
		if got := first(ann, operation.Owner{Project: w.project}, taken); got != c.mine {
			t.Errorf("%+v by the tenant: %q, want %q", c.safety, got, c.mine)
		}
	}
}

// The end of an allocation ends what runs on its node, and what has not begun is not
// handed out any more.
func TestAReleaseEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.node(t, "n1"), w.node(t, "n2")
	a, b := w.rented(t, first, "ann"), w.rented(t, second, "ann")
	ref := w.define(t, "web.prepare")
	o, err := w.service.Submit(w.as(t, "ann", auth.ProjectMember), operation.Ask{
		Owner: operation.Owner{Project: w.project}, Ref: ref, Trigger: operation.ByTenant,
		Targets: operation.Selector{Nodes: []id.Node{first, second}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := w.fetch(t)[0]
	for _, of := range []id.Allocation{a, b} {
		w.exec(t, `UPDATE allocations SET release_requested_at = clock_timestamp(), status = 'releasing' WHERE id = $1`, of)
	}
	if err := w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
		return operation.Runs{}.LeaveNode(ctx, tx, first, "the allocation of the node has ended")
	}); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, `SELECT count(*) FROM node_tasks WHERE cancel_requested`); n != 1 {
		t.Fatalf("%d nodes are asked to stop, want 1", n)
	}
	w.result(t, e, agentwire.ResultCancelled, agentwire.OperationRunOutput{})
	o = w.settle(t, o.ID)
	wantStatus(t, o, operation.Canceled, map[operation.TargetStatus]int32{
		operation.TargetCanceled: 1, operation.TargetSkipped: 1,
	})
	for _, target := range w.targets(t, o.ID) {
		if target.Error.Code != "allocation_ended" {
			t.Errorf("%s ended with %+v", target.Hostname, target.Error)
		}
	}
}

// A policy narrows a run, denies it, and is asked again before more is handed out.
func TestThePolicyIsAskedAtEveryHandOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := w.nodes(t, 3)
	ref := w.define(t, "web.prepare")
	w.exec(t, `INSERT INTO operation_policy_overrides (operation_type, scope, max_concurrency, updated_by)
		VALUES ('web.prepare', 'global', 1, 'root')`)
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
		Limits: operation.Limits{MaxConcurrency: 3, NoRamp: true},
	})
	if o.Limits.MaxConcurrency != 1 || o.Counts[operation.TargetRunning] != 1 {
		t.Errorf("the policy allows one at a time: %+v %v", o.Limits, o.Counts)
	}
	w.work(t)
	w.exec(t, `UPDATE operation_policy_overrides SET hard_deny = true`)
	o = w.settle(t, o.ID)
	wantStatus(t, o, operation.Succeeded, map[operation.TargetStatus]int32{
		operation.TargetSucceeded: 1, operation.TargetSkipped: 2,
	})
	if got := w.targets(t, o.ID)[2].Error; got.Class != agentwire.FailurePolicy {
		t.Errorf("the others were skipped with %+v", got)
	}
	_, err := w.service.Submit(w.ctx, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
	})
	wantCode(t, "denied for good", err, "operation_denied_by_policy")
}

// An attempt of which nobody heard how it ended is not repeated: the node looks, and
// what it shows decides.
func TestWhatNobodyHeardOfIsLookedAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		undone string // the step that would still change something
		status operation.Status
		index  int32
	}{
		"done":     {"", operation.Succeeded, 3},
		"not done": {"two", operation.Failed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ref := w.define(t, "web.prepare")
			o := w.submit(t, operation.Ask{
				Ref: ref, Targets: operation.Selector{Nodes: w.nodes(t, 1)}, Trigger: operation.ByAdmin,
			})
			for range 3 { // the node takes it, and is not heard of again
				w.fetch(t)
				w.clock.pass(2 * time.Minute)
				if _, err := w.queue.Sweep(w.ctx); err != nil {
					t.Fatal(err)
				}
			}
			w.do = func(_ id.Node, p agentwire.OperationRunParams, s agentwire.OperationStep) agentwire.StepOutcome {
				if !p.Plan {
					return outcome(s, agentwire.StepSucceeded)
				}
				out := outcome(s, agentwire.StepPlanned)
				out.Changed = s.ID == c.undone
				return out
			}
			o = w.settle(t, o.ID)
			got := w.targets(t, o.ID)[0]
			if o.Status != c.status || got.StepIndex != c.index {
				t.Fatalf("the run is %s at step %d: %+v", o.Status, got.StepIndex, got.Error)
			}
			if len(w.given) == 0 || !w.given[0].Plan {
				t.Fatalf("the node must look first: %+v", w.given)
			}
			for _, p := range w.given[1:] {
				if p.Begin < 2 {
					t.Errorf("a step that changes the node was given again: %+v", p)
				}
			}
			if c.status == operation.Failed && got.Error.Class != agentwire.FailureAmbiguous {
				t.Errorf("it failed with %+v", got.Error)
			}
		})
	}
}
