package agentwire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// TerminalProtocol is the websocket subprotocol of both legs of a session.
// Binary messages carry the bytes of the terminal, text messages one
// TerminalFrame each.
const TerminalProtocol = "gpuaas.terminal.v1"

// TerminalBearer begins the second subprotocol that a browser offers, which is
// the only place where it can put a token. The token follows.
const TerminalBearer = "bearer."

// Close codes of a session, beside those of the websocket protocol.
const (
	CloseUnauthenticated = 4401 // the token is unknown, used or expired; or its owner may no longer have a terminal
	CloseLimit           = 4408 // idle for too long, or open for too long
	CloseUnavailable     = 4503 // the node did not open the session, or was lost
)

// Bounds of what is sent in one message.
const (
	MaxTerminalMessage = 64 << 10
	maxTerminalFrame   = 4 << 10
)

// Types of control frames. The node sends the first three, and they are passed
// on to the user; the user sends the others.
const (
	FrameReady  = "session_ready"
	FrameError  = "session_error"
	FrameClosed = "session_closed"
	FrameResize = "resize"
	FrameClose  = "close"
)

// TerminalFrame is one control frame of a session.
type TerminalFrame struct {
	Type      string `json:"type"`
	SessionID string `json:"session_id,omitempty"` // session_ready
	Code      string `json:"code,omitempty"`       // session_error; session_closed: why access was lost
	Message   string `json:"message,omitempty"`
	Remedy    string `json:"remedy,omitempty"`
	Retryable bool   `json:"retryable,omitempty"`   // session_error: a new token may succeed
	Reason    string `json:"reason,omitempty"`      // session_closed
	Exit      *int   `json:"exit_status,omitempty"` // session_closed: of the shell; absent if the shell was ended
	Columns   int    `json:"cols,omitempty"`        // resize
	Rows      int    `json:"rows,omitempty"`
}

// Reasons why an open session ended.
const (
	ClosedShellEnded = "shell_ended"
	ClosedByUser     = "user_closed"
	ClosedUserLost   = "user_lost"
	ClosedNodeLost   = "node_lost"
	ClosedIdle       = "idle_limit"
	ClosedTotal      = "total_limit"
	ClosedStalled    = "stalled"
	ClosedProtocol   = "protocol_error"
	ClosedGateway    = "gateway_shutdown"
	ClosedRemoved    = "user_removed"
	ClosedOnRequest  = "closed_by_operator"
	ClosedDrained    = "node_emptied"
	ClosedAccessLost = "access_lost"
)

// Encode writes a frame.
func (f TerminalFrame) Encode() []byte {
	raw, err := json.Marshal(f)
	if err != nil { // strings and numbers only
		panic(err)
	}
	return raw
}

// DecodeTerminalFrame reads a frame strictly: it refuses unknown fields and
// types, sizes out of range and anything after the frame.
func DecodeTerminalFrame(raw []byte) (TerminalFrame, error) {
	var f TerminalFrame
	if len(raw) > maxTerminalFrame {
		return f, fmt.Errorf("control frame has more than %d bytes", maxTerminalFrame)
	}
	if err := strict(raw, &f); err != nil {
		return f, fmt.Errorf("read control frame: %w", err)
	}
	switch f.Type {
	case FrameReady, FrameError, FrameClosed, FrameClose:
		return f, nil
	case FrameResize:
		if f.Columns < 1 || f.Columns > 1000 || f.Rows < 1 || f.Rows > 1000 {
			return f, errors.New("cols and rows must be between 1 and 1000")
		}
		return f, nil
	}
	return f, fmt.Errorf("%q is not a type of control frame", f.Type)
}
