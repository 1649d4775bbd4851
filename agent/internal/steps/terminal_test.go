package steps

import (
	"errors"
	"testing"

	"gpuaas/agent/internal/terminal"
	"gpuaas/contract/agentwire"
)

func session(user string) agentwire.TerminalOpenParams {
	return agentwire.TerminalOpenParams{
		SessionID: allocation, Username: user, GatewayURL: "wss://gateway.example:1",
		Columns: 80, Rows: 24, IdleSeconds: 60, TotalSeconds: 600,
	}
}

func TestTerminals(t *testing.T) {
	b := provisioned(t)
	open := b.job(agentwire.TypeTerminalOpen, session("alice"))
	open.mustCheck(false)
	b.terminals.refuse = errors.New("the gateway is away")
	if _, err := open.handler.Apply(t.Context(), open.task); err == nil {
		t.Error("a session that was not opened counts")
	}
	open.mustCheck(false)
	b.terminals.refuse = &terminal.Error{Code: "too_many_sessions", Message: "full", Remedy: "wait"}
	open.applyFails("too_many_sessions")
	b.terminals.refuse = nil
	open.apply()
	open.mustCheck(true)
	b.job(agentwire.TypeTerminalOpen, session("admin")).applyFails("user_not_provisioned")

	closing := b.job(agentwire.TypeTerminalClose, agentwire.TerminalCloseParams{SessionID: allocation})
	closing.mustCheck(false)
	if out := closing.apply().(agentwire.TerminalCloseOutput); !out.Existed {
		t.Errorf("output %+v", out)
	}
	closing.mustCheck(true)
	if out := b.job(agentwire.TypeTerminalClose,
		agentwire.TerminalCloseParams{SessionID: allocation}).apply().(agentwire.TerminalCloseOutput); out.Existed {
		t.Errorf("output %+v", out)
	}
}
