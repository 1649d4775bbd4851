package agentgateway

import (
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// These limits bound how much one node may ask of this replica: far more than an
// agent needs to run and report tasks, and far less than would slow other nodes
// down. A poll that finds a task is answered at once, so polls may be as frequent
// as tasks. Only one poll of a node waits, because a later poll replaces it.
const (
	arrivalRate, arrivalBurst = 100, 400 // before the database is asked
	callRate, callBurst       = 20, 100  // reports, results, credentials
	pollRate, pollBurst       = 50, 200
	fetchRate, fetchBurst     = 80, 300     // parts of artifacts, which are some MiB each
	downloadRate              = 1.0 / 30    // a second, so that a download over a bad line can go on
	downloadBurst             = 20          //
	refusalRate, refusalBurst = 1.0 / 60, 1 // of trust that are noted: one a minute
	heldDownloads             = 2           // at the same time
)

type limiter interface{ Take(key string) error }

// meter counts what callers of the listener cost.
type meter struct {
	newcomers   limiter // by address
	arrivals    limiter // by certificate and address
	calls       limiter // by node, as the rest
	polls       limiter
	fetches     limiter
	downloads   limiter
	refusals    limiter
	downloading *slots
}

func newMeter(s Settings, clock func() time.Time) meter {
	of := func(rate float64, burst int) limiter {
		return httpapi.NewLimiter(httpapi.Limits{RequestsPerSecond: rate, Burst: burst}, clock)
	}
	newcomerRate, newcomerBurst := s.BootstrapRate, s.BootstrapBurst
	if newcomerRate <= 0 {
		newcomerRate = 50
	}
	if newcomerBurst <= 0 {
		newcomerBurst = 500
	}
	return meter{
		newcomers: of(newcomerRate, newcomerBurst), arrivals: of(arrivalRate, arrivalBurst), calls: of(callRate, callBurst),
		polls:   of(pollRate, pollBurst),
		fetches: of(fetchRate, fetchBurst), downloads: of(downloadRate, downloadBurst),
		refusals:    of(refusalRate, refusalBurst),
		downloading: newSlots(heldDownloads),
	}
}

// download lets a node fetch a package or a part of one. The caller calls leave
// when it has sent the package.
func (m meter) download(n id.Node) (leave func(), err error) {
	leave, ok := m.downloading.take(n)
	if !ok {
		return nil, fault.New(fault.RateLimited, "node_downloads_exceeded", "%d downloads of this node are under way",
			heldDownloads).
			WithRemedy("wait for one of them to end")
	}
	if err := m.downloads.Take(n.String()); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// slots bounds how much of something each node has at the same time.
type slots struct {
	each int
	mu   sync.Mutex
	of   map[id.Node]int
}

func newSlots(each int) *slots { return &slots{each: each, of: map[id.Node]int{}} }

func (s *slots) take(n id.Node) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[n] >= s.each {
		return nil, false
	}
	s.of[n]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.of[n]--; s.of[n] == 0 {
			delete(s.of, n)
		}
	}), true
}
