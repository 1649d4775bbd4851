package steps

import (
	"context"
	"errors"
	"fmt"

	"gpuaas/agent/internal/task"
	"gpuaas/agent/internal/terminal"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return terminalOpen{h} }, agentwire.TypeTerminalOpen)

// terminalOpen opens an interactive session.
type terminalOpen struct{ host }

// Check implements task.Handler. A session that ended with a crash of the agent
// is not opened again: its gateway has given it up.
func (h terminalOpen) Check(_ context.Context, t *task.Task) (any, bool, error) {
	return recall[agentwire.TerminalOpenOutput](t)
}

// Apply implements task.Handler.
func (h terminalOpen) Apply(ctx context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.TerminalOpenParams](t)
	if err != nil {
		return nil, err
	}
	if h.draining() {
		return nil, task.Fail("node_draining", "the node is being drained and opens no sessions", "lift the drain first", nil)
	}
	a, marked, err := h.marked(p.Username)
	if err != nil {
		return nil, err
	}
	if !marked || !a.Ready {
		return nil, task.Fail("user_not_provisioned",
			fmt.Sprintf("%s is not the user of an allocation on this node", p.Username),
			"provision the user first", nil)
	}
	if err := h.Terminals.Open(ctx, *p); err != nil {
		var refusal *terminal.Error
		if errors.As(err, &refusal) {
			return nil, task.Fail(refusal.Code, refusal.Message, refusal.Remedy, errors.Unwrap(refusal))
		}
		return nil, fmt.Errorf("open session %s: %w", p.SessionID, err)
	}
	out := agentwire.TerminalOpenOutput{SessionID: p.SessionID}
	return out, remember(t, out)
}

var _ = handles(func(h host) task.Handler { return terminalClose{h} }, agentwire.TypeTerminalClose)

// terminalClose ends an interactive session.
type terminalClose struct{ host }

// Check implements task.Handler.
func (h terminalClose) Check(_ context.Context, t *task.Task) (any, bool, error) {
	return recall[agentwire.TerminalCloseOutput](t)
}

// Apply implements task.Handler.
func (h terminalClose) Apply(_ context.Context, t *task.Task) (any, error) {
	p, err := params[agentwire.TerminalCloseParams](t)
	if err != nil {
		return nil, err
	}
	out := agentwire.TerminalCloseOutput{SessionID: p.SessionID, Existed: h.Terminals.Close(p.SessionID)}
	return out, remember(t, out)
}
