package outbox_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/stack/stacktest"
)

// BenchmarkRelay relays a backlog from PostgreSQL to JetStream.
func BenchmarkRelay(b *testing.B) {
	db, access := postgrestest.New(b), stacktest.NATS(b)
	n := connectNATS(b, access)
	awaitNATS(b, n)
	const perAppend = 100
	for written := 0; written < b.N; written += perAppend {
		var events []outbox.Event
		for i := range min(perAppend, b.N-written) {
			events = append(events, tenantEvent(fmt.Sprint("tenant-", (written+i)%500), int64(written+i)))
		}
		appendEvents(b, db, events...)
	}
	counted := &counter{Deliverer: n, want: b.N, done: make(chan struct{})}
	b.ResetTimer()
	stop := runRelay(b, outbox.RelayConfig{DB: db, Destinations: toNATS(counted)})
	<-counted.done
	stop() // the last batch is recorded
	b.StopTimer()
	if n := countRows(b, db, "status = 'published'"); n != b.N {
		b.Fatalf("%d of %d events are published", n, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkCommitToPublish measures one event at a time, from its commit until
// the stream has stored it.
func BenchmarkCommitToPublish(b *testing.B) {
	db, access := postgrestest.New(b), stacktest.NATS(b)
	n := connectNATS(b, access)
	awaitNATS(b, n)
	published := make(chan time.Time, 1)
	runRelay(b, outbox.RelayConfig{DB: db, Destinations: toNATS(announcer{n, published}), Sweep: time.Hour})
	appendEvents(b, db, tenantEvent("warm", 1))
	<-published
	var latencies []time.Duration
	for i := 0; b.Loop(); i++ {
		appendEvents(b, db, tenantEvent(strconv.Itoa(i%50), int64(i)))
		committed := time.Now()
		latencies = append(latencies, max(0, (<-published).Sub(committed)))
	}
	slices.Sort(latencies)
	b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds())/1000, "p99-ms")
}
