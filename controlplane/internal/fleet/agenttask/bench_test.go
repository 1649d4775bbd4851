package agenttask_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/testkit"
)

// BenchmarkClaimAmongIdlePolls measures from the request of a task until a poll
// holds it, signed, at 100 tasks a second, while 1,000 other nodes wait for
// nothing.
func BenchmarkClaimAmongIdlePolls(b *testing.B) {
	const idle, busy, rate = 1000, 100, 100
	w := newWorld(b)
	q := w.run(b)
	ctx, stop := context.WithCancel(b.Context())
	var group sync.WaitGroup
	b.Cleanup(func() { stop(); group.Wait() })
	for range idle {
		node := w.node(b)
		group.Go(func() {
			if e, err := q.Wait(ctx, node, 1, time.Hour); e != nil || err != nil {
				b.Errorf("an idle node got %+v, %v", e, err)
			}
		})
	}
	arrived := make(chan got, b.N)
	nodes := make([]id.Node, busy)
	for i := range nodes {
		nodes[i] = w.node(b)
		group.Go(func() {
			for ctx.Err() == nil {
				if e, err := q.Wait(ctx, nodes[i], 1, time.Hour); e != nil || err != nil {
					arrived <- got{e, err, time.Now()}
				}
			}
		})
	}
	awaitWaiting(b, q, idle+busy)
	var mu sync.Mutex
	asked := map[string]time.Time{}
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	b.ResetTimer()
	for i := range b.N {
		<-tick.C
		group.Go(func() {
			at := time.Now()
			task, err := w.enqueue(w.ctx, agenttask.Request{Node: nodes[i%busy], Type: agentwire.TypeHealthProbe})
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			asked[task.ID.String()] = at
		})
	}
	claimed := map[string]time.Time{}
	for range b.N {
		g := testkit.Receive(b, "a task", arrived)
		if g.err != nil {
			b.Fatal(g.err)
		}
		claimed[g.envelope.TaskID] = g.at
	}
	b.StopTimer()
	stop()
	group.Wait()
	var took []time.Duration
	for task, at := range claimed {
		took = append(took, at.Sub(asked[task]))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "most-ms")
}
