package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// States of an agent.
const (
	StateStarting    = "starting"
	StateConnected   = "connected"
	StateUnreachable = "unreachable" // the control plane does not answer; the agent goes on trying
	StateRefused     = "refused"     // the control plane refuses this node
	StateClockSkew   = "clock_skew"  // tasks are refused until the clock is set
	StateStopped     = "stopped"
	StateNotEnrolled = "not_enrolled"
)

// Health is the state of a running agent, as it reports it.
type Health struct {
	State           string          `json:"state"`
	Since           time.Time       `json:"since"`
	Code            string          `json:"code,omitempty"`
	Message         string          `json:"message,omitempty"`
	Remedy          string          `json:"remedy,omitempty"`
	LastContactAt   time.Time       `json:"last_contact_at,omitzero"`
	NextTryAt       time.Time       `json:"next_try_at,omitzero"`
	ClockSkew       float64         `json:"clock_skew_seconds"`
	ProcessID       int             `json:"process_id"`
	StartedAt       time.Time       `json:"started_at"`
	Build           agentwire.Build `json:"build"`
	written, logged time.Time
}

const (
	// writeAtLeast limits how old the stored time of the last contact may be.
	writeAtLeast = 5 * time.Minute
	// repeatLog limits how often the same trouble is logged.
	repeatLog = 30 * time.Minute
)

// health keeps the state, writes it to a file, and logs its changes.
type health struct {
	path   string
	log    *slog.Logger
	notify notifier

	mu       sync.Mutex
	now      Health
	deadline time.Time // when the loop must give its next sign of life
}

func newHealth(path string, build agentwire.Build, log *slog.Logger, n notifier) *health {
	now := time.Now().UTC()
	h := &health{path: path, log: log, notify: n, deadline: now.Add(time.Minute)}
	h.now = Health{State: StateStarting, Since: now, StartedAt: now, ProcessID: os.Getpid(), Build: build}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.write()
	return h
}

// expect sets when the loop gives its next sign of life at the latest.
func (h *health) expect(within time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deadline = time.Now().Add(within)
}

func (h *health) alive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.deadline)
}

// lastContact returns when the control plane last answered.
func (h *health) lastContact() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now.LastContactAt
}

func (h *health) connected(skew time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now.LastContactAt, h.now.ClockSkew = time.Now().UTC(), skew.Round(time.Second).Seconds()
	h.now.NextTryAt = time.Time{}
	if skew.Abs() > agentwire.MaxSkew {
		r := skewRefusal(skew, time.Now())
		h.enter(StateClockSkew, string(r.Reason), r.Detail,
			"set the clock of the node and keep it set: timedatectl set-ntp true")
		return
	}
	h.enter(StateConnected, "", "", "")
}

func (h *health) failed(err error, pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now.NextTryAt = time.Now().Add(pause).UTC()
	e := refusedFor(err)
	state := StateUnreachable
	if e.Kind == transport.Refused || e.Kind == transport.Untrusted {
		state = StateRefused
	}
	h.enter(state, e.Code, e.Error(), e.Remedy)
}

func (h *health) stopped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enter(StateStopped, "", "", "")
}

// enter must be called with the lock held.
func (h *health) enter(state, code, message, remedy string) {
	changed := h.now.State != state || h.now.Code != code
	if changed {
		h.now.Since = time.Now().UTC()
		h.notify.send("STATUS=" + state + " " + code)
	}
	h.now.State, h.now.Code, h.now.Message, h.now.Remedy = state, code, message, remedy
	if changed || code != "" && time.Since(h.now.logged) > repeatLog {
		h.now.logged = time.Now()
		if code != "" {
			h.log.Error(message, "state", state, "code", code, "remedy", remedy, "since", h.now.Since.Format(time.RFC3339))
		} else {
			h.log.Info(state)
		}
	}
	if changed || time.Since(h.now.written) > writeAtLeast {
		h.write()
	}
}

// write ignores failures: on a full disk there are worse troubles. After the
// agent's folder was removed, write does not create it again.
func (h *health) write() {
	if _, err := os.Stat(filepath.Dir(h.path)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	h.now.written = time.Now()
	raw, err := json.MarshalIndent(h.now, "", "  ")
	if err == nil {
		err = atomicfile.Write(h.path, raw, 0o600)
	}
	if err != nil {
		h.log.Warn("state of the agent not written", "error", err)
	}
}

func skewRefusal(skew time.Duration, now time.Time) *agentwire.Refusal {
	direction := "behind"
	if skew < 0 {
		direction = "ahead of"
	}
	return &agentwire.Refusal{Reason: agentwire.RefusedClockSkew, Detail: fmt.Sprintf(
		"the clock of this node (%s) is %s %s that of the control plane (%s), more than the %s that are allowed: tasks are "+
			"refused until it is set",
		now.UTC().Format(time.RFC3339), skew.Abs().Round(time.Second), direction, now.Add(skew).UTC().Format(time.RFC3339),
		agentwire.MaxSkew)}
}
