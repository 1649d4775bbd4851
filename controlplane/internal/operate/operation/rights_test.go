package operation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation"
)

// looks makes a definition of one that changes nothing.
func looks(d *definition.Definition) { d.Steps = d.Steps[2:] }

// rootCause says how somebody had root on a node; empty: nobody had.
func (w *world) rootCause(tb testing.TB, n id.Node) (cause string) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), `SELECT root_cause FROM nodes WHERE id = $1`, n).Scan(&cause); err != nil {
		tb.Fatal(err)
	}
	return cause
}

func (w *world) ask(ref definition.Ref, nodes ...id.Node) operation.Ask {
	return operation.Ask{
		Owner: operation.Owner{Project: w.project}, Ref: ref, Targets: operation.Selector{Nodes: nodes},
		Trigger: operation.ByTenant, Limits: operation.Limits{NoRamp: true},
	}
}

// What a tenant has changed on a node is done as root with values of their choice: the
// node counts as one that they had root on from the moment it is handed out.
func TestAttackARunThatChangesANodeIsRootThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	change, look := w.define(t, "web.prepare"), w.define(t, "web.look", looks)
	ann := w.as(t, "ann", auth.ProjectMember)
	for _, c := range []struct {
		name  string
		ref   definition.Ref
		plan  bool
		cause string
	}{
		{"changes", change, false, string(node.RootByOperation)},
		{"only planned", change, true, ""},
		{"looks", look, false, ""},
	} {
		n := w.node(t, strings.ReplaceAll(c.name, " ", "-"))
		w.rented(t, n, "ann")
		ask := w.ask(c.ref, n)
		ask.OnlyPlan = c.plan
		p, err := w.service.Plan(ann, ask)
		if err != nil {
			t.Fatal(err)
		}
		said := slices.Contains(p.Says(),
			"these nodes are reinstalled when they are released, because the run changes them as root; "+
				"one that was added by hand is held back until an operator has reinstalled it")
		if said != (c.cause != "") || w.rootCause(t, n) != "" {
			t.Errorf("%s: the plan says %q, and root came by %q", c.name, p.Says(), w.rootCause(t, n))
		}
		o, err := w.service.Submit(ann, ask)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.rootCause(t, n); got != c.cause {
			t.Errorf("%s: root came by %q when it was handed out, want %q", c.name, got, c.cause)
		}
		w.settle(t, o.ID)
		if got := w.rootCause(t, n); got != c.cause {
			t.Errorf("%s: root came by %q at the end, want %q", c.name, got, c.cause)
		}
	}
	mine := w.node(t, "platform")
	w.settle(t, w.submit(t, operation.Ask{
		Ref: change, Targets: operation.Selector{Nodes: []id.Node{mine}}, Trigger: operation.ByAdmin,
	}).ID)
	if got := w.rootCause(t, mine); got != "" {
		t.Errorf("a run of the platform itself counts as root of somebody: %q", got)
	}
}

