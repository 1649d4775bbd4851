package maas_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
)

// fullMachine is a machine object as MAAS writes it: complete and indented.
func fullMachine(tb testing.TB) []byte {
	tb.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, recorded()["06/14"].Body, "", "    "); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkSingleRead reads machines one after the other. Client and server
// share the processor.
func BenchmarkSingleRead(b *testing.B) {
	body := fullMachine(b)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", json200)
		_, _ = w.Write(body)
	}))
	defer s.Close()
	c := client(b, s.URL)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Machine(b.Context(), sysid); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
}

func BenchmarkDecodeMachine(b *testing.B) {
	body := fullMachine(b)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := maas.DecodeMachine(body); err != nil {
			b.Fatal(err)
		}
	}
}

// crowd is a region of many machines that change their status at given times
// without an event.
type crowd struct {
	template string
	changes  map[string]time.Time
	inFlight atomic.Int32
	most     atomic.Int32
	requests atomic.Int32
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := c.inFlight.Add(1)
	defer c.inFlight.Add(-1)
	for seen := c.most.Load(); now > seen && !c.most.CompareAndSwap(seen, now); seen = c.most.Load() {
	}
	c.requests.Add(1)
	w.Header().Set("Content-Type", json200)
	if strings.Contains(r.URL.Path, "/events/") {
		_, _ = io.WriteString(w, `{"count": 0, "events": []}`)
		return
	}
	var out []string
	for _, id := range r.URL.Query()["id"] {
		status := maas.StatusDeploying
		if time.Now().After(c.changes[id]) {
			status = maas.StatusDeployed
		}
		out = append(out, fmt.Sprintf(c.template, id, status.Label()))
	}
	_, _ = io.WriteString(w, "["+strings.Join(out, ",")+"]")
}

// BenchmarkThousandWaits waits for a thousand machines over HTTP with a poll
// interval of one second and no events, and measures how late changes are seen.
func BenchmarkThousandWaits(b *testing.B) {
	const n, interval = 1000, time.Second
	for b.Loop() {
		region := &crowd{
			template: `{"system_id": "%s", "hostname": "gpu", "status_name": "%s", "osystem": "ubuntu"}`,
			changes:  map[string]time.Time{},
		}
		for i := range n {
			region.changes[fmt.Sprintf("m%04d", i)] = time.Now().Add(2*time.Second + rand.N(3*time.Second))
		}
		s := httptest.NewServer(region)
		w := maas.NewWatcher(client(b, s.URL), maas.WatcherConfig{Pace: func(maas.Status) (
			time.Duration, time.Duration,
		) {
			return interval, interval
		}})
		var wg sync.WaitGroup
		var mu sync.Mutex
		var delays []time.Duration
		for id, at := range region.changes {
			wg.Go(func() {
				if _, err := w.Wait(b.Context(), id, maas.UntilDeployed, nil); err != nil {
					b.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				delays = append(delays, time.Since(at))
			})
		}
		wg.Wait()
		w.Close()
		s.Close()
		slices.Sort(delays)
		p95 := delays[len(delays)*95/100]
		if p95 > 2*interval || region.most.Load() > maas.PerSite {
			b.Errorf("p95 %v, %d requests in flight", p95, region.most.Load())
		}
		b.ReportMetric(float64(p95.Milliseconds()), "p95-ms")
		b.ReportMetric(float64(region.most.Load()), "in-flight")
		b.ReportMetric(float64(region.requests.Load()), "requests")
	}
}
