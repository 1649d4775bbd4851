package baseline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

const stateFile = "/var/lib/gpuaas/baseline.json"

// State is what the control plane said to the baseline of this installation. It
// is there once a control plane answered that knows of baselines.
type State struct {
	Outcome string    `json:"outcome"` // kept or closed
	Reason  string    `json:"reason,omitempty"`
	Digest  string    `json:"digest,omitempty"` // of what was kept
	Final   bool      `json:"final"`            // the control plane takes no other one
	At      time.Time `json:"at"`
}

// Answered is the state after the control plane has answered. A baseline that it
// has stays what it is when it does not take another one.
func (s State) Answered(r agentwire.BaselineResponse, digest string, at time.Time) State {
	if r.Outcome == agentwire.BaselineKept {
		return State{Outcome: r.Outcome, Digest: digest, At: at.UTC()}
	}
	if s.Outcome != agentwire.BaselineKept {
		s.Outcome = agentwire.BaselineClosed
	}
	s.Reason, s.Final, s.At = r.Reason, true, at.UTC()
	return s
}

// ReadState reads it; ok is false when no control plane has answered yet.
func ReadState(h hostexec.Host) (s State, ok bool, err error) {
	raw, err := os.ReadFile(h.Path(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return State{}, false, fmt.Errorf("read what became of the baseline: %w", err)
	}
	return s, true, nil
}

// WriteState keeps it.
func WriteState(h hostexec.Host, s State) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode what became of the baseline: %w", err)
	}
	if err := atomicfile.Write(h.Path(stateFile), raw, 0o600); err != nil {
		return fmt.Errorf("note what became of the baseline: %w", err)
	}
	return nil
}