// Where nobody may have root, nobody has a node changed by a run either, whoever
// forbids it and whenever: at the plan, at the request and at the hand-out.
func TestAttackARunIsNoWayAroundForbiddenRoot(t *testing.T) {
	t.Parallel()
	forbid := map[string]string{
		"SKU": `UPDATE skus SET user_access_only = true`,
		"tenant": `INSERT INTO rental_settings (org_id, root_access, updated_by)
			SELECT id, false, 'test' FROM organizations`,
		"project": `INSERT INTO rental_settings (org_id, project_id, root_access, updated_by)
			SELECT org_id, id, false, 'test' FROM projects`,
	}
	for who, how := range forbid {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first, second := w.node(t, "n1"), w.node(t, "n2")
			w.rented(t, first, "ann")
			w.rented(t, second, "ann")
			change, look := w.define(t, "web.prepare"), w.define(t, "web.look", looks)
			ann := w.as(t, "ann", auth.ProjectMember)
			ask := w.ask(change, first, second)
			ask.Limits.MaxConcurrency = 1
			o, err := w.service.Submit(ann, ask)
			if err != nil {
				t.Fatal(err)
			}
			w.exec(t, how)
			o = w.settle(t, o.ID)
			last := w.targets(t, o.ID)[1]
			if last.Status != operation.TargetSkipped || last.Error.Code != "root_not_allowed" || last.Error.Remedy == "" ||
				w.rootCause(t, second) != "" {
				t.Errorf("what was handed out later is %s with %+v", last.Status, last.Error)
			}
			p, err := w.service.Plan(ann, ask)
			if err != nil || p.Targets[1].Troubles[0].Code != "root_not_allowed" {
				t.Errorf("planned: %+v, %v", p.Targets, err)
			}
			_, err = w.service.Submit(ann, w.ask(change, second))
			wantCode(t, "asked for", err, "root_not_allowed")
			if f, _ := fault.As(err); f == nil || f.Remedy == "" {
				t.Errorf("it is refused without a remedy: %v", err)
			}
			if _, err := w.service.Submit(ann, w.ask(look, second)); err != nil {
				t.Errorf("what only looks: %v", err)
			}
			w.exec(t, `UPDATE allocations SET access = 'root' WHERE node_id = $1`, second)
			if p, err := w.service.Plan(ann, w.ask(change, second)); err != nil || len(p.Targets[0].Troubles) != 0 {
				t.Errorf("who has root already: %+v, %v", p.Targets, err)
			}
		})
	}
}

// Two people approve: whoever asked for a run or resumed it is not the second, and no
// program is.
func TestAttackNobodyApprovesWhatTheyResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node(t, "n1")
	w.rented(t, n, "ann")
	ref := w.define(t, "web.prepare", func(d *definition.Definition) { d.Approval = string(auth.ProjectAdmin) })
	ann, ben := w.as(t, "ann", auth.ProjectAdmin), w.as(t, "ben", auth.ProjectAdmin)
	cay := w.as(t, "cay", auth.ProjectAdmin)
	robot := auth.With(ben, &auth.Principal{
		Kind: auth.KindServiceAccount, ID: "robot", Name: "robot", Projects: auth.From(ben).Projects,
	})
	o, err := w.service.Submit(ann, w.ask(ref, n))
	if err != nil {
		t.Fatal(err)
	}
	approve := func(ctx context.Context, name, code string) {
		t.Helper()
		_, err := w.service.Approve(ctx, o.ID, "")
		wantCode(t, name, err, code)
	}
	approve(robot, "a program", "operation_approval_by_people")
	approve(ann, "who asked", "operation_own_approval")
	approve(ben, "somebody else", "")
	w.failing("one", n)
	w.settle(t, o.ID)
	for range 2 {
		if o, err = w.service.Retry(ben, o.ID, nil, "once more"); err != nil {
			t.Fatal(err)
		}
		approve(ben, "who resumed", "operation_own_approval")
		approve(ann, "who asked for what was resumed", "operation_own_approval")
		approve(cay, "somebody else again", "")
		w.settle(t, o.ID)
	}
	if !slices.Equal(w.get(t, o.ID).ResumedBy, []string{"ben"}) {
		t.Errorf("resumed by %v", w.get(t, o.ID).ResumedBy)
	}
}

// Lines are taken only of the installation that a node runs on, and only for a while
// after their task has ended. What an interrupted attempt printed is still taken while
// the node looks how far it came.
func TestAttackAnOldInstallationPrintsNothing(t *testing.T) {
	t.Parallel()
	for minutes, code := range map[int]string{5: "", 11: agentwire.CodeTaskNotYours} {
		w := newWorld(t)
		_, n, task := w.printing(t)
		send := func(name string, from int64, code string) {
			t.Helper()
			_, err := w.service.AppendLogs(w.ctx, n, task, lines(from, from, "one"))
			wantCode(t, name, err, code)
		}
		send("at work", 1, "")
		w.exec(t, `UPDATE nodes SET generation = generation + 1`)
		send("of an earlier installation", 2, agentwire.CodeTaskNotYours)
		w.exec(t, `UPDATE nodes SET generation = generation - 1`)
		w.exec(t, `UPDATE operation_targets SET task_id = NULL`)
		send("after another task took its place", 2, "")
		w.exec(t, `UPDATE node_tasks SET status = 'expired', lease_expires_at = NULL,
			finished_at = clock_timestamp() - make_interval(mins => $1)`, minutes)
		send(fmt.Sprintf("%d minutes after the end", minutes), 3, code)
	}
}

