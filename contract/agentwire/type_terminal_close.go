package agentwire

import (
	"errors"
	"time"
)

// TypeTerminalClose ends an interactive session.
const TypeTerminalClose = "terminal.close"

var _ = declare[TerminalCloseParams, TerminalCloseOutput](Spec{
	Type: TypeTerminalClose, Title: "end an interactive session",
	Class: ClassConcurrent, Window: max(Lease, time.Minute), Patience: 5 * time.Minute, Attempts: 3,
	Sound: []string{`{"session_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c"}`},
})

// TerminalCloseParams names the session to end.
type TerminalCloseParams struct {
	SessionID string `json:"session_id"`
}

// Validate implements Params.
func (p TerminalCloseParams) Validate() error {
	if !uuidForm.MatchString(p.SessionID) {
		return errors.New("session_id is not a UUID")
	}
	return nil
}

// TerminalCloseOutput says whether there was a session to end.
type TerminalCloseOutput struct {
	SessionID string `json:"session_id"`
	Existed   bool   `json:"existed"`
}
