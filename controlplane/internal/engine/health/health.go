// Package health knows which outside services this process needs and whether
// they answer. It tells load balancers in one line and operators in detail.
package health

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"gpuaas/controlplane/internal/base/fault"
)

// Probe asks one dependency for a sign of life.
type Probe func(ctx context.Context) error

// Dependency is an outside service that this process cannot do without.
type Dependency struct {
	Name  string
	Probe Probe
}

// State is the last answer of a dependency.
type State struct {
	Name      string        `json:"name" doc:"postgres, temporal, nats, secrets or node_listener"`
	Up        bool          `json:"up"`
	Code      string        `json:"code,omitempty" doc:"stable code of what is wrong"`
	Message   string        `json:"message,omitempty"`
	Remedy    string        `json:"remedy,omitempty"`
	CheckedAt time.Time     `json:"checked_at"`
	Took      time.Duration `json:"-"`
	TookMs    int64         `json:"took_ms"`
}

const (
	probeTimeout = 2 * time.Second
	// Load balancers ask often; a dependency is asked at most this often.
	freshFor = 500 * time.Millisecond
)

// Monitor asks dependencies on demand.
type Monitor struct {
	dependencies []Dependency
	// Insecure names what this process does without TLS because its operator
	// allowed it. It must not change once the monitor is in use.
	Insecure []string
	now      func() time.Time

	mu    sync.Mutex
	asked time.Time
	last  []State
}

// NewMonitor watches over dependencies.
func NewMonitor(dependencies ...Dependency) *Monitor {
	return &Monitor{dependencies: dependencies, now: time.Now}
}

// States asks every dependency at the same time, unless it did so a moment ago.
func (m *Monitor) States(ctx context.Context) []State {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != nil && m.now().Sub(m.asked) < freshFor {
		return m.last
	}
	states := make([]State, len(m.dependencies))
	var wg sync.WaitGroup
	for i, d := range m.dependencies {
		wg.Go(func() { states[i] = m.ask(ctx, d) })
	}
	wg.Wait()
	m.asked, m.last = m.now(), states
	return states
}

func (m *Monitor) ask(ctx context.Context, d Dependency) State {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	start := m.now()
	err := d.Probe(ctx)
	took := m.now().Sub(start)
	s := State{Name: d.Name, Up: err == nil, CheckedAt: start, Took: took, TookMs: took.Milliseconds()}
	if err != nil {
		s.Code, s.Message = fault.CodeOf(err), d.Name+" does not answer"
		if f, ok := fault.As(err); ok {
			s.Message, s.Remedy = f.Message, f.Remedy
		}
	}
	return s
}

// Live answers that the process runs, even if its dependencies are down.
func Live(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"status": "ok"})
}

// Ready answers 200 when every dependency is up and 503 otherwise, naming those
// that are not. It is open to everybody, so it shows codes and no messages.
func (m *Monitor) Ready(w http.ResponseWriter, r *http.Request) {
	type line struct {
		Up   bool   `json:"up"`
		Code string `json:"code,omitempty"`
	}
	status, word, lines := http.StatusOK, "ready", map[string]line{}
	for _, s := range m.States(r.Context()) {
		lines[s.Name] = line{Up: s.Up, Code: s.Code}
		if !s.Up {
			status, word = http.StatusServiceUnavailable, "unavailable"
		}
	}
	body := map[string]any{"status": word, "dependencies": lines}
	if len(m.Insecure) > 0 {
		body["insecure"] = m.Insecure
	}
	answer(w, status, body)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone away
}
