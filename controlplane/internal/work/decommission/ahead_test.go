package decommission_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/testkit"
)

// leads has operations carried out ahead of their workflows until the test ends.
func leads(t *testing.T) func(*decommission.Config) {
	t.Helper()
	return func(c *decommission.Config) {
		c.Mischief, c.Ahead = nil, outbox.NewAhead(outbox.AheadConfig{DB: c.DB, Lease: time.Hour})
		ctx, stop := context.WithCancel(context.Background())
		var group sync.WaitGroup
		group.Go(func() { c.Ahead.Run(ctx) })
		t.Cleanup(func() { stop(); group.Wait() })
		testkit.Eventually(t, "it leads", c.Ahead.Running)
	}
}

// starts counts the workflows that are to start for an operation: at once, or when the
// lease is over.
func (y *yard) starts(tb testing.TB, of id.Decommission, when string) int {
	tb.Helper()
	return y.count(tb, `SELECT count(*) FROM outbox_events WHERE destination = 'temporal' AND aggregate_id = 'decommission-' || $1::uuid
		AND status = 'pending' AND next_attempt_at `+when+` clock_timestamp()`, of)
}

// A soft reset whose agent is quick needs no workflow: it is carried out and proven, and
// the start of its workflow is gone.
func TestASoftResetIsCarriedOutAheadOfItsWorkflow(t *testing.T) {
	t.Parallel()
	y := newYard(t, leads(t), func(c *decommission.Config) { c.Linger = time.Minute })
	n := y.node(t, node.Active, true)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { y.agent.queue.Run(ctx) })
	group.Go(func() { y.poll(ctx, n) })
	t.Cleanup(func() { stop(); group.Wait() })
	d := y.request(t, n, decommission.SoftReset)
	done := y.becomes(t, d.ID, job.Completed)
	y.sound(t, done)
	testkit.Eventually(t, "no workflow is to start", func() bool {
		return y.starts(t, d.ID, ">")+y.starts(t, d.ID, "<=") == 0
	})
	if y.paper(t, d.ID) == nil || y.stands(t, n) != "active schedulable" {
		t.Errorf("the node is %s", y.stands(t, n))
	}
}

// What cannot be ended at once is left to the workflow, which goes on where it stands.
func TestAnOperationThatWaitsIsLeftToItsWorkflow(t *testing.T) {
	t.Parallel()
	y := newYard(t, leads(t))
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.SoftReset)
	testkit.Eventually(t, "its workflow is to start now", func() bool { return y.starts(t, d.ID, "<=") == 1 })
	if now := y.read(t, d.ID); now.Phase != job.Working || now.Stage != decommission.StageDrain {
		t.Fatalf("it is %s at %s", now.Status, now.Stage)
	}
	y.serve(t, n)
	y.sound(t, y.becomes(t, d.ID, job.Completed))
}