// rights are what somebody may still do.
type rights map[auth.Permission]bool

func (r rights) StillMay(_ context.Context, _ pgx.Tx, _ string, what auth.Permission, _ auth.Target) (bool, error) {
	return r[what], nil
}

// guarded is a world that asks again who may do what.
func guarded(tb testing.TB) (*world, rights) {
	tb.Helper()
	w := newWorld(tb)
	r := rights{auth.OperationRun: true, auth.AllocationManage: true, auth.OperationRunOnFleet: true}
	w.service = operation.New(operation.Config{
		DB: w.db, Tasks: w.tasks, Members: r,
		CheckInputs: func(definition.Version, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage("{}"), nil
		},
	})
	return w, r
}

// Whoever loses a right while a run goes on loses it at the next hand-out.
func TestAttackARunDoesNotOutliveTheRightToIt(t *testing.T) {
	t.Parallel()
	for lost, code := range map[auth.Permission]string{
		auth.AllocationManage: "ownership_required", auth.OperationRunOnFleet: "insufficient_permissions",
	} {
		w, may := guarded(t)
		first, second, third := w.node(t, "n1"), w.node(t, "n2"), w.node(t, "n3")
		ref := w.define(t, "web.prepare")
		ask, by := w.ask(ref, first, second, third), w.ctx
		own := operation.TargetSkipped
		if lost == auth.AllocationManage {
			w.rented(t, first, "ann")
			w.rented(t, second, "ann")
			w.rented(t, third, "boss")
			by, own = w.as(t, "boss", auth.ProjectAdmin), operation.TargetSucceeded
		} else {
			ask.Owner, ask.Trigger = operation.Owner{}, operation.ByAdmin
		}
		ask.Limits.MaxConcurrency = 1
		o, err := w.service.Submit(by, ask)
		if err != nil {
			t.Fatal(err)
		}
		may[lost] = false
		w.settle(t, o.ID)
		all := w.targets(t, o.ID)
		if all[0].Status != operation.TargetSucceeded || all[1].Status != operation.TargetSkipped ||
			all[1].Error.Code != code || all[2].Status != own {
			t.Errorf("without %s: %s, %s with %+v, %s", lost, all[0].Status, all[1].Status, all[1].Error, all[2].Status)
		}
	}
}

// A limit that a policy lowers holds for what is handed out afterwards, and a version
// that was retired is not resumed.
func TestALoweredLimitHoldsForARunThatGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := w.define(t, "web.prepare")
	nodes := w.nodes(t, 6)
	o := w.submit(t, operation.Ask{
		Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin,
		Limits: operation.Limits{MaxConcurrency: 3, NoRamp: true, MaxFailures: 6},
	})
	w.failing("one", nodes...)
	w.exec(t, `INSERT INTO operation_policy_overrides (operation_type, scope, max_concurrency, timeout_seconds, updated_by)
		VALUES ('web.prepare', 'global', 1, 70, 'root')`)
	w.work(t)
	w.turn(t, o.ID)
	got := w.fetchAndKeep(t)
	var p agentwire.OperationRunParams
	if len(got) != 1 || json.Unmarshal(got[0].Params, &p) != nil || p.TimeoutSeconds != 70 {
		t.Fatalf("%d nodes have work for %d s, want 1 for 70 s", len(got), p.TimeoutSeconds)
	}
	w.reportKept(t)
	w.settle(t, o.ID)
	w.exec(t, `UPDATE operation_definition_versions SET status = 'retired'`)
	_, err := w.service.Retry(w.ctx, o.ID, nil, "")
	wantCode(t, "a retired version", err, "operation_definition_not_runnable")
}
