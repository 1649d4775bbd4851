package allocation_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/allocation"
)

// fleet fills the world with nodes in racks of 40, a tenth of them in
// another region.
func (w *world) fleet(b *testing.B, count int) {
	b.Helper()
	w.exec(b, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode, schedulable, rack, labels, clean_at)
		SELECT gen_random_uuid(), 'active', 'n' || i, '192.0.2.1', $1, 8, CASE WHEN i % 10 = 0 THEN 'us' ELSE 'eu' END, 'manual', true,
			'r' || i / 40, '{"tier": "fast"}', now() - i * interval '7 seconds' FROM generate_series(1, $2::integer) AS i`, h200, count)
	w.exec(b, `INSERT INTO node_contacts (node_id, last_contact_at) SELECT id, now() + interval '1 hour' FROM nodes`)
	w.exec(b, `ANALYZE`)
}

// BenchmarkPlacement asks for nodes of a fleet of 10,000, 64 projects at once: what
// finding and claiming a node takes in the transaction of a request, and the whole
// request with its wait for a connection of the pool.
func BenchmarkPlacement(b *testing.B) {
	w := newWorld(b)
	w.fleet(b, 10_000)
	projects := make([]id.Project, racing)
	for i := range projects {
		projects[i] = id.New[id.Project]()
		w.exec(b, `INSERT INTO projects (id, org_id, slug, name) VALUES ($1, $2, $3, 'P')`, projects[i], w.org, fmt.Sprintf("p%d", i))
	}
	b.Run("place", func(b *testing.B) {
		race(b, func(i int) (time.Duration, error) {
			return w.service.Place(w.ctx, allocation.Ask{Project: projects[i], SKU: h200})
		})
	})
	b.Run("request", func(b *testing.B) {
		race(b, func(i int) (time.Duration, error) {
			began := time.Now()
			_, err := w.service.Create(w.ctx, allocation.Ask{Project: projects[i], SKU: h200})
			return time.Since(began), err
		})
	})
}

const racing = 64

// race has 64 callers do something at once, over and over.
func race(b *testing.B, once func(i int) (time.Duration, error)) {
	b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	for b.Loop() {
		var wait sync.WaitGroup
		for i := range racing {
			wait.Go(func() {
				took, err := once(i)
				if err != nil {
					b.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, took)
			})
		}
		wait.Wait()
	}
	quantiles(b, all)
}

// BenchmarkRefusal asks for what a fleet of 10,000 nodes does not have, and is told
// why of every node.
func BenchmarkRefusal(b *testing.B) {
	w := newWorld(b)
	w.fleet(b, 10_000)
	w.exec(b, `UPDATE nodes SET hold_reason = 'fan', schedulable = false WHERE region_code = 'eu'`)
	w.exec(b, `ANALYZE nodes`)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		_, err := w.try(allocation.Ask{Wish: allocation.Wish{Region: "eu"}})
		if fault.CodeOf(err) != allocation.CodeUnavailable {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	quantiles(b, took)
}

func quantiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
