package decommission_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// alone lets agents work by themselves instead of between the looks.
func alone(c *decommission.Config) { c.Mischief = nil }

// serve runs a worker, a relay and the agents of nodes on a real Temporal.
func (y *yard) serve(t *testing.T, nodes ...id.Node) client.Client {
	t.Helper()
	access := stacktest.Temporal(t)
	quiet := slog.New(slog.DiscardHandler)
	c, err := durable.Open(durable.Config(access), quiet)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := client.Dial(access.Options(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = c.RunWorker(ctx, time.Second, y.service.RegisterWorker) })
	group.Go(func() {
		outbox.NewRelay(outbox.RelayConfig{
			DB: y.db, Logger: quiet,
			Destinations: map[string]outbox.Deliverer{outbox.DestinationTemporal: durable.Intents{Client: c}},
		}).Run(ctx)
	})
	group.Go(func() { y.agent.queue.Run(ctx) })
	for _, n := range nodes {
		group.Go(func() { y.poll(ctx, n) })
	}
	t.Cleanup(func() {
		stop()
		group.Wait()
		raw.Close()
		c.Close()
	})
	return raw
}

// poll is the agent of a node.
func (y *yard) poll(ctx context.Context, n id.Node) {
	for ctx.Err() == nil {
		now, err := node.Get(ctx, y.db, n)
		if err != nil {
			return
		}
		e, err := y.agent.queue.Wait(ctx, n, now.Generation, time.Second)
		if err == nil && e != nil {
			err = y.agent.take(e.Type)(y.agent, e)
		}
		if err != nil && ctx.Err() == nil {
			return
		}
	}
}

func (y *yard) becomes(tb testing.TB, of id.Decommission, want job.Status) decommission.Decommission {
	tb.Helper()
	var now decommission.Decommission
	testkit.Eventually(tb, string(want), func() bool {
		now = y.read(tb, of)
		return now.Status == want
	})
	return now
}

// On real engines, with agents that poll: single operations of each family, one
// that parks and is resumed, one that is cancelled while its agent is at work,
// and a batch.
func TestOperationsOnRealEngines(t *testing.T) {
	t.Parallel()
	t.Run("by their workflows", func(t *testing.T) { t.Parallel(); operationsOnRealEngines(t, alone) })
	t.Run("ahead of their workflows", func(t *testing.T) { t.Parallel(); operationsOnRealEngines(t, alone, leads(t)) })
}

func operationsOnRealEngines(t *testing.T, change ...func(*decommission.Config)) {
	t.Helper()
	y := newYard(t, change...)
	fleet := y.fleet(t, 12)
	machines := []id.Node{y.node(t, node.Active, true), y.node(t, node.Active, true)}
	silent := y.node(t, node.Active, false)
	y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()), succeeds(clean(agentwire.TypeValidateClean)))
	y.serve(t, append(fleet, machines...)...)

	first := y.request(t, fleet[0], decommission.SoftReset)
	parked := y.becomes(t, first.ID, job.FailedManualIntervention)
	if parked.ErrorCode != "validation_residue" || y.stands(t, fleet[0]) != "quarantined held" {
		t.Errorf("it is parked with %s, the node is %s", parked.ErrorCode, y.stands(t, fleet[0]))
	}
	if _, err := y.service.Act(y.ctx, first.ID, job.Resume, "it was mended"); err != nil {
		t.Fatal(err)
	}
	y.becomes(t, first.ID, job.Completed)

	began := time.Now()
	second := y.request(t, fleet[1], decommission.SoftReset)
	y.becomes(t, second.ID, job.Completed)
	t.Logf("a soft reset took %s", time.Since(began))

	began = time.Now()
	reimage, full := y.request(t, machines[0], decommission.Reimage),
		y.request(t, machines[1], decommission.FullDecommission)
	y.becomes(t, reimage.ID, job.Completed)
	y.becomes(t, full.ID, job.Completed)
	t.Logf("a reimage and a full decommission took %s", time.Since(began))

	lost := y.request(t, silent, decommission.Drain)
	testkit.Eventually(t, "the drain is queued", func() bool { return y.tasksOf(t, silent, agentwire.TypeDrain) == 1 })
	if _, err := y.service.Act(y.ctx, lost.ID, job.Cancel, "it is gone"); err != nil {
		t.Fatal(err)
	}
	y.sound(t, y.becomes(t, lost.ID, job.Cancelled))

	began = time.Now()
	b, _, err := y.service.RequestBatch(y.ctx,
		decommission.NewBatch{
			Request: asked(decommission.SoftReset), Selector: decommission.Selector{Nodes: fleet[2:]},
			MaxParallel: 4,
		})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the batch has ended", func() bool {
		now, err := y.service.Batch(y.ctx, b.ID)
		return err == nil && now.Counts[job.Completed] == 10
	})
	t.Logf("a batch of 10 took %s", time.Since(began))
	for _, n := range fleet {
		if got := y.stands(t, n); got != "active schedulable" {
			t.Errorf("a node is %s", got)
		}
	}
	if papers := y.count(t, `SELECT count(*) FROM decommission_certificates`); papers != 14 {
		t.Errorf("%d papers", papers)
	}
}
