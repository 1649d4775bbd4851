package maas_test

import (
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/api"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
)

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

const (
	fleetSize = 10_000
	mostHeap  = 500 << 20
	mostChunk = 50 * time.Millisecond
)

func TestTenThousandMachinesFit(t *testing.T) {
	before := heap()
	r := region.Open(region.Options{Seed: 1})
	t.Cleanup(r.Close)
	if err := fleet.Populate(r, fleet.Options{Machines: fleetSize, Stage: "deployed"}); err != nil {
		t.Fatal(err)
	}
	used := heap() - before
	t.Logf("%d machines take %d MiB", r.Count(), used>>20)
	if r.Count() != fleetSize || used > mostHeap {
		t.Errorf("%d machines take %d MiB", r.Count(), used>>20)
	}
	runtime.KeepAlive(r)
}

// sink takes an answer without keeping it.
type sink struct {
	header http.Header
	status int
	size   int
}

func (s *sink) Header() http.Header { return s.header }

func (s *sink) WriteHeader(status int) { s.status = status }

func (s *sink) Write(b []byte) (int, error) {
	s.size += len(b)
	return len(b), nil
}

func BenchmarkChunkOfFifty(b *testing.B) {
	r := region.Open(region.Options{Seed: 1})
	b.Cleanup(r.Close)
	if err := fleet.Populate(r, fleet.Options{Machines: fleetSize, Stage: "deployed"}); err != nil {
		b.Fatal(err)
	}
	face := api.New(api.Options{Region: r})
	q := url.Values{"id": r.SystemIDs()[fleetSize/2 : fleetSize/2+50]}
	size := 0
	for b.Loop() {
		w := &sink{header: http.Header{}}
		request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/MAAS/api/2.0/machines/?"+q.Encode(), nil)
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Authorization", signature(r.AdminKey(), time.Now(), ""))
		face.ServeHTTP(w, request)
		if w.status != http.StatusOK {
			b.Fatalf("answered %d", w.status)
		}
		size = w.size
	}
	b.ReportMetric(float64(size)/50/1024, "KiB/machine")
	if per := b.Elapsed() / time.Duration(b.N); b.N > 10 && per > mostChunk {
		b.Errorf("a chunk takes %s", per)
	}
}

func BenchmarkSingleRead(b *testing.B) {
	r := region.Open(region.Options{Seed: 1})
	b.Cleanup(r.Close)
	if err := fleet.Populate(r, fleet.Options{Machines: 100}); err != nil {
		b.Fatal(err)
	}
	face, id := api.New(api.Options{Region: r}), r.SystemIDs()[50]
	for b.Loop() {
		w := &sink{header: http.Header{}}
		request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/MAAS/api/2.0/machines/"+id+"/", nil)
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Authorization", signature(r.AdminKey(), time.Now(), ""))
		if face.ServeHTTP(w, request); w.status != http.StatusOK {
			b.Fatalf("answered %d", w.status)
		}
	}
}

func TestAListingTakesTimeByTheMachine(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(10, "ready"), ListCost: 100 * time.Millisecond})
	answered := make(chan answer, 1)
	go func() {
		answered <- send(t, "GET", c.region.URL+"/api/2.0/machines/", nil,
			signature(c.region.Token, c.clock.Now(), "listing"))
	}()
	for c.clock.Waiting() == 0 {
		runtime.Gosched()
	}
	c.clock.Advance(999 * time.Millisecond)
	select {
	case <-answered:
		t.Fatal("too early")
	default:
	}
	c.clock.Advance(time.Millisecond)
	if a := <-answered; a.status != http.StatusOK || strings.Count(a.body, `"numanode_set"`) != 10 {
		t.Errorf("answered %d", a.status)
	}
}

func TestTheSameSeedMakesTheSameFleet(t *testing.T) {
	one := start(t, maas.Options{Seed: 5, Fleet: gpus(3, "deployed")})
	two := start(t, maas.Options{Seed: 5, Fleet: gpus(3, "deployed")})
	other := start(t, maas.Options{Seed: 6, Fleet: gpus(3, "deployed")})
	whole := func(c *client) string { return c.ok("GET", "/machines/", nil).body }
	if whole(one) != whole(two) {
		t.Error("one seed, two fleets")
	}
	if whole(one) == whole(other) {
		t.Error("two seeds, one fleet")
	}
	r := region.Open(region.Options{})
	t.Cleanup(r.Close)
	for _, bad := range []fleet.Options{{Machines: 1, Shape: "abacus"}, {Machines: 1, Stage: "broken"}} {
		if err := fleet.Populate(r, bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
