package decommission_test

import (
	"slices"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

func (y *yard) fleet(tb testing.TB, count int) []id.Node {
	tb.Helper()
	out := make([]id.Node, count)
	for i := range out {
		out[i] = y.node(tb, node.Active, false)
	}
	return out
}

func batchOf(nodes ...id.Node) decommission.NewBatch {
	return decommission.NewBatch{
		Request: asked(decommission.SoftReset), Selector: decommission.Selector{Nodes: nodes},
		MaxParallel: 2,
	}
}

// members are the operations of a batch, those that were begun and have not
// ended or parked first told from the others.
func (y *yard) members(tb testing.TB, b id.DecommissionBatch) (begun, waiting []decommission.Decommission) {
	tb.Helper()
	rows, err := y.service.List(y.ctx, decommission.Filter{Batch: b}, postgres.Slice[id.Decommission]{Limit: 100})
	if err != nil {
		tb.Fatal(err)
	}
	for _, d := range rows {
		switch {
		case d.HoldsPlace():
			begun = append(begun, d)
		case d.Status == job.Pending:
			waiting = append(waiting, d)
		}
	}
	return begun, waiting
}

func (y *yard) begins(tb testing.TB, b id.DecommissionBatch, begun, waiting int) []decommission.Decommission {
	tb.Helper()
	now, later := y.members(tb, b)
	if len(now) != begun || len(later) != waiting {
		tb.Errorf("%d are begun and %d wait, want %d and %d", len(now), len(later), begun, waiting)
	}
	return now
}

// A batch works at a few nodes at a time, stops when too many have failed, and
// goes on when somebody decides so.
func TestABatchHaltsAndGoesOn(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := batchOf(y.fleet(t, 7)...)
	n.MaxFailures = 1
	b, left, err := y.service.RequestBatch(y.ctx, n)
	if err != nil || len(left) != 0 || b.Total != 7 {
		t.Fatalf("%+v, %v, %v", b, left, err)
	}
	now := y.begins(t, b.ID, 2, 5)
	_, waiting := y.members(t, b.ID)
	if d, made, err := y.service.Request(y.ctx, waiting[0].Node, asked(decommission.SoftReset)); err != nil || made ||
		d.ID != waiting[0].ID {
		t.Errorf("one that waits: made %t, %v", made, err)
	}
	if started := y.count(t, `SELECT count(*) FROM outbox_events WHERE destination = 'temporal'`); started != 2 {
		t.Errorf("%d workflows were told", started)
	}
	wants(t, y.run(t, now[0].ID), job.Completed, decommission.StageEnable, "")
	now = y.begins(t, b.ID, 2, 4)
	y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()))
	y.run(t, now[0].ID)
	now = y.begins(t, b.ID, 2, 3) // one may fail
	y.run(t, now[0].ID)
	now = y.begins(t, b.ID, 1, 3) // two may not
	wellAgain(y)
	y.run(t, now[0].ID)
	y.begins(t, b.ID, 0, 3)
	halted, err := y.service.Batch(y.ctx, b.ID)
	if err != nil || halted.Failures() != 2 || halted.State() != job.BatchHalted {
		t.Errorf("the batch is %s with %v, %v", halted.State(), halted.Counts, err)
	}
	if _, err := y.service.ResumeBatch(y.ctx, b.ID, "known"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		now, _ := y.members(t, b.ID)
		if len(now) > 2 {
			t.Errorf("%d at once", len(now))
		}
		y.run(t, now[0].ID)
	}
	y.begins(t, b.ID, 0, 0)
	done, err := y.service.Batch(y.ctx, b.ID)
	if err != nil || done.Counts[job.Completed] != 5 || done.Failures() != 2 || done.State() != job.BatchSettled {
		t.Errorf("the batch is %s with %v, %v", done.State(), done.Counts, err)
	}
	if audited := y.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'decommission_batch.resume' AND reason = 'known'`); audited != 1 {
		t.Errorf("%d entries in the audit log", audited)
	}
}

func TestWhatABatchLeavesOut(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	nodes, retired := y.fleet(t, 2), y.node(t, node.Retired, false)
	busy := y.node(t, node.Active, false)
	owner := y.request(t, busy, decommission.Drain)
	n := batchOf(append(nodes, retired, busy)...)
	_, _, err := y.service.RequestBatch(y.ctx, n)
	wantCode(t, err, fault.Conflict, "batch_not_eligible", "retired", owner.ID.String())
	n.SkipIneligible = true
	b, left, err := y.service.RequestBatch(y.ctx, n)
	if err != nil || b.Total != 2 || len(left) != 2 {
		t.Fatalf("%+v, %+v, %v", b, left, err)
	}
	for _, l := range left {
		if l.NodeID == retired && l.Code != "node_state_conflict" || l.NodeID == busy && l.Code != "node_busy" {
			t.Errorf("left out %+v", l)
		}
	}
	_, _, err = y.service.RequestBatch(y.ctx, n)
	wantCode(t, err, fault.Conflict, "batch_empty")
}

// A selector is asked anew when a batch begins: nodes that nobody saw are not
// turned over.
func TestABatchIsAboutTheNodesThatWereExpected(t *testing.T) {
	y := newYard(t)
	seen := y.fleet(t, 2)
	retired := y.node(t, node.Retired, false)
	all := append(slices.Clone(seen), retired)
	unknown := id.New[id.Node]()
	name := func(of id.Node) string { return "n-" + of.String() }
	n := batchOf()
	n.Selector, n.SkipIneligible = decommission.Selector{SKU: yardSKU}, true
	for what, c := range map[string]struct {
		expected []id.Node
		says     string
	}{
		"one came": {seen, "1 came (" + name(retired) + ")"},
		"one went": {append(slices.Clone(all), unknown), "1 went (" + unknown.String() + ")"},
		"as many others": {
			append(slices.Clone(seen), unknown),
			"1 came (" + name(retired) + "), 1 went (" + unknown.String() + ")",
		},
		"none": {[]id.Node{}, "3 came"},
	} {
		t.Run(what, func(t *testing.T) {
			n.Expected = c.expected
			_, _, err := y.service.RequestBatch(y.ctx, n)
			wantCode(t, err, fault.Conflict, "selection_changed", c.says, "gpuaas node list")
		})
	}
	if made := y.count(t, `SELECT (SELECT count(*) FROM node_decommissions) + (SELECT count(*) FROM node_decommission_batches)`); made != 0 {
		t.Errorf("%d were made of what was refused", made)
	}
	gone := n
	gone.Selector, gone.Expected = decommission.Selector{Nodes: seen, Statuses: []node.Status{node.Retired}}, seen
	_, _, err := y.service.RequestBatch(y.ctx, gone) // named one by one, they went all the same
	wantCode(t, err, fault.Conflict, "selection_changed", "2 went")
	n.Expected = []id.Node{retired, seen[1], seen[0]} // those that are left out are of the selection
	b, left, err := y.service.RequestBatch(y.ctx, n)
	if err != nil || b.Total != 2 || len(left) != 1 {
		t.Errorf("%+v, %+v, %v", b, left, err)
	}
}

func TestBatchesThatMakeNoSense(t *testing.T) {
	y := newYard(t)
	one := y.fleet(t, 1)
	for name, c := range map[string]struct {
		change func(*decommission.NewBatch)
		kind   fault.Kind
		code   string
		field  string
	}{
		"everything": {func(n *decommission.NewBatch) {
			n.Selector = decommission.Selector{}
		}, fault.Invalid, "validation_error", "body.selector"},
		"a hash": {func(n *decommission.NewBatch) {
			n.PlanHash = "x"
		}, fault.Invalid, "validation_error", "body.plan_hash"},
		"none at once": {func(n *decommission.NewBatch) {
			n.MaxParallel = -1
		}, fault.Invalid, "validation_error", "body.max_parallel"},
		"too many at once": {func(n *decommission.NewBatch) {
			n.MaxParallel = 1001
		}, fault.Invalid, "validation_error", "body.max_parallel"},
		"less than none": {func(n *decommission.NewBatch) {
			n.MaxFailures = -1
		}, fault.Invalid, "validation_error", "body.max_failures"},
		"no reason": {func(n *decommission.NewBatch) { n.Reason = "" }, fault.Invalid, "validation_error", "body.reason"},
		"conflicting": {func(n *decommission.NewBatch) {
			n.Erase = decommission.EraseSecure
		}, fault.Invalid, "validation_error", "body.erase"},
		"unknown node": {func(n *decommission.NewBatch) {
			n.Selector.Nodes = []id.Node{id.New[id.Node]()}
		}, fault.NotFound, "node_not_found", ""},
		"nobody": {func(n *decommission.NewBatch) {
			n.Selector = decommission.Selector{HostnamePrefix: "zz"}
		}, fault.Conflict, "batch_empty", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := batchOf(one...)
			c.change(&n)
			_, _, err := y.service.RequestBatch(y.ctx, n)
			wantCode(t, err, c.kind, c.code, c.field)
		})
	}
	_, err := y.service.ResumeBatch(y.ctx, id.New[id.DecommissionBatch](), "because")
	wantCode(t, err, fault.NotFound, "decommission_batch_not_found")
	_, err = y.service.CancelBatch(y.ctx, id.New[id.DecommissionBatch](), "because")
	wantCode(t, err, fault.NotFound, "decommission_batch_not_found")
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	managed, manual, quarantined := y.node(t, node.Active, true), y.node(t, node.Active, false),
		y.node(t, node.Quarantined, false)
	for name, c := range map[string]struct {
		selector decommission.Selector
		want     []id.Node
	}{
		"site":     {decommission.Selector{Site: y.site.ID}, []id.Node{managed}},
		"statuses": {decommission.Selector{Statuses: []node.Status{node.Quarantined}}, []id.Node{quarantined}},
		"prefix":   {decommission.Selector{HostnamePrefix: "n-" + manual.String()[:35]}, []id.Node{manual}},
		"all of": {
			decommission.Selector{SKU: yardSKU, RegionCode: "eu-1", Statuses: []node.Status{node.Active}},
			[]id.Node{managed, manual},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := batchOf()
			n.Selector = c.selector
			b, _, err := y.service.RequestBatch(y.ctx, n)
			if err != nil || b.Total != len(c.want) {
				t.Fatalf("%d, %v", b.Total, err)
			}
			for _, of := range c.want {
				if y.count(t, `SELECT count(*) FROM node_decommissions WHERE batch_id = $1 AND node_id = $2`, b.ID, of) != 1 {
					t.Errorf("%s is not of it", of)
				}
			}
			if _, err := y.service.CancelBatch(y.ctx, b.ID, "because"); err != nil {
				t.Fatal(err)
			}
			y.exec(t, `UPDATE node_decommissions SET status = 'cancelled', completed_at = now() WHERE completed_at IS NULL`)
		})
	}
}

// A node that is being onboarded is of the site as the listing of nodes has it: it
// is not turned over, and whoever saw it there is not told that it went.
func TestABatchOfASiteKnowsWhatIsBeingOnboarded(t *testing.T) {
	y := newYard(t)
	managed, coming := y.node(t, node.Active, true), y.node(t, node.BootstrapIssued, false)
	y.exec(t, `INSERT INTO node_onboardings (id, site_id, profile_id, hostname, ipmi_ip, sku_id, node_id, current_stage, workflow_id, requested_by, correlation_id)
		SELECT $1, m.site_id, m.profile_id, 'coming', '10.0.0.9', $2, $3, 'enroll_machine', 'w', 'user:root', 'c' FROM node_maas_state m WHERE m.node_id = $4`,
		id.New[id.Onboarding](), yardSKU, coming, managed)
	n := batchOf()
	n.Selector, n.Expected = decommission.Selector{Site: y.site.ID}, []id.Node{managed, coming}
	_, _, err := y.service.RequestBatch(y.ctx, n)
	wantCode(t, err, fault.Conflict, "batch_not_eligible", "1 of 2")
	n.SkipIneligible = true
	b, left, err := y.service.RequestBatch(y.ctx, n)
	if err != nil || b.Total != 1 || len(left) != 1 || left[0].NodeID != coming {
		t.Errorf("%+v, %+v, %v", b, left, err)
	}
}

// Cancelling a batch ends what has not begun at once, and undoes the others.
func TestACancelledBatch(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	b, _, err := y.service.RequestBatch(y.ctx, batchOf(y.fleet(t, 4)...))
	if err != nil {
		t.Fatal(err)
	}
	now := y.begins(t, b.ID, 2, 2)
	y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()))
	y.run(t, now[0].ID)
	if _, err := y.service.CancelBatch(y.ctx, b.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	rows, err := y.service.List(y.ctx, decommission.Filter{Batch: b.ID}, postgres.Slice[id.Decommission]{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, d := range rows {
		if d.CompletedAt == nil {
			d = y.run(t, d.ID)
		}
		states = append(states, string(d.Status))
		y.sound(t, d)
	}
	if text := strings.Join(states, " "); text != "cancelled cancelled cancelled cancelled" {
		t.Errorf("they are %s", text)
	}
	_, err = y.service.ResumeBatch(y.ctx, b.ID, "because")
	wantCode(t, err, fault.Conflict, "batch_cancelled")
}
