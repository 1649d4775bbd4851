package agentwire

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// TypeTerminalOpen opens an interactive session.
const TypeTerminalOpen = "terminal.open"

var _ = declare[TerminalOpenParams, TerminalOpenOutput](Spec{
	Type: TypeTerminalOpen, Title: "open an interactive session",
	Class: ClassConcurrent, Window: max(Lease, time.Minute), Patience: max(Lease, time.Minute), Attempts: 1,
	Reserved: "open a terminal with: gpuaas terminal NODE", LetsIn: true,
	KeptOut: []string{
		"user_not_provisioned", "user_not_allowed", "node_draining", "terminal_params_invalid",
		"terminal_too_many_sessions", "terminal_gateway_not_allowed", "terminal_gateway_unreachable",
		"terminal_session_ended", "terminal_session_not_found",
	},
	Sound: []string{
		`{"session_id":"0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c","username":"alice","gateway_url":"wss://gateway.example:8444",` +
			`"columns":80,"rows":24,"idle_seconds":600,"total_seconds":3600}`,
	},
})

// TerminalOpenParams authorises one session as an allocation user.
type TerminalOpenParams struct {
	SessionID    string `json:"session_id"`
	Username     string `json:"username"`
	GatewayURL   string `json:"gateway_url"` // wss://host:port of the replica that waits for the session
	Columns      int    `json:"columns"`
	Rows         int    `json:"rows"`
	IdleSeconds  int    `json:"idle_seconds"`
	TotalSeconds int    `json:"total_seconds"`
}

// Validate implements Params.
func (p TerminalOpenParams) Validate() error {
	u, err := url.Parse(p.GatewayURL)
	switch {
	case !uuidForm.MatchString(p.SessionID):
		return errors.New("session_id is not a UUID")
	case !userName.MatchString(p.Username) || p.Username == "root":
		return fmt.Errorf("%q cannot have a session", p.Username)
	case err != nil || u.Scheme != "wss" || u.Host == "" || u.User != nil:
		return errors.New("gateway_url is not a wss address")
	case p.Columns < 1 || p.Columns > 1000 || p.Rows < 1 || p.Rows > 1000:
		return errors.New("columns and rows must be between 1 and 1000")
	case p.IdleSeconds < 1 || p.TotalSeconds < 1 || p.IdleSeconds > 86400 || p.TotalSeconds > 86400:
		return errors.New("idle_seconds and total_seconds must be between 1 and 86400")
	}
	return nil
}

// TerminalOpenOutput says that the agent has taken the session up.
type TerminalOpenOutput struct {
	SessionID string `json:"session_id"`
}
