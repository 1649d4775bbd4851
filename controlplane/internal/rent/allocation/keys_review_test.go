package allocation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/rent/allocation"
)

// However often the keys change, the node has one task about them at most: thousands
// would keep the end of the allocation, which withdraws them.
func TestAttackManyChangesOfKeysKeepTheEndOfAnAllocation(t *testing.T) {
	c := newCrew(t)
	n := c.node(t, "n1")
	a := c.active(t, allocation.Ask{})
	c.service = allocation.New(allocation.Config{
		DB: c.db, Tasks: agenttask.Commands{DB: c.db}, Cleanups: c.cleanups, Terminals: c.terminals, Members: c.people,
	})
	change := func(revision int32, add, remove []id.SSHKey) {
		t.Helper()
		if _, err := c.service.ChangeKeys(c.ctx, a.ID, add, remove); err != nil {
			t.Fatal(err)
		}
		node := &allocation.Activities{Service: c.service}
		if _, err := node.ChangeKeysOnNode(t.Context(), allocation.KeyErrand{ID: a.ID, Revision: revision}); err != nil {
			t.Fatal(err)
		}
	}
	change(1, nil, []id.SSHKey{c.shared})
	change(2, []id.SSHKey{c.shared}, nil)
	asked := c.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = 'allocation.provision_user'`, n)
	live := c.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND status IN ('queued', 'dispatched')`, n)
	if asked != 2 || live != 1 {
		t.Errorf("%d of %d tasks are live", live, asked)
	}
}

// Rights count when the keys change and again when the node is told: neither a request
// that waited nor a review that came too early lets somebody in who has left.
func TestAttackARevokedMemberPutsAKeyBack(t *testing.T) {
	c := newCrew(t)
	c.node(t, "n1")
	a := c.active(t, allocation.Ask{})
	stale := c.by(t, c.ben) // his rights as they were when he asked
	add := []id.SSHKey{c.ofBen}
	if _, err := c.service.ChangeKeys(stale, a.ID, add, nil); err != nil {
		t.Fatal(err)
	}
	// The review of his leaving ran before his change was recorded.
	c.exec(t, `DELETE FROM project_memberships WHERE user_id = $1`, c.ben)
	c.follow(t)
	c.opens(t, a, c.ofAnn, c.shared)
	for _, told := range c.agents.given {
		if p, ok := told.Params.(agentwire.ProvisionUserParams); ok &&
			slices.ContainsFunc(p.AuthorizedKeys, func(k string) bool { return strings.Contains(k, "ofben") }) {
			t.Errorf("the node was told of the key: %+v", p)
		}
	}
	_, err := c.service.ChangeKeys(stale, a.ID, add, nil)
	if fault.KindOf(err) != fault.Forbidden || len(c.get(t, a.ID).Keys) != 2 {
		t.Errorf("%v", err)
	}
}

// A review looks at all allocations, page by page. One that cannot be looked at does
// not keep the others, and is looked at again.
func TestAReviewGoesPastWhatFails(t *testing.T) {
	c := newCrew(t)
	c.node(t, "n1")
	a := c.active(t, allocation.Ask{})
	c.exec(t, `INSERT INTO allocations SELECT (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(),
		'event_id', gen_random_uuid()))).* FROM allocations a, generate_series(1, 210)`)
	c.exec(t, `UPDATE allocations SET labels = '{"damaged": 1}' WHERE id = $1`, a.ID)
	c.exec(t, `DELETE FROM project_memberships WHERE user_id = $1`, c.ann)
	reviewed := func() int { return c.count(t, `SELECT count(*) FROM allocations WHERE keys_revision = 1`) }
	env := durabletest.New(t, c.service.RegisterWorker)
	pauses := 0
	env.SetOnTimerScheduledListener(func(string, time.Duration) { // it begins to wait for its next try
		if n := reviewed(); n != 210 {
			t.Errorf("%d were reviewed beside the one that is damaged", n)
		}
		pauses++
		c.exec(t, `UPDATE allocations SET labels = '{}'`)
	})
	env.ExecuteWorkflow(allocation.ReviewKeys, allocation.Review{})
	if err := env.GetWorkflowError(); err != nil || reviewed() != 211 || pauses != 1 {
		t.Errorf("%d were reviewed after %d pauses, %v", reviewed(), pauses, err)
	}
}

// What nobody told of is found within an hour: replicas of an earlier release begin no
// reviews. One is enough for an hour.
func TestAllKeysAreReviewedEveryHour(t *testing.T) {
	c := newCrew(t)
	c.node(t, "n1")
	a := c.active(t, allocation.Ask{})
	c.exec(t, `DELETE FROM project_memberships WHERE user_id = $1`, c.ann)
	ctx := auth.With(c.root(t), auth.System("tend"))
	for range 2 {
		if err := c.service.Tend(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// The hour may change between the two: then each has one.
	if n := c.count(t, `SELECT count(*) - count(DISTINCT aggregate_id) FROM outbox_events
		WHERE event_type = 'ReviewAllocationKeys'`); n != 0 {
		t.Errorf("%d reviews begin again", n)
	}
	c.follow(t)
	c.opens(t, a, c.shared)
}

// A node that has failed for long is not asked more often because the workflow began a
// new history.
func TestThePauseBetweenTriesOutlivesAHistory(t *testing.T) {
	c := newCrew(t)
	n := c.node(t, "n1")
	a := c.active(t, allocation.Ask{})
	if _, err := c.service.ChangeKeys(c.ctx, a.ID, nil, []id.SSHKey{c.shared}); err != nil {
		t.Fatal(err)
	}
	c.agents.fail[n] = map[string]agentwire.TaskError{agentwire.TypeProvisionUser: {Code: "no_space"}}
	env := durabletest.New(t, c.service.RegisterWorker)
	var pauses []time.Duration
	env.SetOnTimerScheduledListener(func(_ string, pause time.Duration) {
		pauses = append(pauses, pause)
		c.agents.set(func() { delete(c.agents.fail, n) })
	})
	env.ExecuteWorkflow(allocation.ChangeKeys, allocation.KeyErrand{ID: a.ID, Revision: 1, Try: 200})
	if err := env.GetWorkflowError(); err != nil || len(pauses) != 1 || pauses[0] != 10*time.Minute {
		t.Errorf("it paused for %v, %v", pauses, err)
	}
	c.opens(t, a, c.ofAnn)
}
